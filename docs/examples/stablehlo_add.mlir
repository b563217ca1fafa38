!a = tensor<4x!quant.uniform<i8:f32, 2.000000e+00:3>>
!b = tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
func.func @add(%x: !a, %y: !b) -> !a {
  %sum = stablehlo.add %x, %y : (!a, !b) -> !a
  return %sum : !a
}
