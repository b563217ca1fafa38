func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.composite "quant.fake_quant" %x {
    composite_attributes = {
      dtype = "i8", narrow_range = false, scale = dense<0.0625> : tensor<1xf32>, zero_point = dense<3> : tensor<1xi64>
    },
    decomposition = @fake_quant
  } : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.tanh %0 : tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}
func.func private @fake_quant(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  func.return %x : tensor<2x3xf32>
}
