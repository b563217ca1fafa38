!x = !quant.uniform<i8:f32, 0.05:-3>
!s = !quant.uniform<i8:f32, 0.1>
func.func @sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.region "add" (%a = %x : tensor<4xf32> as !x, %b = %y : tensor<4xf32> as !x)
      -> (tensor<4xf32> as !s) {
    %1 = stablehlo.add %a, %b : tensor<4xf32>
    quant.return %1 : tensor<4xf32>
  }
  %2 = quant.region "add" (%a = %0 : tensor<4xf32> as !s, %b = %x : tensor<4xf32> as !x)
      -> (tensor<4xf32> as !s) {
    %3 = stablehlo.add %a, %b : tensor<4xf32>
    quant.return %3 : tensor<4xf32>
  }
  func.return %2 : tensor<4xf32>
}
