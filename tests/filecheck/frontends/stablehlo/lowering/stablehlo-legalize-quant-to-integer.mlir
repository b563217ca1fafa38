// RUN: xdsl-opt %s -p 'stablehlo-legalize-quant-to-integer{fallback=keep}' | filecheck %s --match-full-lines

// Scales that differ, scales along a dimension, a zero point that is padded with, what is
// not multiplied by 1, what only moves elements, what is reduced, and what stays.

func.func @sum(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {
  %0 = stablehlo.subtract %q, %r : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
}

func.func @product(%x: tensor<1x4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, %w: tensor<3x2x2x!quant.uniform<i8:f32:2, {1.000000e-01,2.000000e-01}>>) -> tensor<1x4x2x!quant.uniform<i8:f32, 1.000000e-01:-7>> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<3x2x2x!quant.uniform<i8:f32:2, {1.000000e-01,2.000000e-01}>>) -> tensor<1x4x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  return %y : tensor<1x4x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
}

func.func @unsigned(%x: tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:128>>) -> tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:128>> {
  %w = stablehlo.constant() <{value = dense<2> : tensor<3x2xi8>}> : () -> tensor<3x2x!quant.uniform<u8:f32, 1.0>>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:128>>, tensor<3x2x!quant.uniform<u8:f32, 1.0>>) -> tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:128>>
  return %0 : tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:128>>
}

func.func @moved(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) {
  %0 = stablehlo.reshape %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = stablehlo.reshape %0 : (tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %2 = stablehlo.maximum %1, %q : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %3 = stablehlo.power %2, %2 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  return %2, %3 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
}

func.func @reduced(%x: tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:3>>, %i: tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>) -> (tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>) {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>) -> tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>
  %1 = stablehlo.reduce(%0 init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>) -> tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>
  return %0, %1 : tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @sum(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {
// CHECK-NEXT:      %0 = quant.scast %q : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xi8>
// CHECK-NEXT:      %1 = quant.scast %r : tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>> to tensor<4xi8>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0, %1 : tensor<4xi8>, tensor<4xi8>) outs(%2 : tensor<4xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %in_1: i8, %out: i8):
// CHECK-NEXT:        %4 = arith.extsi %in : i8 to i32
// CHECK-NEXT:        %5 = arith.constant 3 : i32
// CHECK-NEXT:        %6 = arith.subi %4, %5 : i32
// CHECK-NEXT:        %7 = arith.extsi %in_1 : i8 to i32
// CHECK-NEXT:        %8 = arith.constant -7 : i32
// CHECK-NEXT:        %9 = arith.subi %7, %8 : i32
// CHECK-NEXT:        %10 = arith.extsi %6 : i32 to i64
// CHECK-NEXT:        %11 = arith.constant 1073741824 : i64
// CHECK-NEXT:        %12 = arith.muli %10, %11 : i64
// CHECK-NEXT:        %13 = arith.extsi %9 : i32 to i64
// CHECK-NEXT:        %14 = arith.constant 214748365 : i64
// CHECK-NEXT:        %15 = arith.muli %13, %14 : i64
// CHECK-NEXT:        %16 = arith.subi %12, %15 : i64
// CHECK-NEXT:        %17 = arith.constant 29 : i64
// CHECK-NEXT:        %18 = arith.shrsi %16, %17 : i64
// CHECK-NEXT:        %19 = arith.trunci %18 : i64 to i32
// CHECK-NEXT:        %20 = arith.constant 1 : i32
// CHECK-NEXT:        %21 = arith.addi %19, %20 : i32
// CHECK-NEXT:        %22 = arith.constant 1 : i32
// CHECK-NEXT:        %23 = arith.shrsi %21, %22 : i32
// CHECK-NEXT:        %24 = arith.constant 3 : i32
// CHECK-NEXT:        %25 = arith.addi %23, %24 : i32
// CHECK-NEXT:        %26 = arith.constant -128 : i32
// CHECK-NEXT:        %27 = arith.maxsi %25, %26 : i32
// CHECK-NEXT:        %28 = arith.constant 127 : i32
// CHECK-NEXT:        %29 = arith.minsi %27, %28 : i32
// CHECK-NEXT:        %30 = arith.trunci %29 : i32 to i8
// CHECK-NEXT:        linalg.yield %30 : i8
// CHECK-NEXT:      } -> tensor<4xi8>
// CHECK-NEXT:      %31 = quant.scast %3 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %31 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @product(%x: tensor<1x4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, %w: tensor<3x2x2x!quant.uniform<i8:f32:2, {1.000000e-01,2.000000e-01}>>) -> tensor<1x4x2x!quant.uniform<i8:f32, 1.000000e-01:-7>> {
// CHECK-NEXT:      %0 = quant.scast %x : tensor<1x4x2x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<1x4x2xi8>
// CHECK-NEXT:      %1 = quant.scast %w : tensor<3x2x2x!quant.uniform<i8:f32:2, {1.000000e-01,2.000000e-01}>> to tensor<3x2x2xi8>
// CHECK-NEXT:      %y = stablehlo.constant dense<3> : tensor<i8>
// CHECK-NEXT:      %y_1 = tensor.empty() : tensor<1x6x2xi8>
// CHECK-NEXT:      %y_2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<i8>) outs(%y_1 : tensor<1x6x2xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %out: i8):
// CHECK-NEXT:        linalg.yield %in : i8
// CHECK-NEXT:      } -> tensor<1x6x2xi8>
// CHECK-NEXT:      %y_3 = tensor.insert_slice %0 into %y_2[0, 1, 0] [1, 4, 2] [1, 1, 1] : tensor<1x4x2xi8> into tensor<1x6x2xi8>
// CHECK-NEXT:      %y_4 = stablehlo.convolution(%y_3, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x6x2xi8>, tensor<3x2x2xi8>) -> tensor<1x4x2xi32>
// CHECK-NEXT:      %y_5 = arith.extsi %1 : tensor<3x2x2xi8> to tensor<3x2x2xi32>
// CHECK-NEXT:      %y_6 = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:      %y_7 = stablehlo.reduce(%y_5 init: %y_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x2x2xi32>, tensor<i32>) -> tensor<2xi32>
// CHECK-NEXT:      %y_8 = arith.constant dense<[31, 30]> : tensor<2xi64>
// CHECK-NEXT:      %y_9 = tensor.empty() : tensor<1x4x2xi8>
// CHECK-NEXT:      %y_10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y_4, %y_7, %y_8 : tensor<1x4x2xi32>, tensor<2xi32>, tensor<2xi64>) outs(%y_9 : tensor<1x4x2xi8>) {
// CHECK-NEXT:      ^bb0(%in_1: i32, %in_2: i32, %in_3: i64, %out_1: i8):
// CHECK-NEXT:        %2 = arith.constant 3 : i32
// CHECK-NEXT:        %3 = arith.muli %in_2, %2 : i32
// CHECK-NEXT:        %4 = arith.subi %in_1, %3 : i32
// CHECK-NEXT:        %5 = arith.extsi %4 : i32 to i64
// CHECK-NEXT:        %6 = arith.constant 1073741824 : i64
// CHECK-NEXT:        %7 = arith.muli %5, %6 : i64
// CHECK-NEXT:        %8 = arith.trunci %in_3 : i64 to i32
// CHECK-NEXT:        %9 = arith.constant 1 : i32
// CHECK-NEXT:        %10 = arith.subi %8, %9 : i32
// CHECK-NEXT:        %11 = arith.extsi %10 : i32 to i64
// CHECK-NEXT:        %12 = arith.shrsi %7, %11 : i64
// CHECK-NEXT:        %13 = arith.trunci %12 : i64 to i32
// CHECK-NEXT:        %14 = arith.constant 1 : i32
// CHECK-NEXT:        %15 = arith.addi %13, %14 : i32
// CHECK-NEXT:        %16 = arith.constant 1 : i32
// CHECK-NEXT:        %17 = arith.shrsi %15, %16 : i32
// CHECK-NEXT:        %18 = arith.constant -7 : i32
// CHECK-NEXT:        %19 = arith.addi %17, %18 : i32
// CHECK-NEXT:        %20 = arith.constant -128 : i32
// CHECK-NEXT:        %21 = arith.maxsi %19, %20 : i32
// CHECK-NEXT:        %22 = arith.constant 127 : i32
// CHECK-NEXT:        %23 = arith.minsi %21, %22 : i32
// CHECK-NEXT:        %24 = arith.trunci %23 : i32 to i8
// CHECK-NEXT:        linalg.yield %24 : i8
// CHECK-NEXT:      } -> tensor<1x4x2xi8>
// CHECK-NEXT:      %y_11 = quant.scast %y_10 : tensor<1x4x2xi8> to tensor<1x4x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      func.return %y_11 : tensor<1x4x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @unsigned(%x: tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:128>>) -> tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:128>> {
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:128>> to tensor<2x3xi8>
// CHECK-NEXT:      %w = stablehlo.constant dense<2> : tensor<3x2xi8>
// CHECK-NEXT:      %1 = arith.extui %0 : tensor<2x3xi8> to tensor<2x3xi16>
// CHECK-NEXT:      %2 = arith.extui %w : tensor<3x2xi8> to tensor<3x2xi16>
// CHECK-NEXT:      %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<2x3xi16>, tensor<3x2xi16>) -> tensor<2x2xi32>
// CHECK-NEXT:      %4 = arith.extsi %2 : tensor<3x2xi16> to tensor<3x2xi32>
// CHECK-NEXT:      %5 = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:      %6 = stablehlo.reduce(%4 init: %5) applies stablehlo.add across dimensions = [0] : (tensor<3x2xi32>, tensor<i32>) -> tensor<2xi32>
// CHECK-NEXT:      %7 = tensor.empty() : tensor<2x2xi8>
// CHECK-NEXT:      %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3, %6 : tensor<2x2xi32>, tensor<2xi32>) outs(%7 : tensor<2x2xi8>) {
// CHECK-NEXT:      ^bb0(%in: i32, %in_1: i32, %out: i8):
// CHECK-NEXT:        %9 = arith.constant 128 : i32
// CHECK-NEXT:        %10 = arith.muli %in_1, %9 : i32
// CHECK-NEXT:        %11 = arith.subi %in, %10 : i32
// CHECK-NEXT:        %12 = arith.constant 128 : i32
// CHECK-NEXT:        %13 = arith.addi %11, %12 : i32
// CHECK-NEXT:        %14 = arith.constant 0 : i32
// CHECK-NEXT:        %15 = arith.maxsi %13, %14 : i32
// CHECK-NEXT:        %16 = arith.constant 255 : i32
// CHECK-NEXT:        %17 = arith.minsi %15, %16 : i32
// CHECK-NEXT:        %18 = arith.trunci %17 : i32 to i8
// CHECK-NEXT:        linalg.yield %18 : i8
// CHECK-NEXT:      } -> tensor<2x2xi8>
// CHECK-NEXT:      %19 = quant.scast %8 : tensor<2x2xi8> to tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:128>>
// CHECK-NEXT:      func.return %19 : tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:128>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @moved(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) {
// CHECK-NEXT:      %0 = quant.scast %q : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xi8>
// CHECK-NEXT:      %1 = stablehlo.reshape %0 : (tensor<4xi8>) -> tensor<2x2xi8>
// CHECK-NEXT:      %2 = stablehlo.reshape %1 : (tensor<2x2xi8>) -> tensor<4xi8>
// CHECK-NEXT:      %3 = stablehlo.maximum %2, %0 : tensor<4xi8>
// CHECK-NEXT:      %4 = quant.scast %3 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %5 = stablehlo.power %4, %4 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %4, %5 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @reduced(%x: tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:3>>, %i: tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>) -> (tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>) {
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x3x!quant.uniform<u8:f32, 5.000000e-01:3>> to tensor<2x3xi8>
// CHECK-NEXT:      %1 = quant.scast %i : tensor<!quant.uniform<u8:f32, 5.000000e-01:3>> to tensor<i8>
// CHECK-NEXT:      %2 = stablehlo.reduce(%0 init: %1) across dimensions = [1] : (tensor<2x3xi8>, tensor<i8>) -> tensor<2xi8>
// CHECK-NEXT:       reducer(%3: tensor<i8>, %4: tensor<i8>)  {
// CHECK-NEXT:        %5 = tensor.empty() : tensor<i8>
// CHECK-NEXT:        %6 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%3, %4 : tensor<i8>, tensor<i8>) outs(%5 : tensor<i8>) {
// CHECK-NEXT:        ^bb0(%in: i8, %in_1: i8, %out: i8):
// CHECK-NEXT:          %7 = arith.extui %in : i8 to i32
// CHECK-NEXT:          %8 = arith.extui %in_1 : i8 to i32
// CHECK-NEXT:          %9 = arith.constant 3 : i32
// CHECK-NEXT:          %10 = arith.subi %7, %9 : i32
// CHECK-NEXT:          %11 = arith.constant 3 : i32
// CHECK-NEXT:          %12 = arith.subi %8, %11 : i32
// CHECK-NEXT:          %13 = arith.addi %10, %12 : i32
// CHECK-NEXT:          %14 = arith.constant 3 : i32
// CHECK-NEXT:          %15 = arith.addi %13, %14 : i32
// CHECK-NEXT:          %16 = arith.constant 0 : i32
// CHECK-NEXT:          %17 = arith.maxsi %15, %16 : i32
// CHECK-NEXT:          %18 = arith.constant 255 : i32
// CHECK-NEXT:          %19 = arith.minsi %17, %18 : i32
// CHECK-NEXT:          %20 = arith.trunci %19 : i32 to i8
// CHECK-NEXT:          linalg.yield %20 : i8
// CHECK-NEXT:        } -> tensor<i8>
// CHECK-NEXT:        %21 = quant.scast %6 : tensor<i8> to tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK-NEXT:        stablehlo.return %6 : tensor<i8>
// CHECK-NEXT:      }
// CHECK-NEXT:      %22 = quant.scast %2 : tensor<2xi8> to tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %23 = stablehlo.reduce(%2 init: %1) across dimensions = [0] : (tensor<2xi8>, tensor<i8>) -> tensor<i8>
// CHECK-NEXT:       reducer(%24: tensor<i8>, %25: tensor<i8>)  {
// CHECK-NEXT:        %26 = arith.extui %24 : tensor<i8> to tensor<i16>
// CHECK-NEXT:        %27 = arith.extui %25 : tensor<i8> to tensor<i16>
// CHECK-NEXT:        %28 = stablehlo.maximum %26, %27 : tensor<i16>
// CHECK-NEXT:        %29 = arith.trunci %28 : tensor<i16> to tensor<i8>
// CHECK-NEXT:        %30 = quant.scast %29 : tensor<i8> to tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK-NEXT:        stablehlo.return %29 : tensor<i8>
// CHECK-NEXT:      }
// CHECK-NEXT:      %31 = quant.scast %23 : tensor<i8> to tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %22, %31 : tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
