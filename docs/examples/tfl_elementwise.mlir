!x = !quant.uniform<i8:f32, 0.1:3>
!y = !quant.uniform<i8:f32, 0.07:-5>
!product = !quant.uniform<i8:f32, 0.3:-20>
!stored = !quant.uniform<i8:f32, 0.37:2>

func.func @main(%x: tensor<4x!x>, %y: tensor<4x!y>) -> tensor<4x!stored> {
  %product = tfl.mul(%x, %y) <{fused_activation_function = "NONE"}> : (tensor<4x!x>, tensor<4x!y>) -> tensor<4x!product>
  %rescaled = "tfl.quantize"(%product) <{qtype = tensor<4x!stored>}> : (tensor<4x!product>) -> tensor<4x!stored>
  return %rescaled : tensor<4x!stored>
}
