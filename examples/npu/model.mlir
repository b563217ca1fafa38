func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<3x4xf32>
  %v = stablehlo.constant dense<0.25> : tensor<3x4xf32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %g = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %s = stablehlo.logistic %g : tensor<2x4xf32>
  %y = stablehlo.multiply %a, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
