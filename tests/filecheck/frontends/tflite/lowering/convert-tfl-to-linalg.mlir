// RUN: xdsl-opt %s -p 'convert-tfl-to-linalg,canonicalize,cse,strip-func-quant-types,canonicalize' --split-input-file | filecheck %s --match-full-lines

// A product of zero-point-corrected values, multiplied by 0.25 with double rounding: by 2^30 / 2^31,
// rounding half up, then by 1/2, rounding half away from zero. RELU clamps at the zero point.

func.func @mul(%a: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<4x!quant.uniform<i8:f32, 0.25:-1>>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = tfl.mul(%a, %b) <{fused_activation_function = "RELU"}> : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.25:-1>>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @mul(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b : tensor<4xi8>, tensor<4xi8>) outs(%0 : tensor<4xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %in_1: i8, %out: i8):
// CHECK-NEXT:        %2 = arith.extsi %in : i8 to i32
// CHECK-NEXT:        %3 = arith.constant 3 : i32
// CHECK-NEXT:        %4 = arith.subi %2, %3 : i32
// CHECK-NEXT:        %5 = arith.extsi %in_1 : i8 to i32
// CHECK-NEXT:        %6 = arith.constant -1 : i32
// CHECK-NEXT:        %7 = arith.subi %5, %6 : i32
// CHECK-NEXT:        %8 = arith.muli %4, %7 : i32
// CHECK-NEXT:        %9 = arith.extsi %8 : i32 to i64
// CHECK-NEXT:        %10 = arith.constant 1073741824 : i64
// CHECK-NEXT:        %11 = arith.muli %9, %10 : i64
// CHECK-NEXT:        %12 = arith.addi %11, %10 : i64
// CHECK-NEXT:        %13 = arith.constant 31 : i64
// CHECK-NEXT:        %14 = arith.shrsi %12, %13 : i64
// CHECK-NEXT:        %15 = arith.trunci %14 : i64 to i32
// CHECK-NEXT:        %16 = arith.constant 1 : i32
// CHECK-NEXT:        %17 = arith.addi %15, %16 : i32
// CHECK-NEXT:        %18 = arith.constant 0 : i32
// CHECK-NEXT:        %19 = arith.cmpi slt, %15, %18 : i32
// CHECK-NEXT:        %20 = arith.extui %19 : i1 to i32
// CHECK-NEXT:        %21 = arith.subi %17, %20 : i32
// CHECK-NEXT:        %22 = arith.shrsi %21, %16 : i32
// CHECK-NEXT:        %23 = arith.addi %22, %3 : i32
// CHECK-NEXT:        %24 = arith.maxsi %23, %3 : i32
// CHECK-NEXT:        %25 = arith.constant 127 : i32
// CHECK-NEXT:        %26 = arith.minsi %24, %25 : i32
// CHECK-NEXT:        %27 = arith.trunci %26 : i32 to i8
// CHECK-NEXT:        linalg.yield %27 : i8
// CHECK-NEXT:      } -> tensor<4xi8>
// CHECK-NEXT:      func.return %1 : tensor<4xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A function of one stored value of 8 bits is a table of 256 stored values.

func.func @logistic(%a: tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8:f32, 0.00390625:-128>> {
  %0 = "tfl.logistic"(%a) : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8:f32, 0.00390625:-128>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 0.00390625:-128>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @logistic(%a: tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:      %0 = arith.constant dense<"0x8080{{.*}}80808181828385888C939FAFC5E1001F3B51616D74787B7D7E7F{{.*}}7F7F"> : tensor<256xi8>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:      %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi8>) outs(%1 : tensor<4xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %out: i8):
// CHECK-NEXT:        %3 = arith.extsi %in : i8 to i32
// CHECK-NEXT:        %4 = arith.constant -128 : i32
// CHECK-NEXT:        %5 = arith.subi %3, %4 : i32
// CHECK-NEXT:        %6 = arith.index_cast %5 : i32 to index
// CHECK-NEXT:        %7 = tensor.extract %0[%6] : tensor<256xi8>
// CHECK-NEXT:        linalg.yield %7 : i8
// CHECK-NEXT:      } -> tensor<4xi8>
// CHECK-NEXT:      func.return %2 : tensor<4xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Padding is the zero point of the input. Each channel has a multiplier, here 2^30 for both, and
// a shift.

func.func @conv(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x2x3x1x!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>>, value = dense<[[[[1], [2], [3]], [[4], [5], [6]]], [[[7], [8], [9]], [[-1], [-2], [-3]]]]> : tensor<2x2x3x1xi8>}> : () -> tensor<2x2x3x1x!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>>
  %b = "tfl.pseudo_qconst"() <{qtype = tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>, value = dense<[7, -9]> : tensor<2xi32>}> : () -> tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>
  %0 = "tfl.conv_2d"(%x, %w, %b) <{dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, fused_activation_function = "NONE", padding = "SAME", stride_h = 2 : i32, stride_w = 2 : i32}> : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x3x1x!quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>>, tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
  return %0 : tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @conv(%x: tensor<1x4x4x1xi8>) -> tensor<1x2x2x2xi8> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<1x4x5x1xi8>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%0 : tensor<1x4x5x1xi8>) {
// CHECK-NEXT:      ^bb0(%out: i8):
// CHECK-NEXT:        %2 = arith.constant 3 : i8
// CHECK-NEXT:        linalg.yield %2 : i8
// CHECK-NEXT:      } -> tensor<1x4x5x1xi8>
// CHECK-NEXT:      %3 = tensor.insert_slice %x into %1[0, 0, 0, 0] [1, 4, 4, 1] [1, 1, 1, 1] : tensor<1x4x4x1xi8> into tensor<1x4x5x1xi8>
// CHECK-NEXT:      %4 = arith.constant dense<[[[[1], [2], [3]], [[4], [5], [6]]], [[[7], [8], [9]], [[-1], [-2], [-3]]]]> : tensor<2x2x3x1xi8>
// CHECK-NEXT:      %5 = tensor.empty() : tensor<1x2x2x2xi32>
// CHECK-NEXT:      %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%5 : tensor<1x2x2x2xi32>) {
// CHECK-NEXT:      ^bb0(%out_1: i32):
// CHECK-NEXT:        %7 = arith.constant 0 : i32
// CHECK-NEXT:        linalg.yield %7 : i32
// CHECK-NEXT:      } -> tensor<1x2x2x2xi32>
// CHECK-NEXT:      %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, ((d1 * 2) + d4), ((d2 * 2) + d5), 0)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d4, d5, 0)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%3, %4 : tensor<1x4x5x1xi8>, tensor<2x2x3x1xi8>) outs(%6 : tensor<1x2x2x2xi32>) {
// CHECK-NEXT:      ^bb0(%in: i8, %in_1: i8, %out_2: i32):
// CHECK-NEXT:        %9 = arith.extsi %in : i8 to i32
// CHECK-NEXT:        %10 = arith.constant 3 : i32
// CHECK-NEXT:        %11 = arith.subi %9, %10 : i32
// CHECK-NEXT:        %12 = arith.extsi %in_1 : i8 to i32
// CHECK-NEXT:        %13 = arith.muli %11, %12 : i32
// CHECK-NEXT:        %14 = arith.addi %out_2, %13 : i32
// CHECK-NEXT:        linalg.yield %14 : i32
// CHECK-NEXT:      } -> tensor<1x2x2x2xi32>
// CHECK-NEXT:      %15 = arith.constant dense<[7, -9]> : tensor<2xi8>
// CHECK-NEXT:      %16 = arith.constant dense<[1, 2]> : tensor<2xi8>
// CHECK-NEXT:      %17 = tensor.empty() : tensor<1x2x2x2xi8>
// CHECK-NEXT:      %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d3)>, affine_map<(d0, d1, d2, d3) -> (d3)>, affine_map<(d0, d1, d2, d3) -> (d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%8, %15, %16, %16 : tensor<1x2x2x2xi32>, tensor<2xi8>, tensor<2xi8>, tensor<2xi8>) outs(%17 : tensor<1x2x2x2xi8>) {
// CHECK-NEXT:      ^bb0(%in_2: i32, %in_3: i8, %in_4: i8, %in_5: i8, %out_3: i8):
// CHECK-NEXT:        %19 = arith.extsi %in_3 : i8 to i32
// CHECK-NEXT:        %20 = arith.addi %in_2, %19 : i32
// CHECK-NEXT:        %21 = arith.extsi %20 : i32 to i64
// CHECK-NEXT:        %22 = arith.constant 1073741824 : i64
// CHECK-NEXT:        %23 = arith.muli %21, %22 : i64
// CHECK-NEXT:        %24 = arith.addi %23, %22 : i64
// CHECK-NEXT:        %25 = arith.constant 31 : i64
// CHECK-NEXT:        %26 = arith.shrsi %24, %25 : i64
// CHECK-NEXT:        %27 = arith.trunci %26 : i64 to i32
// CHECK-NEXT:        %28 = arith.extsi %in_4 : i8 to i32
// CHECK-NEXT:        %29 = arith.addi %27, %28 : i32
// CHECK-NEXT:        %30 = arith.constant 0 : i32
// CHECK-NEXT:        %31 = arith.cmpi slt, %27, %30 : i32
// CHECK-NEXT:        %32 = arith.extui %31 : i1 to i32
// CHECK-NEXT:        %33 = arith.subi %29, %32 : i32
// CHECK-NEXT:        %34 = arith.extsi %in_5 : i8 to i32
// CHECK-NEXT:        %35 = arith.shrsi %33, %34 : i32
// CHECK-NEXT:        %36 = arith.constant 3 : i32
// CHECK-NEXT:        %37 = arith.addi %35, %36 : i32
// CHECK-NEXT:        %38 = arith.constant -128 : i32
// CHECK-NEXT:        %39 = arith.maxsi %37, %38 : i32
// CHECK-NEXT:        %40 = arith.constant 127 : i32
// CHECK-NEXT:        %41 = arith.minsi %39, %40 : i32
// CHECK-NEXT:        %42 = arith.trunci %41 : i32 to i8
// CHECK-NEXT:        linalg.yield %42 : i8
// CHECK-NEXT:      } -> tensor<1x2x2x2xi8>
// CHECK-NEXT:      func.return %18 : tensor<1x2x2x2xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
