// RUN: xdsl-opt %s -p quant-quantize-weights --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'quant-quantize-weights{bits=4 granularity=block block-size=2},quant-convert-const' --split-input-file | filecheck %s --check-prefix=BLOCK --match-full-lines
// RUN: xdsl-opt %s -p 'quant-quantize-weights{bits=2 granularity=tensor range=mse}' --split-input-file | filecheck %s --check-prefix=MSE --match-full-lines

func.func @stablehlo(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[127.0, -0.5], [0.5, 1.0], [6.0, 63.5], [-0.25, 7.0]]> : tensor<4x2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @stablehlo(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
// CHECK-NEXT:      %w = stablehlo.constant dense<[[1.270000e+02, -5.000000e-01], [5.000000e-01, 1.000000e+00], [6.000000e+00, 6.350000e+01], [-2.500000e-01, 7.000000e+00]]> : tensor<4x2xf32>
// CHECK-NEXT:      %0 = quant.qcast %w : tensor<4x2xf32> to tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e+00,5.000000e-01}>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e+00,5.000000e-01}>> to tensor<4x2xf32>
// CHECK-NEXT:      %y = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:      func.return %y : tensor<1x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// BLOCK:       builtin.module {
// BLOCK-NEXT:    func.func @stablehlo(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
// BLOCK-NEXT:      %w = arith.constant dense<[[7, -3], [0, 7], [7, 7], [0, 1]]> : tensor<4x2xi4>
// BLOCK-NEXT:      %0 = quant.scast %w : tensor<4x2xi4> to tensor<4x2x!quant.uniform<i4<-7:7>:f32:{0:2, 1:1}, {{{{}}18.1428566, 0.142857149}, {0.857142865, 9.07142829}}>>
// BLOCK-NEXT:      %1 = quant.dcast %0 : tensor<4x2x!quant.uniform<i4<-7:7>:f32:{0:2, 1:1}, {{{{}}18.1428566, 0.142857149}, {0.857142865, 9.07142829}}>> to tensor<4x2xf32>
// BLOCK-NEXT:      %y = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
// BLOCK-NEXT:      func.return %y : tensor<1x2xf32>
// BLOCK-NEXT:    }
// BLOCK-NEXT:  }

// MSE:       builtin.module {
// MSE-NEXT:    func.func @stablehlo(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
// MSE-NEXT:      %w = stablehlo.constant dense<[[1.270000e+02, -5.000000e-01], [5.000000e-01, 1.000000e+00], [6.000000e+00, 6.350000e+01], [-2.500000e-01, 7.000000e+00]]> : tensor<4x2xf32>
// MSE-NEXT:      %0 = quant.qcast %w : tensor<4x2xf32> to tensor<4x2x!quant.uniform<i2<-1:1>:f32, 9.525000e+01>>
// MSE-NEXT:      %1 = quant.dcast %0 : tensor<4x2x!quant.uniform<i2<-1:1>:f32, 9.525000e+01>> to tensor<4x2xf32>
// MSE-NEXT:      %y = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
// MSE-NEXT:      func.return %y : tensor<1x2xf32>
// MSE-NEXT:    }
// MSE-NEXT:  }

// -----

func.func @tfl(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %w = "tfl.pseudo_const"() <{value = dense<[[127.0, -0.5, 0.5, 1.0], [6.0, 63.5, -0.25, 7.0]]> : tensor<2x4xf32>}> : () -> tensor<2x4xf32>
  %b = "tfl.pseudo_const"() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<2xf32>
  %y = "tfl.fully_connected"(%x, %w, %b) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @tfl(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
// CHECK-NEXT:      %w = "tfl.pseudo_const"() <{value = dense<[[1.270000e+02, -5.000000e-01, 5.000000e-01, 1.000000e+00], [6.000000e+00, 6.350000e+01, -2.500000e-01, 7.000000e+00]]> : tensor<2x4xf32>}> : () -> tensor<2x4xf32>
// CHECK-NEXT:      %0 = "tfl.quantize"(%w) <{qtype = tensor<2x4x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,5.000000e-01}>>}> : (tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,5.000000e-01}>>
// CHECK-NEXT:      %1 = "tfl.dequantize"(%0) : (tensor<2x4x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,5.000000e-01}>>) -> tensor<2x4xf32>
// CHECK-NEXT:      %b = "tfl.pseudo_const"() <{value = dense<1.000000e+00> : tensor<2xf32>}> : () -> tensor<2xf32>
// CHECK-NEXT:      %y = "tfl.fully_connected"(%x, %1, %b) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:      func.return %y : tensor<1x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// BLOCK:       builtin.module {
// BLOCK-NEXT:    func.func @tfl(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
// BLOCK-NEXT:      %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x4x!quant.uniform<i4<-7:7>:f32:{0:1, 1:2}, {{{{}}18.1428566, 0.142857149}, {9.07142829, 1.000000e+00}}>>, value = dense<[[7, 0, 3, 7], [1, 7, 0, 7]]> : tensor<2x4xi4>}> : () -> tensor<2x4x!quant.uniform<i4<-7:7>:f32:{0:1, 1:2}, {{{{}}18.1428566, 0.142857149}, {9.07142829, 1.000000e+00}}>>
// BLOCK-NEXT:      %0 = "tfl.dequantize"(%w) : (tensor<2x4x!quant.uniform<i4<-7:7>:f32:{0:1, 1:2}, {{{{}}18.1428566, 0.142857149}, {9.07142829, 1.000000e+00}}>>) -> tensor<2x4xf32>
// BLOCK-NEXT:      %b = "tfl.pseudo_const"() <{value = dense<1.000000e+00> : tensor<2xf32>}> : () -> tensor<2xf32>
// BLOCK-NEXT:      %y = "tfl.fully_connected"(%x, %0, %b) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<1x2xf32>
// BLOCK-NEXT:      func.return %y : tensor<1x2xf32>
// BLOCK-NEXT:    }
// BLOCK-NEXT:  }

// MSE:       builtin.module {
// MSE-NEXT:    func.func @tfl(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
// MSE-NEXT:      %w = "tfl.pseudo_const"() <{value = dense<[[1.270000e+02, -5.000000e-01, 5.000000e-01, 1.000000e+00], [6.000000e+00, 6.350000e+01, -2.500000e-01, 7.000000e+00]]> : tensor<2x4xf32>}> : () -> tensor<2x4xf32>
// MSE-NEXT:      %0 = "tfl.quantize"(%w) <{qtype = tensor<2x4x!quant.uniform<i2<-1:1>:f32, 9.525000e+01>>}> : (tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<i2<-1:1>:f32, 9.525000e+01>>
// MSE-NEXT:      %1 = "tfl.dequantize"(%0) : (tensor<2x4x!quant.uniform<i2<-1:1>:f32, 9.525000e+01>>) -> tensor<2x4xf32>
// MSE-NEXT:      %b = "tfl.pseudo_const"() <{value = dense<1.000000e+00> : tensor<2xf32>}> : () -> tensor<2xf32>
// MSE-NEXT:      %y = "tfl.fully_connected"(%x, %1, %b) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<1x2xf32>
// MSE-NEXT:      func.return %y : tensor<1x2xf32>
// MSE-NEXT:    }
// MSE-NEXT:  }
