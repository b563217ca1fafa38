// RUN: xdsl-opt %s -p 'quant-quantize-weights{bits=4 granularity=block block-size=2 narrow-range=false scales=f16},quant-convert-const' | filecheck %s --match-full-lines

// Weights of contractions and tables of lookups. The scales 0.8 / 7 and 1.6 / 7 are rounded to bf16.
func.func @blocks(%x: tensor<1x4xf32>, %i: tensor<1xi32>) -> (tensor<1x2xf32>, tensor<1x4xf32>) {
  %w = "tfl.pseudo_const"() <{value = dense<[[0.7, -0.8, 0.0, 0.0], [0.5, 7.0, 1.4, -1.6]]> : tensor<2x4xf32>}> : () -> tensor<2x4xf32>
  %n = "tfl.no_value"() <{value}> : () -> none
  %y = "tfl.fully_connected"(%x, %w, %n) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x4xf32>, tensor<2x4xf32>, none) -> tensor<1x2xf32>
  %z = "tfl.embedding_lookup"(%i, %w) : (tensor<1xi32>, tensor<2x4xf32>) -> tensor<1x4xf32>
  return %y, %z : tensor<1x2xf32>, tensor<1x4xf32>
}

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func @blocks(%x: tensor<1x4xf32>, %i: tensor<1xi32>) -> (tensor<1x2xf32>, tensor<1x4xf32>) {
// CHECK-NEXT:     %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x4x!quant.block_scaled<i4:f32:{0:1, 1:2}, scales = dense<{{\[\[}}1.142580e-01, 1.000000e+00], [1.000000e+00, 2.285160e-01]]> : tensor<2x2xf16>>>, value = dense<{{\[\[}}6, -7, 0, 0], [0, 7, 6, -7]]> : tensor<2x4xi4>}> : () -> tensor<2x4x!quant.block_scaled<i4:f32:{0:1, 1:2}, scales = dense<{{\[\[}}1.142580e-01, 1.000000e+00], [1.000000e+00, 2.285160e-01]]> : tensor<2x2xf16>>>
// CHECK-NEXT:     %0 = "tfl.dequantize"(%w) : (tensor<2x4x!quant.block_scaled<i4:f32:{0:1, 1:2}, scales = dense<{{\[\[}}1.142580e-01, 1.000000e+00], [1.000000e+00, 2.285160e-01]]> : tensor<2x2xf16>>>) -> tensor<2x4xf32>
// CHECK-NEXT:     %n = "tfl.no_value"() <{value}> : () -> none
// CHECK-NEXT:     %y = "tfl.fully_connected"(%x, %0, %n) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x4xf32>, tensor<2x4xf32>, none) -> tensor<1x2xf32>
// CHECK-NEXT:     %z = "tfl.embedding_lookup"(%i, %0) : (tensor<1xi32>, tensor<2x4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT:     func.return %y, %z : tensor<1x2xf32>, tensor<1x4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
