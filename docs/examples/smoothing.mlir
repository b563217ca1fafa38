func.func @layer(%z: tensor<4x2xf32>) -> tensor<4x1xf32> {
  %gamma = arith.constant dense<[6.0, 2.0]> : tensor<2xf32>
  %g = stablehlo.broadcast_in_dim %gamma, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  %n = stablehlo.multiply %z, %g : tensor<4x2xf32>
  %x = quant.stats %n <-16.0:4.0> axis 1 [<-16.0:4.0>, <-0.5:1.0>] : tensor<4x2xf32>
  %w = arith.constant dense<[[1.0], [4.0]]> : tensor<2x1xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x1xf32>) -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}
