func.func @main(%x: tensor<1x4xf32>, %s: tensor<1x4xf32>) -> tensor<1x8xf32> {
  %w = arith.constant dense<0.5> : tensor<4x4xf32>
  %b = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %h = quant.region "tfl.fully_connected" (%0 = %x : tensor<1x4xf32> as !quant.calibrated<f32<-1.0:1.0>>,
      %1 = %w : tensor<4x4xf32>, %2 = %b : tensor<4xf32>) -> (tensor<1x4xf32>) {
    %3 = "tfl.fully_connected"(%0, %1, %2) {
      fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"
    } : (tensor<1x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
    quant.return %3 : tensor<1x4xf32>
  }
  %t = quant.region "tfl.tanh" (%0 = %h : tensor<1x4xf32> as !quant.calibrated<f32<-4.0:4.0>>)
      -> (tensor<1x4xf32>) {
    %1 = "tfl.tanh"(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    quant.return %1 : tensor<1x4xf32>
  }
  // The state has fixed parameters, which both operands and the result take.
  %y = quant.region "tfl.concatenation" (%0 = %s : tensor<1x4xf32> as !quant.uniform<i8:f32, 0.125>,
      %1 = %t : tensor<1x4xf32>) -> (tensor<1x8xf32>) {
    %2 = "tfl.concatenation"(%0, %1) {axis = 1 : i32, fused_activation_function = "NONE"}
      : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
    quant.return %2 : tensor<1x8xf32>
  }
  return %y : tensor<1x8xf32>
}
