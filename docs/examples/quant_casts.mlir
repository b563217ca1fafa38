func.func @casts(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
  %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<4xf32>
  return %1 : tensor<4xf32>
}
