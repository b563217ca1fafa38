!weights = !quant.uniform<i8:f32:0, {0.5, 0.25:3}>

func.func @quantize(%x: tensor<2x?xf32>) -> tensor<2x?x!weights> {
  %q = quant.qcast %x : tensor<2x?xf32> to tensor<2x?x!weights>
  return %q : tensor<2x?x!weights>
}
