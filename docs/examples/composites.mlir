func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.stats %x <-2.0:2.0> : tensor<4xf32>
  %1 = stablehlo.composite "my.gelu" %0 {decomposition = @gelu} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = quant.stats %1 <-0.25:2.0> : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
func.func private @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.702> : tensor<4xf32>
  %0 = stablehlo.multiply %x, %c : tensor<4xf32>
  %1 = stablehlo.logistic %0 : tensor<4xf32>
  %2 = stablehlo.multiply %x, %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
