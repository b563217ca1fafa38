!input = !quant.uniform<i8:f32, 0.5:300>
!weight = !quant.uniform<i8:f32:1, {0.25,0.125:1}>

func.func @layer(%x: tensor<1x4x!input>) {
  %c = arith.constant dense<1> : tensor<4x2xi8>
  %w = quant.scast %c : tensor<4x2xi8> to tensor<4x2x!weight>
  return
}
