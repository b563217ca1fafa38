// RUN: xdsl-opt %s -p convert-stablehlo-to-tfl | filecheck %s

!x = !quant.uniform<u8:f32, 0.5:128>
!w = !quant.uniform<i8:f32:1, {0.5, 0.25}>
!b = !quant.uniform<i32:f32:0, {0.25, 0.125}>
!y = !quant.uniform<u8:f32, 0.75>

// The weights have a row for each result, and u8 values become i8 values.
func.func @dense(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %w = stablehlo.constant() <{value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>}> : () -> tensor<3x2x!w>
  %b = stablehlo.constant() <{value = dense<[100, -7]> : tensor<2xi32>}> : () -> tensor<2x!b>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %six = stablehlo.constant dense<6.0> : tensor<f32>
  %0 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!x>
  %1 = quant.dcast %0 : tensor<4x3x!x> to tensor<4x3xf32>
  %2 = quant.dcast %w : tensor<3x2x!w> to tensor<3x2xf32>
  %3 = quant.dcast %b : tensor<2x!b> to tensor<2xf32>
  %4 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %5 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  %6 = stablehlo.add %4, %5 : tensor<4x2xf32>
  %7 = stablehlo.clamp %zero, %6, %six : (tensor<f32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %8 = quant.qcast %7 : tensor<4x2xf32> to tensor<4x2x!y>
  %9 = quant.dcast %8 : tensor<4x2x!y> to tensor<4x2xf32>
  func.return %9 : tensor<4x2xf32>
}

// Transposes cancel between ops, and remain where images enter and leave.
func.func @nchw(%x: tensor<1x2x4x4xf32>, %w: tensor<2x1x3x3xf32>, %v: tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1x2x4x4xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x4x4xf32>
  %1 = stablehlo.maximum %0, %zeros : tensor<1x2x4x4xf32>
  %2 = stablehlo.tanh %1 : tensor<1x2x4x4xf32>
  %3 = stablehlo.convolution(%2, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32>
  func.return %3 : tensor<1x3x4x4xf32>
}

// A pad of stored values, since SAME would pad on the other side.
func.func @padded(%x: tensor<1x4x4x1xf32>) -> tensor<1x2x2x1xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = quant.qcast %x : tensor<1x4x4x1xf32> to tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:3>>
  %1 = quant.dcast %0 : tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:3>> to tensor<1x4x4x1xf32>
  %2 = "stablehlo.reduce_window"(%1, %low) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [1, 0], [1, 0], [0, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<1x4x4x1xf32>, tensor<f32>) -> tensor<1x2x2x1xf32>
  func.return %2 : tensor<1x2x2x1xf32>
}

// Stored values of arguments and results get their types.
func.func @stored(%x: tensor<2x3xi8>) -> tensor<3x2xi8> {
  %0 = quant.scast %x : tensor<2x3xi8> to tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %2 = quant.scast %1 : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>> to tensor<3x2xi8>
  func.return %2 : tensor<3x2xi8>
}

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func @dense(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
// CHECK-NEXT:     %b = "tfl.pseudo_qconst"() <{qtype = tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>, value = dense<[100, -7]> : tensor<2xi32>}> : () -> tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT:     %0 = "tfl.quantize"(%x) <{qtype = tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01>>}> : (tensor<4x3xf32>) -> tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     %1 = "tfl.pseudo_qconst"() <{qtype = tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, value = dense<[[1, 3, 5], [2, 4, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT:     %2 = "tfl.fully_connected"(%0, %1, %b) <{asymmetric_quantize_inputs = false, fused_activation_function = "RELU6", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>) -> tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>
// CHECK-NEXT:     %3 = "tfl.dequantize"(%2) : (tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>) -> tensor<4x2xf32>
// CHECK-NEXT:     func.return %3 : tensor<4x2xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @nchw(%x: tensor<1x2x4x4xf32>, %w: tensor<2x1x3x3xf32>, %v: tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32> {
// CHECK-NEXT:     %0 = "tfl.pseudo_const"() <{value = dense<[0, 2, 3, 1]> : tensor<4xi32>}> : () -> tensor<4xi32>
// CHECK-NEXT:     %1 = "tfl.transpose"(%x, %0) : (tensor<1x2x4x4xf32>, tensor<4xi32>) -> tensor<1x4x4x2xf32>
// CHECK-NEXT:     %2 = "tfl.pseudo_const"() <{value = dense<[1, 2, 3, 0]> : tensor<4xi32>}> : () -> tensor<4xi32>
// CHECK-NEXT:     %3 = "tfl.transpose"(%w, %2) : (tensor<2x1x3x3xf32>, tensor<4xi32>) -> tensor<1x3x3x2xf32>
// CHECK-NEXT:     %4 = "tfl.pseudo_const"() <{value = dense<0.000000e+00> : tensor<2xf32>}> : () -> tensor<2xf32>
// CHECK-NEXT:     %5 = "tfl.depthwise_conv_2d"(%1, %3, %4) <{depth_multiplier = 1 : i32, dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, fused_activation_function = "RELU", padding = "SAME", stride_h = 1 : i32, stride_w = 1 : i32}> : (tensor<1x4x4x2xf32>, tensor<1x3x3x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
// CHECK-NEXT:     %6 = "tfl.tanh"(%5) : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
// CHECK-NEXT:     %7 = "tfl.pseudo_const"() <{value = dense<[3, 1, 1, 2]> : tensor<4xi32>}> : () -> tensor<4xi32>
// CHECK-NEXT:     %8 = "tfl.reshape"(%v, %7) : (tensor<3x2x1x1xf32>, tensor<4xi32>) -> tensor<3x1x1x2xf32>
// CHECK-NEXT:     %9 = "tfl.pseudo_const"() <{value = dense<0.000000e+00> : tensor<3xf32>}> : () -> tensor<3xf32>
// CHECK-NEXT:     %10 = "tfl.conv_2d"(%6, %8, %9) <{dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, fused_activation_function = "NONE", padding = "VALID", stride_h = 1 : i32, stride_w = 1 : i32}> : (tensor<1x4x4x2xf32>, tensor<3x1x1x2xf32>, tensor<3xf32>) -> tensor<1x4x4x3xf32>
// CHECK-NEXT:     %11 = "tfl.pseudo_const"() <{value = dense<[0, 3, 1, 2]> : tensor<4xi32>}> : () -> tensor<4xi32>
// CHECK-NEXT:     %12 = "tfl.transpose"(%10, %11) : (tensor<1x4x4x3xf32>, tensor<4xi32>) -> tensor<1x3x4x4xf32>
// CHECK-NEXT:     func.return %12 : tensor<1x3x4x4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @padded(%x: tensor<1x4x4x1xf32>) -> tensor<1x2x2x1xf32> {
// CHECK-NEXT:     %0 = "tfl.quantize"(%x) <{qtype = tensor<1x4x4x1x!quant.uniform<i8:f32, 5.000000e-01:3>>}> : (tensor<1x4x4x1xf32>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %1 = "tfl.pseudo_const"() <{value = dense<[[0, 0], [1, 0], [1, 0], [0, 0]]> : tensor<4x2xi32>}> : () -> tensor<4x2xi32>
// CHECK-NEXT:     %2 = "tfl.pseudo_qconst"() <{qtype = tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>, value = dense<-128> : tensor<i8>}> : () -> tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %3 = "tfl.padv2"(%0, %1, %2) : (tensor<1x4x4x1x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x2xi32>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<1x5x5x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %4 = "tfl.max_pool_2d"(%3) <{filter_height = 3 : i32, filter_width = 3 : i32, fused_activation_function = "NONE", padding = "VALID", stride_h = 2 : i32, stride_w = 2 : i32}> : (tensor<1x5x5x1x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %5 = "tfl.dequantize"(%4) : (tensor<1x2x2x1x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<1x2x2x1xf32>
// CHECK-NEXT:     func.return %5 : tensor<1x2x2x1xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @stored(%x: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>> {
// CHECK-NEXT:     %0 = "tfl.pseudo_const"() <{value = dense<[1, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
// CHECK-NEXT:     %1 = "tfl.transpose"(%x, %0) : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2xi32>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     func.return %1 : tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
