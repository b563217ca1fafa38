// A gate of a product with itself, and one more op: sums that are used twice and combined again.
!x = !quant.uniform<i8:f32, 0.05>
!y = !quant.uniform<i8:f32, 0.1:3>
func.func @main(%x: tensor<4x8x!x>, %w: tensor<8x8x!x>) -> tensor<4x8x!y> {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8x!x>, tensor<8x8x!x>) -> tensor<4x8x!y>
  %g = stablehlo.logistic %d : (tensor<4x8x!y>) -> tensor<4x8x!y>
  %m = stablehlo.multiply %d, %g : tensor<4x8x!y>
  %r = stablehlo.add %m, %d : tensor<4x8x!y>
  return %r : tensor<4x8x!y>
}
