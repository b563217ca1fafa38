func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %xs = quant.stats %x <-1.0:1.0> : tensor<2x3xf32>
  %w = arith.constant dense<0.5> : tensor<3x4xf32>
  %v = arith.constant dense<0.25> : tensor<3x4xf32>
  %a = vec.dot %xs, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %as = quant.stats %a <-1.5:1.5> : tensor<2x4xf32>
  %g = vec.dot %xs, %v : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %gs = quant.stats %g <-0.75:0.75> : tensor<2x4xf32>
  %s = vec.sigmoid %gs : tensor<2x4xf32>
  %y = vec.gate %as, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
