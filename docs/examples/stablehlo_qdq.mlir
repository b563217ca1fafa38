!a = tensor<4x!quant.uniform<i8:f32, 2.000000e+00:3>>
!b = tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
func.func @multiply(%x: !a, %y: !a) -> (!a, !b) {
  %0 = stablehlo.uniform_dequantize %x : (!a) -> tensor<4xf32>
  %1 = stablehlo.uniform_dequantize %y : (!a) -> tensor<4xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<4xf32>
  %product = stablehlo.uniform_quantize %2 : (tensor<4xf32>) -> !a
  %narrow = stablehlo.uniform_quantize %product : (!a) -> !b
  return %product, %narrow : !a, !b
}
