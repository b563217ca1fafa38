func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %x_range = quant.stats %x <-1.0:1.0> : tensor<1x4xf32>
  %y = "tfl.mul"(%x_range, %x_range) {fused_activation_function = "NONE"}
    : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %y_range = quant.stats %y <0.0:1.0> : tensor<1x4xf32>
  %q = quant.qcast %y_range : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.125>>
  %d = quant.dcast %q : tensor<1x4x!quant.uniform<i8:f32, 0.125>> to tensor<1x4xf32>
  %e = quant.qcast %y_range : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.25>>
  %f = quant.dcast %e : tensor<1x4x!quant.uniform<i8:f32, 0.25>> to tensor<1x4xf32>
  %a = "tfl.tanh"(%d) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %b = "tfl.logistic"(%y_range) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %c = "tfl.softmax"(%f) {beta = 1.0 : f32} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %a, %b, %c : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}
