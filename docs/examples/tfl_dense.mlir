!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!b = !quant.uniform<i32:f32:0, {0.25,0.125}>
!y = !quant.uniform<i8:f32, 0.75:-128>
func.func @main(%x: tensor<1x3x!x>) -> tensor<2x!y> {
  %w = "tfl.pseudo_qconst"() <{
    qtype = tensor<2x3x!w>, value = dense<[[1, -127, 3], [4, 5, 127]]> : tensor<2x3xi8>
  }> : () -> tensor<2x3x!w>
  %b = "tfl.pseudo_qconst"() <{
    qtype = tensor<2x!b>, value = dense<[1073741825, -7]> : tensor<2xi32>
  }> : () -> tensor<2x!b>
  %sizes = "tfl.pseudo_const"() <{value = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
  %h = "tfl.fully_connected"(%x, %w, %b) <{
    fused_activation_function = "RELU", keep_num_dims = false, weights_format = "DEFAULT"
  }> : (tensor<1x3x!x>, tensor<2x3x!w>, tensor<2x!b>) -> tensor<1x2x!y>
  %y = "tfl.reshape"(%h, %sizes) : (tensor<1x2x!y>, tensor<1xi32>) -> tensor<2x!y>
  return %y : tensor<2x!y>
}
