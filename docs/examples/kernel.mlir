func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = quant.region "add" (%a = %x : tensor<4xf32> as !quant.calibrated<f32<-1.0:3.0>>,
                           %b = %w : tensor<4xf32>) -> (tensor<4xf32> as !quant.any<i8:f32>) {
    %z = arith.addf %a, %b : tensor<4xf32>
    quant.return %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
