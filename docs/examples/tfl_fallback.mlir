!x = !quant.uniform<i8:f32, 0.5:3>
!y = !quant.uniform<i8:f32, 0.125:-1>

func.func @main(%a: tensor<4x!x>, %b: tensor<4x!x>) -> tensor<4x!y> {
  %sum = tfl.add %a, %b {fused_activation_function = "NONE"} : tensor<4x!x>
  %quotient = tfl.div(%sum, %b) <{fused_activation_function = "RELU6"}> : (tensor<4x!x>, tensor<4x!x>) -> tensor<4x!y>
  return %quotient : tensor<4x!y>
}
