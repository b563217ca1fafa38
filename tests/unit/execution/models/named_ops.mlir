// A convolution with zero points, that of the filter 0, and a product with a transposed factor.
func.func @main(%x: tensor<1x6x6x16xi8>, %w: tensor<3x3x16x40xi8>, %y: tensor<40x24xi8>)
    -> (tensor<1x4x4x40xi32>, tensor<40x40xi32>) {
  %zx = arith.constant -7 : i32
  %zw = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x4x4x40xi32>
  %o = linalg.fill ins(%zx : i32) outs(%e : tensor<1x4x4x40xi32>) -> tensor<1x4x4x40xi32>
  %r = linalg.conv_2d_nhwc_hwcf_q
      ins(%x, %w, %zx, %zw : tensor<1x6x6x16xi8>, tensor<3x3x16x40xi8>, i32, i32)
      outs(%o : tensor<1x4x4x40xi32>) -> tensor<1x4x4x40xi32>
  %d = tensor.empty() : tensor<40x40xi32>
  %p = linalg.fill ins(%zw : i32) outs(%d : tensor<40x40xi32>) -> tensor<40x40xi32>
  %s = linalg.matmul indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
      affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>]
      ins(%y, %y : tensor<40x24xi8>, tensor<40x24xi8>)
      outs(%p : tensor<40x40xi32>) -> tensor<40x40xi32>
  func.return %r, %s : tensor<1x4x4x40xi32>, tensor<40x40xi32>
}
