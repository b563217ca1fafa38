!q = !quant.uniform<i8:f32, 0.5:-25>

func.func @relu(%x: tensor<4x!q>) -> tensor<4x!q> {
  %y = tosa.clamp %x {min_val = -25 : i8, max_val = 100 : i8} : (tensor<4x!q>) -> tensor<4x!q>
  return %y : tensor<4x!q>
}
