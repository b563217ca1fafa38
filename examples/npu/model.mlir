func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<0.5> : tensor<3x4xf32>
  %v = arith.constant dense<0.25> : tensor<3x4xf32>
  %a = vec.dot %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %g = vec.dot %x, %v : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %s = vec.sigmoid %g : tensor<2x4xf32>
  %y = vec.gate %a, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
