!x = tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:3>>
!w = tensor<4x3x!quant.uniform<i8<-127:127>:f32:1, {5.000000e-02,1.000000e-01,2.000000e-01}>>
!y = tensor<2x3x!quant.uniform<i8:f32, 1.000000e+00:-10>>
func.func @dense(%x: !x) -> !y {
  %w = stablehlo.constant() <{value = dense<[[90, -1, 3], [5, 2, 0], [-8, 30, 1], [0, 7, -9]]> : tensor<4x3xi8>}> : () -> !w
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (!x, !w) -> !y
  %low = stablehlo.constant() <{value = dense<-10> : tensor<2x3xi8>}> : () -> !y
  %relu = stablehlo.maximum %y, %low : !y
  return %relu : !y
}
