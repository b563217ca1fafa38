// RUN: xdsl-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p canonicalize --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s --check-prefix=CANON --match-full-lines
// RUN: xdsl-opt %s -p cse --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s --check-prefix=CSE --match-full-lines
// RUN: xdsl-opt %s -p lower-quant-ops --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s --check-prefix=LOWER --match-full-lines

// The examples of the document "Improvements in the 'quant' dialect". What it leaves out,
// such as the function around an op, is filled in.

// Per-layer quantization: no clamping information, and the zero point 0; then 10 of the 16
// bits by a clamping range, and a zero point of 512.

func.func private @per_layer_types(
  !quant.uniform<i8:f32, 3.0>,
  !quant.uniform<u16<0:1023>:f32, 1.23:512>)

// CHECK:         func.func private @per_layer_types(!quant.uniform<i8:f32, 3.000000e+00>, !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>) -> ()
// CHECK-NEXT:  }

// -----

// Per-channel quantization: dimension 1 of size 3; dimension 0, whose size is to be 2 at
// run time.

func.func private @per_channel_types(
  tensor<2x3x4x!quant.uniform<i8:f32:1, {3.0, 4.0, 5.0}>>,
  tensor<?x?x!quant.uniform<u16:f32:0, {2.0:10, 3.0:20}>>)

// CHECK:         func.func private @per_channel_types(tensor<2x3x4x!quant.uniform<i8:f32:1, {3.000000e+00,4.000000e+00,5.000000e+00}>>, tensor<?x?x!quant.uniform<u16:f32:0, {2.000000e+00:10,3.000000e+00:20}>>) -> ()
// CHECK-NEXT:  }

// -----

// Per-axis quantization integrity: per-channel types are element types of tensors.

func.func @incorrect(%input: f32) {
  %result = quant.qcast %input : f32 to !quant.uniform<i8:f32:0, {1.0, 2.0}>
  return
}

// CHECK:       scalar types may not use per-axis quantization

// -----

func.func @correct_container(%input: tensor<2xf32>) {
  %result = quant.qcast %input : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  return
}

// CHECK:         func.func @correct_container(%input: tensor<2xf32>) {
// CHECK-NEXT:      %result = quant.qcast %input : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// The rank of the tensor is greater than the channel axis.

func.func @incorrect(%input: tensor<1x2xf32>) {
  %result = quant.qcast %input : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>>
  return
}

// CHECK:       quantized dimension must be less than tensor rank

// -----

func.func @correct_rank(%input: tensor<1x2xf32>) {
  %result = quant.qcast %input : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  return
}

// CHECK:         func.func @correct_rank(%input: tensor<1x2xf32>) {
// CHECK-NEXT:      %result = quant.qcast %input : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A static size of the axis dimension is the number of scales.

func.func @incorrect(%input: tensor<?x3xf32>) {
  %result = quant.qcast %input : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>
  return
}

// CHECK:       quantized dimension size does not match number of scales

// -----

// The document corrects {1.0, 2.0, 3.0, 4.0} to {2.0, 3.0, 4.0}; it is the count that
// matters, so this is as correct as {1.0, 2.0, 3.0}.

func.func @correct_size(%input: tensor<?x3xf32>) {
  %result = quant.qcast %input : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32:1, {2.0, 3.0, 4.0}>>
  return
}

// CHECK:         func.func @correct_size(%input: tensor<?x3xf32>) {
// CHECK-NEXT:      %result = quant.qcast %input : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00,4.000000e+00}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Operation quant.dcast: a scalar, a dynamically shaped tensor, an unranked tensor with a
// per-axis type.

func.func @dcast(%scalar: !quant.uniform<i8:f32, 2.0>, %dynamic: tensor<?x!quant.uniform<i8:f32, 2.0>>, %unranked: tensor<*x!quant.uniform<i8:f32:1, {2.0, 3.0}>>) {
  %result = quant.dcast %scalar : !quant.uniform<i8:f32, 2.0> to f32
  %result_1 = quant.dcast %dynamic : tensor<?x!quant.uniform<i8:f32, 2.0>> to tensor<?xf32>
  %result_2 = quant.dcast %unranked : tensor<*x!quant.uniform<i8:f32:1, {2.0, 3.0}>> to tensor<*xf32>
  return
}

// CHECK:         func.func @dcast(%scalar: !quant.uniform<i8:f32, 2.000000e+00>, %dynamic: tensor<?x!quant.uniform<i8:f32, 2.000000e+00>>, %unranked: tensor<*x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00}>>) {
// CHECK-NEXT:      %result = quant.dcast %scalar : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CHECK-NEXT:      %result_1 = quant.dcast %dynamic : tensor<?x!quant.uniform<i8:f32, 2.000000e+00>> to tensor<?xf32>
// CHECK-NEXT:      %result_2 = quant.dcast %unranked : tensor<*x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00}>> to tensor<*xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// The document's input and output show no use; here it is `return`.

func.func @dcast_of_qcast(%0: f32) -> f32 {
  %1 = quant.qcast %0 : f32 to !quant.uniform<i8:f32, 2.0>
  %2 = quant.dcast %1 : !quant.uniform<i8:f32, 2.0> to f32
  return %2 : f32
}

// CANON:         func.func @dcast_of_qcast(%0: f32) -> f32 {
// CANON-NEXT:      func.return %0 : f32
// CANON-NEXT:    }
// CANON-NEXT:  }

// -----

// Operation quant.qcast.

func.func @qcast(%scalar: f32, %dynamic: tensor<?xf32>, %unranked: tensor<*xf32>) {
  %result = quant.qcast %scalar : f32 to !quant.uniform<i8:f32, 2.0>
  %result_1 = quant.qcast %dynamic : tensor<?xf32> to tensor<?x!quant.uniform<i8:f32, 2.0>>
  %result_2 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:1, {2.0, 3.0}>>
  return
}

// CHECK:         func.func @qcast(%scalar: f32, %dynamic: tensor<?xf32>, %unranked: tensor<*xf32>) {
// CHECK-NEXT:      %result = quant.qcast %scalar : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %result_1 = quant.qcast %dynamic : tensor<?xf32> to tensor<?x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:      %result_2 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @qcast_of_dcast(%0: !quant.uniform<i8:f32, 2.0>) -> !quant.uniform<i8:f32, 2.0> {
  %1 = quant.dcast %0 : !quant.uniform<i8:f32, 2.0> to f32
  %2 = quant.qcast %1 : f32 to !quant.uniform<i8:f32, 2.0>
  return %2 : !quant.uniform<i8:f32, 2.0>
}

// CANON:         func.func @qcast_of_dcast(%0: !quant.uniform<i8:f32, 2.000000e+00>) -> !quant.uniform<i8:f32, 2.000000e+00> {
// CANON-NEXT:      func.return %0 : !quant.uniform<i8:f32, 2.000000e+00>
// CANON-NEXT:    }
// CANON-NEXT:  }

// -----

// Operation quant.scast.

func.func @scast(%scalar: !quant.uniform<i8:f32, 2.0>, %dynamic: tensor<?x!quant.uniform<i8:f32, 2.0>>, %unranked: tensor<*xi8>) {
  %result = quant.scast %scalar : !quant.uniform<i8:f32, 2.0> to i8
  %result_1 = quant.scast %dynamic : tensor<?x!quant.uniform<i8:f32, 2.0>> to tensor<?xi8>
  %result_2 = quant.scast %unranked : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:1, {2.0, 3.0}>>
  return
}

// CHECK:         func.func @scast(%scalar: !quant.uniform<i8:f32, 2.000000e+00>, %dynamic: tensor<?x!quant.uniform<i8:f32, 2.000000e+00>>, %unranked: tensor<*xi8>) {
// CHECK-NEXT:      %result = quant.scast %scalar : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %result_1 = quant.scast %dynamic : tensor<?x!quant.uniform<i8:f32, 2.000000e+00>> to tensor<?xi8>
// CHECK-NEXT:      %result_2 = quant.scast %unranked : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @scast_of_scast(%0: i8) -> i8 {
  %1 = quant.scast %0 : i8 to !quant.uniform<i8:f32, 2.0>
  %2 = quant.scast %1 : !quant.uniform<i8:f32, 2.0> to i8
  return %2 : i8
}

// CANON:         func.func @scast_of_scast(%0: i8) -> i8 {
// CANON-NEXT:      func.return %0 : i8
// CANON-NEXT:    }
// CANON-NEXT:  }

// -----

// Lowering, case 1: per-layer quantization, scalar or ranked input. The ops are those of
// the document, which has both constants where they are used first; MLIR has them together.

!qalias = !quant.uniform<i8<-8:7>:f32, 2.0:10>
func.func @per_layer_ranked(%arg0: tensor<3x5xf32>) -> tensor<3x5x!qalias> {
  %0 = quant.qcast %arg0 : tensor<3x5xf32> to tensor<3x5x!qalias>
  return %0 : tensor<3x5x!qalias>
}

// LOWER:         func.func @per_layer_ranked(%arg0: tensor<3x5xf32>) -> tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>> {
// LOWER-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// LOWER-NEXT:      %1 = arith.constant 10 : i8
// LOWER-NEXT:      %2 = tensor.splat %0 : tensor<3x5xf32>
// LOWER-NEXT:      %3 = arith.divf %arg0, %2 : tensor<3x5xf32>
// LOWER-NEXT:      %4 = tensor.splat %1 : tensor<3x5xi8>
// LOWER-NEXT:      %5 = arith.sitofp %4 : tensor<3x5xi8> to tensor<3x5xf32>
// LOWER-NEXT:      %6 = arith.addf %3, %5 : tensor<3x5xf32>
// LOWER-NEXT:      %7 = arith.fptosi %6 : tensor<3x5xf32> to tensor<3x5xi8>
// LOWER-NEXT:      %8 = arith.constant -8 : i8
// LOWER-NEXT:      %9 = arith.constant 7 : i8
// LOWER-NEXT:      %10 = tensor.splat %8 : tensor<3x5xi8>
// LOWER-NEXT:      %11 = tensor.splat %9 : tensor<3x5xi8>
// LOWER-NEXT:      %12 = arith.maxsi %7, %10 : tensor<3x5xi8>
// LOWER-NEXT:      %13 = arith.minsi %12, %11 : tensor<3x5xi8>
// LOWER-NEXT:      %14 = quant.scast %13 : tensor<3x5xi8> to tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>
// LOWER-NEXT:      func.return %14 : tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>
// LOWER-NEXT:    }
// LOWER-NEXT:  }

// -----

// Lowering, case 2: per-layer quantization, unranked input.

!qalias = !quant.uniform<i8:f32, 2.0:10>
func.func @per_layer_unranked(%arg0: tensor<*xf32>) -> tensor<*x!qalias> {
  %0 = quant.qcast %arg0 : tensor<*xf32> to tensor<*x!qalias>
  return %0 : tensor<*x!qalias>
}

// LOWER:         func.func @per_layer_unranked(%arg0: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32, 2.000000e+00:10>> {
// LOWER-NEXT:      %0 = shape.shape_of %arg0 : tensor<*xf32> -> tensor<?xindex>
// LOWER-NEXT:      %1 = shape.num_elements %0 : tensor<?xindex> -> index
// LOWER-NEXT:      %2 = tensor.from_elements %1 : tensor<1xindex>
// LOWER-NEXT:      %3 = tensor.reshape %arg0(%2) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// LOWER-NEXT:      %4 = arith.constant 2.000000e+00 : f32
// LOWER-NEXT:      %5 = arith.constant 10 : i8
// LOWER-NEXT:      %6 = arith.constant 0 : index
// LOWER-NEXT:      %7 = tensor.dim %3, %6 : tensor<?xf32>
// LOWER-NEXT:      %8 = tensor.splat %4[%7] : tensor<?xf32>
// LOWER-NEXT:      %9 = arith.divf %3, %8 : tensor<?xf32>
// LOWER-NEXT:      %10 = tensor.splat %5[%7] : tensor<?xi8>
// LOWER-NEXT:      %11 = arith.sitofp %10 : tensor<?xi8> to tensor<?xf32>
// LOWER-NEXT:      %12 = arith.addf %9, %11 : tensor<?xf32>
// LOWER-NEXT:      %13 = arith.fptosi %12 : tensor<?xf32> to tensor<?xi8>
// LOWER-NEXT:      %14 = tensor.reshape %13(%0) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// LOWER-NEXT:      %15 = quant.scast %14 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32, 2.000000e+00:10>>
// LOWER-NEXT:      func.return %15 : tensor<*x!quant.uniform<i8:f32, 2.000000e+00:10>>
// LOWER-NEXT:    }
// LOWER-NEXT:  }

// -----

// Lowering, case 3: per-channel quantization, ranked input.

!qalias = !quant.uniform<i8<-8:7>:f32:1, {2.0, 3.0}>
func.func @per_channel_ranked(%arg0: tensor<4x2x5xf32>) -> tensor<4x2x5x!qalias> {
  %0 = "quant.qcast"(%arg0) : (tensor<4x2x5xf32>) -> tensor<4x2x5x!qalias>
  return %0 : tensor<4x2x5x!qalias>
}

// LOWER:         func.func @per_channel_ranked(%arg0: tensor<4x2x5xf32>) -> tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00}>> {
// LOWER-NEXT:      %0 = arith.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// LOWER-NEXT:      %1 = arith.constant dense<0> : tensor<2xi8>
// LOWER-NEXT:      %2 = tensor.empty() : tensor<4x2x5xi8>
// LOWER-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %0, %1 : tensor<4x2x5xf32>, tensor<2xf32>, tensor<2xi8>) outs(%2 : tensor<4x2x5xi8>) {
// LOWER-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// LOWER-NEXT:        %4 = arith.divf %in, %scale : f32
// LOWER-NEXT:        %5 = arith.sitofp %zero_point : i8 to f32
// LOWER-NEXT:        %6 = arith.addf %4, %5 : f32
// LOWER-NEXT:        %7 = arith.fptosi %6 : f32 to i8
// LOWER-NEXT:        %8 = arith.constant -8 : i8
// LOWER-NEXT:        %9 = arith.constant 7 : i8
// LOWER-NEXT:        %10 = arith.maxsi %7, %8 : i8
// LOWER-NEXT:        %11 = arith.minsi %10, %9 : i8
// LOWER-NEXT:        linalg.yield %11 : i8
// LOWER-NEXT:      } -> tensor<4x2x5xi8>
// LOWER-NEXT:      %12 = quant.scast %3 : tensor<4x2x5xi8> to tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00}>>
// LOWER-NEXT:      func.return %12 : tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00}>>
// LOWER-NEXT:    }
// LOWER-NEXT:  }

// -----

// Lowering, case 4: per-channel quantization, unranked input.

!qalias = !quant.uniform<i8:f32:2, {2.0:10, 3.0:20, 4.0:30}>
func.func @per_channel_unranked(%arg0: tensor<*xf32>) -> tensor<*x!qalias> {
  %0 = "quant.qcast"(%arg0) : (tensor<*xf32>) -> tensor<*x!qalias>
  return %0 : tensor<*x!qalias>
}

// LOWER:         func.func @per_channel_unranked(%arg0: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>> {
// LOWER-NEXT:      %0 = shape.shape_of %arg0 : tensor<*xf32> -> tensor<?xindex>
// LOWER-NEXT:      %1 = arith.constant 2 : index
// LOWER-NEXT:      %2 = arith.constant 3 : index
// LOWER-NEXT:      %3, %4 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// LOWER-NEXT:      %5 = shape.num_elements %3 : tensor<?xindex> -> index
// LOWER-NEXT:      %6, %7 = "shape.split_at"(%0, %2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// LOWER-NEXT:      %8 = shape.num_elements %7 : tensor<?xindex> -> index
// LOWER-NEXT:      %9 = arith.constant 3 : index
// LOWER-NEXT:      %10 = tensor.from_elements %5, %9, %8 : tensor<3xindex>
// LOWER-NEXT:      %11 = tensor.reshape %arg0(%10) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x3x?xf32>
// LOWER-NEXT:      %12 = arith.constant dense<[2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<3xf32>
// LOWER-NEXT:      %13 = arith.constant dense<[10, 20, 30]> : tensor<3xi8>
// LOWER-NEXT:      %14 = arith.constant 0 : index
// LOWER-NEXT:      %15 = tensor.dim %11, %14 : tensor<?x3x?xf32>
// LOWER-NEXT:      %16 = arith.constant 2 : index
// LOWER-NEXT:      %17 = tensor.dim %11, %16 : tensor<?x3x?xf32>
// LOWER-NEXT:      %18 = tensor.empty(%15, %17) : tensor<?x3x?xi8>
// LOWER-NEXT:      %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11, %12, %13 : tensor<?x3x?xf32>, tensor<3xf32>, tensor<3xi8>) outs(%18 : tensor<?x3x?xi8>) {
// LOWER-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// LOWER-NEXT:        %20 = arith.divf %in, %scale : f32
// LOWER-NEXT:        %21 = arith.sitofp %zero_point : i8 to f32
// LOWER-NEXT:        %22 = arith.addf %20, %21 : f32
// LOWER-NEXT:        %23 = arith.fptosi %22 : f32 to i8
// LOWER-NEXT:        linalg.yield %23 : i8
// LOWER-NEXT:      } -> tensor<?x3x?xi8>
// LOWER-NEXT:      %24 = tensor.reshape %19(%0) : (tensor<?x3x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// LOWER-NEXT:      %25 = quant.scast %24 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>>
// LOWER-NEXT:      func.return %25 : tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>>
// LOWER-NEXT:    }
// LOWER-NEXT:  }

// -----

// Common subexpression elimination: the second pair of dequantizations goes.

!qalias = !quant.uniform<i8:f32, 2.0>

func.func @division(%arg0: tensor<3x!qalias>, %arg1: tensor<3x!qalias>) -> (tensor<3x!qalias>, tensor<3x!qalias>) {
  %arg0_f32 = "quant.dcast"(%arg0) : (tensor<3x!qalias>) -> tensor<3xf32>
  %arg1_f32 = "quant.dcast"(%arg1) : (tensor<3x!qalias>) -> tensor<3xf32>
  %quotient_f32 = arith.divf %arg0_f32, %arg1_f32 : tensor<3xf32>
  %quotient = "quant.qcast"(%quotient_f32) : (tensor<3xf32>) -> tensor<3x!qalias>

  %arg0_f32_1 = "quant.dcast"(%arg0) : (tensor<3x!qalias>) -> tensor<3xf32>
  %arg1_f32_1 = "quant.dcast"(%arg1) : (tensor<3x!qalias>) -> tensor<3xf32>
  %remainder_f32 = arith.remf %arg0_f32_1, %arg1_f32_1 : tensor<3xf32>
  %remainder = "quant.qcast"(%remainder_f32) : (tensor<3xf32>) -> tensor<3x!qalias>

  return %quotient, %remainder : tensor<3x!qalias>, tensor<3x!qalias>
}

// CSE:         func.func @division(%arg0: tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>, %arg1: tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>) -> (tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>, tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>) {
// CSE-NEXT:      %arg0_f32 = quant.dcast %arg0 : tensor<3x!quant.uniform<i8:f32, 2.000000e+00>> to tensor<3xf32>
// CSE-NEXT:      %arg1_f32 = quant.dcast %arg1 : tensor<3x!quant.uniform<i8:f32, 2.000000e+00>> to tensor<3xf32>
// CSE-NEXT:      %quotient_f32 = arith.divf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CSE-NEXT:      %quotient = quant.qcast %quotient_f32 : tensor<3xf32> to tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>
// CSE-NEXT:      %remainder_f32 = arith.remf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CSE-NEXT:      %remainder = quant.qcast %remainder_f32 : tensor<3xf32> to tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>
// CSE-NEXT:      func.return %quotient, %remainder : tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>, tensor<3x!quant.uniform<i8:f32, 2.000000e+00>>
// CSE-NEXT:    }
// CSE-NEXT:  }

// -----

// Workflow: canonicalization removes the quantization of the product.

!qalias = !quant.uniform<i8:f32:0, {2.0, 3.0, 4.0}>

func.func @multiply_add(%arg0: tensor<3x!qalias>, %arg1: tensor<3x!qalias>, %arg2: tensor<3x!qalias>) -> tensor<3x!qalias> {
  %arg0_f32 = "quant.dcast"(%arg0) : (tensor<3x!qalias>) -> tensor<3xf32>
  %arg1_f32 = "quant.dcast"(%arg1) : (tensor<3x!qalias>) -> tensor<3xf32>
  %product_f32 = arith.mulf %arg0_f32, %arg1_f32 : tensor<3xf32>
  %product = "quant.qcast"(%product_f32) : (tensor<3xf32>) -> tensor<3x!qalias>

  %product_f32_1 = "quant.dcast"(%product) : (tensor<3x!qalias>) -> tensor<3xf32>
  %arg2_f32 = "quant.dcast"(%arg2) : (tensor<3x!qalias>) -> tensor<3xf32>
  %sum_f32 = arith.addf %product_f32_1, %arg2_f32 : tensor<3xf32>
  %sum = "quant.qcast"(%sum_f32) : (tensor<3xf32>) -> tensor<3x!qalias>

  return %sum : tensor<3x!qalias>
}

// CANON:         func.func @multiply_add(%arg0: tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>, %arg1: tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>, %arg2: tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>) -> tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> {
// CANON-NEXT:      %arg0_f32 = quant.dcast %arg0 : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> to tensor<3xf32>
// CANON-NEXT:      %arg1_f32 = quant.dcast %arg1 : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> to tensor<3xf32>
// CANON-NEXT:      %product_f32 = arith.mulf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CANON-NEXT:      %arg2_f32 = quant.dcast %arg2 : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> to tensor<3xf32>
// CANON-NEXT:      %sum_f32 = arith.addf %product_f32, %arg2_f32 : tensor<3xf32>
// CANON-NEXT:      %sum = quant.qcast %sum_f32 : tensor<3xf32> to tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>
// CANON-NEXT:      func.return %sum : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>
// CANON-NEXT:    }
// CANON-NEXT:  }
