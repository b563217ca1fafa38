func.func @layer(%x: tensor<4x2xf32>) -> tensor<4x3xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %scales = stablehlo.constant dense<[2.0, 4.0, 0.5]> : tensor<3xf32>
  %s = stablehlo.broadcast_in_dim %scales, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
  %z = stablehlo.multiply %y, %s : tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}
