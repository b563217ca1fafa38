!act = !quant.uniform<i8:f32, 0.5:3>

func.func @quantize(%x: tensor<4x?xf32>) -> tensor<4x?x!act> {
  %q = quant.qcast %x : tensor<4x?xf32> to tensor<4x?x!act>
  return %q : tensor<4x?x!act>
}
