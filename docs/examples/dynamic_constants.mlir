!q = !quant.uniform<u8:f32:0, {0.5:128, 0.25}>
func.func @quantize(%x: tensor<2x?xf32>) -> tensor<2x?x!q> {
  %q = quant.qcast %x : tensor<2x?xf32> to tensor<2x?x!q>
  return %q : tensor<2x?x!q>
}
