// A classifier that ends in a sigmoid and floats.
func.func @main(%x: tensor<1x8x!quant.uniform<i8:f32, 0.05:3>>) -> tensor<1x4xf32> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<4x8x!quant.uniform<i8<-127:127>:f32, 0.01>>, value = dense<[[89, 35, 3, -59, -49, -117, -108, -123], [-83, 80, 38, 105, 1, 27, 120, 59], [34, 11, 15, 111, -57, 81, 44, -127], [-27, 91, 14, -119, 68, 59, 88, -83]]> : tensor<4x8xi8>}> : () -> tensor<4x8x!quant.uniform<i8<-127:127>:f32, 0.01>>
  %n = "tfl.no_value"() <{value}> : () -> none
  %y = "tfl.fully_connected"(%x, %w, %n) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x8x!quant.uniform<i8:f32, 0.05:3>>, tensor<4x8x!quant.uniform<i8<-127:127>:f32, 0.01>>, none) -> tensor<1x4x!quant.uniform<i8:f32, 0.1:54>>
  %l = "tfl.logistic"(%y) : (tensor<1x4x!quant.uniform<i8:f32, 0.1:54>>) -> tensor<1x4x!quant.uniform<i8:f32, 0.00390625:-128>>
  %d = "tfl.dequantize"(%l) : (tensor<1x4x!quant.uniform<i8:f32, 0.00390625:-128>>) -> tensor<1x4xf32>
  return %d : tensor<1x4xf32>
}
