func.func @main(%x: tensor<2x3xf32>) -> tensor<8xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<3x4xf32>
  %b = stablehlo.constant dense<1.5> : tensor<2x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.add %0, %b : tensor<2x4xf32>
  %2 = stablehlo.maximum %1, %zero : tensor<2x4xf32>
  %3 = stablehlo.exponential %2 : tensor<2x4xf32>
  %4 = stablehlo.reshape %3 : (tensor<2x4xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
