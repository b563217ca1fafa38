func.func @f(%x: tensor<2x3xf32>) {
  %q = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32:1, {2.0, -3.0}>>
  return
}
