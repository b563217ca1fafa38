func.func @layer(%x: tensor<2x3xi8>, %weights: tensor<3x4xi8>) -> tensor<2x4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %most = stablehlo.constant dense<2147483647> : tensor<i32>
  %sums = stablehlo.dot_general %x, %weights, contracting_dims = [1] x [0] : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>
  %relu = stablehlo.clamp %zero, %sums, %most : (tensor<i32>, tensor<2x4xi32>, tensor<i32>) -> tensor<2x4xi32>
  return %relu : tensor<2x4xi32>
}
