// RUN: xdsl-opt %s -p convert-stablehlo-to-linalg --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p convert-stablehlo-to-linalg --split-input-file | xdsl-opt --split-input-file | filecheck %s --match-full-lines

func.func @elementwise(%x: tensor<4x?xf32>, %y: tensor<4x?xf32>, %low: tensor<f32>, %high: tensor<f32>) -> tensor<4x?xf32> {
  %sum = stablehlo.add %x, %y : tensor<4x?xf32>
  %clamped = stablehlo.clamp %low, %sum, %high : (tensor<f32>, tensor<4x?xf32>, tensor<f32>) -> tensor<4x?xf32>
  return %clamped : tensor<4x?xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @elementwise(%x: tensor<4x?xf32>, %y: tensor<4x?xf32>, %low: tensor<f32>, %high: tensor<f32>) -> tensor<4x?xf32> {
// CHECK-NEXT:      %0 = arith.constant 1 : index
// CHECK-NEXT:      %1 = tensor.dim %x, %0 : tensor<4x?xf32>
// CHECK-NEXT:      %2 = tensor.empty(%1) : tensor<4x?xf32>
// CHECK-NEXT:      %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x?xf32>, tensor<4x?xf32>) outs(%2 : tensor<4x?xf32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %in_1: f32, %out: f32):
// CHECK-NEXT:        %3 = arith.addf %in, %in_1 : f32
// CHECK-NEXT:        linalg.yield %3 : f32
// CHECK-NEXT:      } -> tensor<4x?xf32>
// CHECK-NEXT:      %4 = arith.constant 1 : index
// CHECK-NEXT:      %5 = tensor.dim %sum, %4 : tensor<4x?xf32>
// CHECK-NEXT:      %6 = tensor.empty(%5) : tensor<4x?xf32>
// CHECK-NEXT:      %clamped = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%low, %sum, %high : tensor<f32>, tensor<4x?xf32>, tensor<f32>) outs(%6 : tensor<4x?xf32>) {
// CHECK-NEXT:      ^bb0(%in_2: f32, %in_3: f32, %in_4: f32, %out_1: f32):
// CHECK-NEXT:        %7 = arith.maximumf %in_3, %in_2 : f32
// CHECK-NEXT:        %8 = arith.minimumf %7, %in_4 : f32
// CHECK-NEXT:        linalg.yield %8 : f32
// CHECK-NEXT:      } -> tensor<4x?xf32>
// CHECK-NEXT:      func.return %clamped : tensor<4x?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @divide(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %0 = stablehlo.divide %x, %y : tensor<4xi32>
  return %0 : tensor<4xi32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @divide(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xi32>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xi32>, tensor<4xi32>) outs(%0 : tensor<4xi32>) {
// CHECK-NEXT:      ^bb0(%in: i32, %in_1: i32, %out: i32):
// CHECK-NEXT:        %2 = arith.constant 0 : i32
// CHECK-NEXT:        %3 = arith.constant 1 : i32
// CHECK-NEXT:        %4 = arith.constant -1 : i32
// CHECK-NEXT:        %5 = arith.cmpi eq, %in_1, %2 : i32
// CHECK-NEXT:        %6 = arith.cmpi eq, %in_1, %4 : i32
// CHECK-NEXT:        %7 = arith.ori %5, %6 : i1
// CHECK-NEXT:        %8 = arith.select %7, %3, %in_1 : i32
// CHECK-NEXT:        %9 = arith.divsi %in, %8 : i32
// CHECK-NEXT:        %10 = arith.subi %2, %in : i32
// CHECK-NEXT:        %11 = arith.select %6, %10, %9 : i32
// CHECK-NEXT:        %12 = arith.select %5, %4, %11 : i32
// CHECK-NEXT:        linalg.yield %12 : i32
// CHECK-NEXT:      } -> tensor<4xi32>
// CHECK-NEXT:      func.return %1 : tensor<4xi32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @convert(%x: tensor<4xf32>) -> tensor<4xi8> {
  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi8>
  return %0 : tensor<4xi8>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @convert(%x: tensor<4xf32>) -> tensor<4xi8> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%0 : tensor<4xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %out: i8):
// CHECK-NEXT:        %2 = arith.constant -1.280000e+02 : f32
// CHECK-NEXT:        %3 = arith.maxnumf %in, %2 : f32
// CHECK-NEXT:        %4 = arith.constant 1.270000e+02 : f32
// CHECK-NEXT:        %5 = arith.minnumf %3, %4 : f32
// CHECK-NEXT:        %6 = arith.fptosi %5 : f32 to i32
// CHECK-NEXT:        %7 = arith.trunci %6 : i32 to i8
// CHECK-NEXT:        %8 = arith.cmpf uno, %in, %in : f32
// CHECK-NEXT:        %9 = arith.constant 0 : i8
// CHECK-NEXT:        %10 = arith.select %8, %9, %7 : i8
// CHECK-NEXT:        linalg.yield %10 : i8
// CHECK-NEXT:      } -> tensor<4xi8>
// CHECK-NEXT:      func.return %1 : tensor<4xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @logistic(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.logistic %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @logistic(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %out: f32):
// CHECK-NEXT:        %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %3 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:        %4 = math.absf %in : f32
// CHECK-NEXT:        %5 = arith.negf %4 : f32
// CHECK-NEXT:        %6 = math.exp %5 : f32
// CHECK-NEXT:        %7 = arith.cmpf olt, %in, %2 : f32
// CHECK-NEXT:        %8 = arith.select %7, %6, %3 : f32
// CHECK-NEXT:        %9 = arith.addf %3, %6 : f32
// CHECK-NEXT:        %10 = arith.divf %8, %9 : f32
// CHECK-NEXT:        linalg.yield %10 : f32
// CHECK-NEXT:      } -> tensor<4xf32>
// CHECK-NEXT:      func.return %1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// The order of the bits.

func.func @compare(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi1> {
  %0 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @compare(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi1> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xi1>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%0 : tensor<4xi1>) {
// CHECK-NEXT:      ^bb0(%in: f32, %in_1: f32, %out: i1):
// CHECK-NEXT:        %2 = arith.bitcast %in : f32 to i32
// CHECK-NEXT:        %3 = arith.constant 31 : i32
// CHECK-NEXT:        %4 = arith.shrsi %2, %3 : i32
// CHECK-NEXT:        %5 = arith.constant 1 : i32
// CHECK-NEXT:        %6 = arith.shrui %4, %5 : i32
// CHECK-NEXT:        %7 = arith.xori %2, %6 : i32
// CHECK-NEXT:        %8 = arith.bitcast %in_1 : f32 to i32
// CHECK-NEXT:        %9 = arith.constant 31 : i32
// CHECK-NEXT:        %10 = arith.shrsi %8, %9 : i32
// CHECK-NEXT:        %11 = arith.constant 1 : i32
// CHECK-NEXT:        %12 = arith.shrui %10, %11 : i32
// CHECK-NEXT:        %13 = arith.xori %8, %12 : i32
// CHECK-NEXT:        %14 = arith.cmpi slt, %7, %13 : i32
// CHECK-NEXT:        linalg.yield %14 : i1
// CHECK-NEXT:      } -> tensor<4xi1>
// CHECK-NEXT:      func.return %1 : tensor<4xi1>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// No type has a sign afterwards.

func.func @unsigned(%x: tensor<2xui8>) -> tensor<2xi1> {
  %c = stablehlo.constant dense<[1, 255]> : tensor<2xui8>
  %0 = stablehlo.maximum %x, %c : tensor<2xui8>
  %1 = stablehlo.compare GT, %0, %x, UNSIGNED : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
  return %1 : tensor<2xi1>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @unsigned(%x: tensor<2xi8>) -> tensor<2xi1> {
// CHECK-NEXT:      %c = arith.constant dense<[1, -1]> : tensor<2xi8>
// CHECK-NEXT:      %0 = tensor.empty() : tensor<2xi8>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %c : tensor<2xi8>, tensor<2xi8>) outs(%0 : tensor<2xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %in_1: i8, %out: i8):
// CHECK-NEXT:        %2 = arith.maxui %in, %in_1 : i8
// CHECK-NEXT:        linalg.yield %2 : i8
// CHECK-NEXT:      } -> tensor<2xi8>
// CHECK-NEXT:      %3 = tensor.empty() : tensor<2xi1>
// CHECK-NEXT:      %4 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1, %x : tensor<2xi8>, tensor<2xi8>) outs(%3 : tensor<2xi1>) {
// CHECK-NEXT:      ^bb0(%in_2: i8, %in_3: i8, %out_1: i1):
// CHECK-NEXT:        %5 = arith.cmpi ugt, %in_2, %in_3 : i8
// CHECK-NEXT:        linalg.yield %5 : i1
// CHECK-NEXT:      } -> tensor<2xi1>
// CHECK-NEXT:      func.return %4 : tensor<2xi1>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @move(%x: tensor<2x3xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.slice %0 [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %2 = stablehlo.reshape %1 : (tensor<3x1xf32>) -> tensor<3xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<3xf32>) -> tensor<3x3xf32>
  %4 = stablehlo.concatenate %1, %3, dim = 1 : (tensor<3x1xf32>, tensor<3x3xf32>) -> tensor<3x4xf32>
  return %4 : tensor<3x4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @move(%x: tensor<2x3xf32>) -> tensor<3x4xf32> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<3x2xf32>
// CHECK-NEXT:      %1 = linalg.transpose ins(%x:tensor<2x3xf32>) outs(%0:tensor<3x2xf32>) permutation = [1, 0]
// CHECK-NEXT:      %2 = tensor.extract_slice %1[0, 1] [3, 1] [1, 1] : tensor<3x2xf32> to tensor<3x1xf32>
// CHECK-NEXT:      %3 = arith.constant dense<3> : tensor<1xindex>
// CHECK-NEXT:      %4 = tensor.reshape %2(%3) : (tensor<3x1xf32>, tensor<1xindex>) -> tensor<3xf32>
// CHECK-NEXT:      %5 = tensor.empty() : tensor<3x3xf32>
// CHECK-NEXT:      %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<3xf32>) outs(%5 : tensor<3x3xf32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %out: f32):
// CHECK-NEXT:        linalg.yield %in : f32
// CHECK-NEXT:      } -> tensor<3x3xf32>
// CHECK-NEXT:      %7 = tensor.concat dim(1) %2, %6 : (tensor<3x1xf32>, tensor<3x3xf32>) -> tensor<3x4xf32>
// CHECK-NEXT:      func.return %7 : tensor<3x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A negative edge removes elements, here the first one.

func.func @pad(%x: tensor<4xi8>, %p: tensor<i8>) -> tensor<8xi8> {
  %0 = stablehlo.pad %x, %p, low = [-1], high = [2], interior = [1] : (tensor<4xi8>, tensor<i8>) -> tensor<8xi8>
  return %0 : tensor<8xi8>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @pad(%x: tensor<4xi8>, %p: tensor<i8>) -> tensor<8xi8> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<9xi8>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%p : tensor<i8>) outs(%0 : tensor<9xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %out: i8):
// CHECK-NEXT:        linalg.yield %in : i8
// CHECK-NEXT:      } -> tensor<9xi8>
// CHECK-NEXT:      %2 = tensor.insert_slice %x into %1[0] [4] [2] : tensor<4xi8> into tensor<9xi8>
// CHECK-NEXT:      %3 = tensor.extract_slice %2[1] [8] [1] : tensor<9xi8> to tensor<8xi8>
// CHECK-NEXT:      func.return %3 : tensor<8xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Stored values are moved.

func.func @quantized(%x: tensor<2x2x!quant.uniform<i8:f32:1, {1.0,2.0}>>) -> tensor<2x2x!quant.uniform<i8:f32:0, {1.0,2.0}>> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x2x!quant.uniform<i8:f32:1, {1.0,2.0}>>) -> tensor<2x2x!quant.uniform<i8:f32:0, {1.0,2.0}>>
  return %0 : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,2.0}>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @quantized(%x: tensor<2x2x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}>>) -> tensor<2x2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>> {
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x2x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}>> to tensor<2x2xi8>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<2x2xi8>
// CHECK-NEXT:      %2 = linalg.transpose ins(%0:tensor<2x2xi8>) outs(%1:tensor<2x2xi8>) permutation = [1, 0]
// CHECK-NEXT:      %3 = quant.scast %2 : tensor<2x2xi8> to tensor<2x2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT:      func.return %3 : tensor<2x2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @reduce(%x: tensor<2x?xf32>, %zero: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x?xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @reduce(%x: tensor<2x?xf32>, %zero: tensor<f32>) -> tensor<2xf32> {
// CHECK-NEXT:      %0 = arith.constant 1 : index
// CHECK-NEXT:      %1 = tensor.dim %x, %0 : tensor<2x?xf32>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<2xf32>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%zero : tensor<f32>) outs(%2 : tensor<2xf32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %out: f32):
// CHECK-NEXT:        linalg.yield %in : f32
// CHECK-NEXT:      } -> tensor<2xf32>
// CHECK-NEXT:      %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x?xf32>) outs(%3 : tensor<2xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: f32, %out_1: f32):
// CHECK-NEXT:        %5 = arith.addf %out_1, %in_1 : f32
// CHECK-NEXT:        linalg.yield %5 : f32
// CHECK-NEXT:      } -> tensor<2xf32>
// CHECK-NEXT:      func.return %4 : tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @dot_general(%x: tensor<2x3xi8>, %y: tensor<3x4xi8>) -> tensor<2x4xi32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>
  return %0 : tensor<2x4xi32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @dot_general(%x: tensor<2x3xi8>, %y: tensor<3x4xi8>) -> tensor<2x4xi32> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<2x4xi32>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%0 : tensor<2x4xi32>) {
// CHECK-NEXT:      ^bb0(%out: i32):
// CHECK-NEXT:        %2 = arith.constant 0 : i32
// CHECK-NEXT:        linalg.yield %2 : i32
// CHECK-NEXT:      } -> tensor<2x4xi32>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<2x3xi8>, tensor<3x4xi8>) outs(%1 : tensor<2x4xi32>) {
// CHECK-NEXT:      ^bb0(%in: i8, %in_1: i8, %out_1: i32):
// CHECK-NEXT:        %4 = arith.extsi %in : i8 to i32
// CHECK-NEXT:        %5 = arith.extsi %in_1 : i8 to i32
// CHECK-NEXT:        %6 = arith.muli %4, %5 : i32
// CHECK-NEXT:        %7 = arith.addi %out_1, %6 : i32
// CHECK-NEXT:        linalg.yield %7 : i32
// CHECK-NEXT:      } -> tensor<2x4xi32>
// CHECK-NEXT:      func.return %3 : tensor<2x4xi32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @convolution(%x: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>
  return %0 : tensor<1x4x4x4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @convolution(%x: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32> {
// CHECK-NEXT:      %0 = arith.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<1x10x10x3xf32>
// CHECK-NEXT:      %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> ()>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0 : tensor<f32>) outs(%1 : tensor<1x10x10x3xf32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %out: f32):
// CHECK-NEXT:        linalg.yield %in : f32
// CHECK-NEXT:      } -> tensor<1x10x10x3xf32>
// CHECK-NEXT:      %3 = tensor.insert_slice %x into %2[0, 1, 1, 0] [1, 8, 8, 3] [1, 1, 1, 1] : tensor<1x8x8x3xf32> into tensor<1x10x10x3xf32>
// CHECK-NEXT:      %4 = tensor.empty() : tensor<1x4x4x4xf32>
// CHECK-NEXT:      %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%4 : tensor<1x4x4x4xf32>) {
// CHECK-NEXT:      ^bb0(%out_1: f32):
// CHECK-NEXT:        %6 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        linalg.yield %6 : f32
// CHECK-NEXT:      } -> tensor<1x4x4x4xf32>
// CHECK-NEXT:      %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, ((d1 * 2) + d4), ((d2 * 2) + d5), d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%3, %k : tensor<1x10x10x3xf32>, tensor<3x3x3x4xf32>) outs(%5 : tensor<1x4x4x4xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: f32, %in_2: f32, %out_2: f32):
// CHECK-NEXT:        %8 = arith.mulf %in_1, %in_2 : f32
// CHECK-NEXT:        %9 = arith.addf %out_2, %8 : f32
// CHECK-NEXT:        linalg.yield %9 : f32
// CHECK-NEXT:      } -> tensor<1x4x4x4xf32>
// CHECK-NEXT:      func.return %7 : tensor<1x4x4x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Each feature on its own: the group is the innermost loop.

func.func @depthwise(%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x1x4xf32>) -> tensor<1x6x6x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<1x8x8x4xf32>, tensor<3x3x1x4xf32>) -> tensor<1x6x6x4xf32>
  return %0 : tensor<1x6x6x4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @depthwise(%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x1x4xf32>) -> tensor<1x6x6x4xf32> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<1x6x6x4x1xf32>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%0 : tensor<1x6x6x4x1xf32>) {
// CHECK-NEXT:      ^bb0(%out: f32):
// CHECK-NEXT:        %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        linalg.yield %2 : f32
// CHECK-NEXT:      } -> tensor<1x6x6x4x1xf32>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, (d1 + d5), (d2 + d6), (d7 + d3))>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d6, d7, (d4 + d3))>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %k : tensor<1x8x8x4xf32>, tensor<3x3x1x4xf32>) outs(%1 : tensor<1x6x6x4x1xf32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %in_1: f32, %out_1: f32):
// CHECK-NEXT:        %4 = arith.mulf %in, %in_1 : f32
// CHECK-NEXT:        %5 = arith.addf %out_1, %4 : f32
// CHECK-NEXT:        linalg.yield %5 : f32
// CHECK-NEXT:      } -> tensor<1x6x6x4x1xf32>
// CHECK-NEXT:      %6 = arith.constant dense<[1, 6, 6, 4]> : tensor<4xindex>
// CHECK-NEXT:      %7 = tensor.reshape %3(%6) : (tensor<1x6x6x4x1xf32>, tensor<4xindex>) -> tensor<1x6x6x4xf32>
// CHECK-NEXT:      func.return %7 : tensor<1x6x6x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

func.func @quantized_reduce(%x: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, %i: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>> {
  %r = stablehlo.reduce(%x init: %i) across dimensions = [1] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
    reducer(%a: tensor<!quant.uniform<i8:f32, 5.000000e-01>>, %b: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
    %0 = quant.scast %a : tensor<!quant.uniform<i8:f32, 5.000000e-01>> to tensor<i8>
    %1 = quant.scast %b : tensor<!quant.uniform<i8:f32, 5.000000e-01>> to tensor<i8>
    %2 = arith.constant 7 : i8
    %3 = tensor.splat %2 : tensor<i8>
    %4 = stablehlo.minimum %1, %3 : tensor<i8>
    %5 = arith.maxsi %0, %4 : tensor<i8>
    %6 = quant.scast %5 : tensor<i8> to tensor<!quant.uniform<i8:f32, 5.000000e-01>>
    stablehlo.return %6 : tensor<!quant.uniform<i8:f32, 5.000000e-01>>
  }
  return %r : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @quantized_reduce(%x: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, %i: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>> {
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<2x3xi8>
// CHECK-NEXT:      %1 = quant.scast %i : tensor<!quant.uniform<i8:f32, 5.000000e-01>> to tensor<i8>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<2xi8>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1 : tensor<i8>) outs(%2 : tensor<2xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %out: i8):
// CHECK-NEXT:        linalg.yield %in : i8
// CHECK-NEXT:      } -> tensor<2xi8>
// CHECK-NEXT:      %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<2x3xi8>) outs(%3 : tensor<2xi8>) {
// CHECK-NEXT:      ^bb0(%in_1: i8, %out_1: i8):
// CHECK-NEXT:        %4 = arith.constant 7 : i8
// CHECK-NEXT:        %5 = arith.minsi %in_1, %4 : i8
// CHECK-NEXT:        %6 = arith.maxsi %out_1, %5 : i8
// CHECK-NEXT:        linalg.yield %6 : i8
// CHECK-NEXT:      } -> tensor<2xi8>
// CHECK-NEXT:      %r_1 = quant.scast %r : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      func.return %r_1 : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
