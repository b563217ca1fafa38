// RUN: xdsl-opt %s -p convert-ml-to-arith --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'ml.add' op result #0 cannot be dequantized: '!quant.any<i8>' has no expressed type
func.func @no_expressed_type(%a: f32) -> !quant.any<i8> {
  %0 = ml.add %a, %a : (f32, f32) -> !quant.any<i8>
  func.return %0 : !quant.any<i8>
}

// -----

// CHECK: 'ml.sub' op operand #1 cannot be dequantized: quantized dimension size does not match number of scales
func.func @per_axis(%a: tensor<3xf32>, %b: tensor<3x!quant.uniform<i8:f32:0, {1.0, 2.0}>>) -> tensor<3xf32> {
  %0 = ml.sub %a, %b : (tensor<3xf32>, tensor<3x!quant.uniform<i8:f32:0, {1.0, 2.0}>>) -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
