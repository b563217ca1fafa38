// RUN: XDSL_ROUNDTRIP --match-full-lines
// RUN: XDSL_GENERIC_ROUNDTRIP --match-full-lines

// Attributes that the ops do not know are kept.

func.func @attributes(%f: f32) {
  %0 = quant.qcast %f {a = 1 : i8} : f32 to !quant.uniform<i8:f32, 2.0>
  %1 = "quant.dcast"(%0) {b} : (!quant.uniform<i8:f32, 2.0>) -> f32
  %2 = quant.scast %0 {c = "d"} : !quant.uniform<i8:f32, 2.0> to i8
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @attributes(%f: f32) {
// CHECK-NEXT:      %0 = quant.qcast %f {a = 1 : i8} : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %1 = quant.dcast %0 {b} : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CHECK-NEXT:      %2 = quant.scast %0 {c = "d"} : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// CHECK-GENERIC:       "builtin.module"() ({
// CHECK-GENERIC-NEXT:    "func.func"() <{sym_name = "attributes", function_type = (f32) -> ()}> ({
// CHECK-GENERIC-NEXT:    ^bb0(%f: f32):
// CHECK-GENERIC-NEXT:      %0 = "quant.qcast"(%f) {a = 1 : i8} : (f32) -> !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-GENERIC-NEXT:      %1 = "quant.dcast"(%0) {b} : (!quant.uniform<i8:f32, 2.000000e+00>) -> f32
// CHECK-GENERIC-NEXT:      %2 = "quant.scast"(%0) {c = "d"} : (!quant.uniform<i8:f32, 2.000000e+00>) -> i8
// CHECK-GENERIC-NEXT:      "func.return"() : () -> ()
// CHECK-GENERIC-NEXT:    }) : () -> ()
// CHECK-GENERIC-NEXT:  }) : () -> ()

// -----

func.func @scalars(%f: f32, %h: f16, %i: i8, %u: i16) {
  %0 = quant.qcast %f : f32 to !quant.uniform<i8:f32, 2.0>
  %1 = quant.dcast %0 : !quant.uniform<i8:f32, 2.0> to f32
  %2 = quant.scast %0 : !quant.uniform<i8:f32, 2.0> to i8
  %3 = quant.scast %i : i8 to !quant.uniform<i8<-8:7>:f32, 2.0:3>
  %4 = quant.scast %u : i16 to !quant.uniform<u16:f64, 2.0>
  %5 = quant.qcast %h : f16 to !quant.uniform<u4:f16, 2.0>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @scalars(%f: f32, %h: f16, %i: i8, %u: i16) {
// CHECK-NEXT:      %0 = quant.qcast %f : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %1 = quant.dcast %0 : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CHECK-NEXT:      %2 = quant.scast %0 : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %3 = quant.scast %i : i8 to !quant.uniform<i8<-8:7>:f32, 2.000000e+00:3>
// CHECK-NEXT:      %4 = quant.scast %u : i16 to !quant.uniform<u16:f64, 2.000000e+00>
// CHECK-NEXT:      %5 = quant.qcast %h : f16 to !quant.uniform<u4:f16, 2.000000e+00>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @tensors(
  %zero: tensor<f32>, %static: tensor<2x3xf32>, %dynamic: tensor<?x3xf32>,
  %unranked: tensor<*xf32>, %encoded: tensor<4xf32, "encoding">
) {
  %0 = quant.qcast %zero : tensor<f32> to tensor<!quant.uniform<i8:f32, 2.0>>
  %1 = quant.qcast %static : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32, 2.0>>
  %2 = quant.qcast %dynamic : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32, 2.0>>
  %3 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32, 2.0>>
  %4 = quant.scast %1 : tensor<2x3x!quant.uniform<i8:f32, 2.0>> to tensor<2x3xi8>
  %5 = quant.dcast %3 : tensor<*x!quant.uniform<i8:f32, 2.0>> to tensor<*xf32>
  // Encodings do not have to agree.
  %6 = quant.qcast %encoded : tensor<4xf32, "encoding"> to tensor<4x!quant.uniform<i8:f32, 2.0>>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @tensors(%zero: tensor<f32>, %static: tensor<2x3xf32>, %dynamic: tensor<?x3xf32>, %unranked: tensor<*xf32>, %encoded: tensor<4xf32, "encoding">) {
// CHECK-NEXT:      %0 = quant.qcast %zero : tensor<f32> to tensor<!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:      %1 = quant.qcast %static : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:      %2 = quant.qcast %dynamic : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:      %3 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:      %4 = quant.scast %1 : tensor<2x3x!quant.uniform<i8:f32, 2.000000e+00>> to tensor<2x3xi8>
// CHECK-NEXT:      %5 = quant.dcast %3 : tensor<*x!quant.uniform<i8:f32, 2.000000e+00>> to tensor<*xf32>
// CHECK-NEXT:      %6 = quant.qcast %encoded : tensor<4xf32, "encoding"> to tensor<4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @per_axis(
  %static: tensor<2x3xf32>, %dynamic: tensor<?x?xf32>, %unranked: tensor<*xi8>
) {
  %0 = quant.qcast %static : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32:1, {1.0, 2.0:3, 4.0}>>
  %1 = quant.qcast %dynamic : tensor<?x?xf32> to tensor<?x?x!quant.uniform<i8:f32:0, {1.0, 2.0:3}>>
  %2 = quant.scast %unranked : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:7, {1.0, 2.0}>>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @per_axis(%static: tensor<2x3xf32>, %dynamic: tensor<?x?xf32>, %unranked: tensor<*xi8>) {
// CHECK-NEXT:      %0 = quant.qcast %static : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00:3,4.000000e+00}>>
// CHECK-NEXT:      %1 = quant.qcast %dynamic : tensor<?x?xf32> to tensor<?x?x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00:3}>>
// CHECK-NEXT:      %2 = quant.scast %unranked : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:7, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @sub_channel(
  %static: tensor<2x4xf32>, %dynamic: tensor<?x4xf32>, %quantized: tensor<2x4x!quant.uniform<i8:f32:{}, {{1.0}}>>
) {
  %0 = quant.qcast %static : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0:5}}>>
  %1 = quant.qcast %static : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{1:4}, {{1.0}}>>
  // The number of blocks is not known.
  %2 = quant.qcast %dynamic : tensor<?x4xf32> to tensor<?x4x!quant.uniform<i8:f32:{0:3, 1:2}, {{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}>>
  %3 = quant.dcast %quantized : tensor<2x4x!quant.uniform<i8:f32:{}, {{1.0}}>> to tensor<2x4xf32>
  // The last block size of a dimension is in force.
  %4 = quant.qcast %static : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{1:1, 1:2}, {{1.0, 2.0}}>>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @sub_channel(%static: tensor<2x4xf32>, %dynamic: tensor<?x4xf32>, %quantized: tensor<2x4x!quant.uniform<i8:f32:{}, {{{{}}1.000000e+00}}>>) {
// CHECK-NEXT:      %0 = quant.qcast %static : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{{{}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00:5}}>>
// CHECK-NEXT:      %1 = quant.qcast %static : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{1:4}, {{{{}}1.000000e+00}}>>
// CHECK-NEXT:      %2 = quant.qcast %dynamic : tensor<?x4xf32> to tensor<?x4x!quant.uniform<i8:f32:{0:3, 1:2}, {{{{}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00}, {5.000000e+00, 6.000000e+00}}>>
// CHECK-NEXT:      %3 = quant.dcast %quantized : tensor<2x4x!quant.uniform<i8:f32:{}, {{{{}}1.000000e+00}}>> to tensor<2x4xf32>
// CHECK-NEXT:      %4 = quant.qcast %static : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{1:1, 1:2}, {{{{}}1.000000e+00, 2.000000e+00}}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// MLIR refuses sub-channel types on unranked tensors. Here scales have one dimension for
// each dimension of the tensor, or for each one that is cut into blocks.

func.func @sub_channel_unranked(%unranked: tensor<*xf32>, %stored: tensor<*xi8>) {
  %0 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{1.0, 2.0}}}}>>
  %1 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  %2 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{5:2}, {1.0, 2.0}>>
  %3 = quant.scast %stored : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{}, {{1.0}}>>
  %4 = quant.dcast %1 : tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{1.0, 2.0}, {3.0, 4.0}}>> to tensor<*xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @sub_channel_unranked(%unranked: tensor<*xf32>, %stored: tensor<*xi8>) {
// CHECK-NEXT:      %0 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00, 2.000000e+00}}}}>>
// CHECK-NEXT:      %1 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>>
// CHECK-NEXT:      %2 = quant.qcast %unranked : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{5:2}, {1.000000e+00, 2.000000e+00}>>
// CHECK-NEXT:      %3 = quant.scast %stored : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{}, {{{{}}1.000000e+00}}>>
// CHECK-NEXT:      %4 = quant.dcast %1 : tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>> to tensor<*xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Types that cannot be lowered can still be cast.

func.func @any_and_calibrated(%f: tensor<2xf32>, %i: i8) {
  %0 = quant.qcast %f : tensor<2xf32> to tensor<2x!quant.any<i8:f32>>
  %1 = quant.dcast %0 : tensor<2x!quant.any<i8:f32>> to tensor<2xf32>
  %2 = quant.qcast %f : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.0:1.0>>>
  %3 = quant.dcast %2 : tensor<2x!quant.calibrated<f32<-1.0:1.0>>> to tensor<2xf32>
  %4 = quant.scast %i : i8 to !quant.any<i8>
  %5 = quant.scast %i : i8 to !quant.any<u8<1:2>:f32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @any_and_calibrated(%f: tensor<2xf32>, %i: i8) {
// CHECK-NEXT:      %0 = quant.qcast %f : tensor<2xf32> to tensor<2x!quant.any<i8:f32>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.any<i8:f32>> to tensor<2xf32>
// CHECK-NEXT:      %2 = quant.qcast %f : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>>
// CHECK-NEXT:      %3 = quant.dcast %2 : tensor<2x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:      %4 = quant.scast %i : i8 to !quant.any<i8>
// CHECK-NEXT:      %5 = quant.scast %i : i8 to !quant.any<u8<1:2>:f32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }
