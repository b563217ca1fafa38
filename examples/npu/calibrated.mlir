func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %xs = quant.stats %x <-1.0:1.0> : tensor<2x3xf32>
  %w = stablehlo.constant dense<0.5> : tensor<3x4xf32>
  %v = stablehlo.constant dense<0.25> : tensor<3x4xf32>
  %a = stablehlo.dot_general %xs, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %as = quant.stats %a <-1.5:1.5> : tensor<2x4xf32>
  %g = stablehlo.dot_general %xs, %v, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %gs = quant.stats %g <-0.75:0.75> : tensor<2x4xf32>
  %s = stablehlo.logistic %gs : tensor<2x4xf32>
  %y = stablehlo.multiply %as, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
