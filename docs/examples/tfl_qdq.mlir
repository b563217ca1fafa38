// A float op between casts.

!x = !quant.uniform<i8:f32, 0.5:-3>
!y = !quant.uniform<i8:f32, 0.25>

func.func @main(%x: tensor<1x3x!x>) -> tensor<1x3x!y> {
  %0 = "tfl.dequantize"(%x) : (tensor<1x3x!x>) -> tensor<1x3xf32>
  %1 = "tfl.hard_swish"(%0) : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %y = "tfl.quantize"(%1) <{qtype = tensor<1x3x!y>}> : (tensor<1x3xf32>) -> tensor<1x3x!y>
  return %y : tensor<1x3x!y>
}
