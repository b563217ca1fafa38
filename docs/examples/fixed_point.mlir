!a = !quant.uniform<i8:f32, 0.1:10>
!b = !quant.uniform<i8:f32, 0.25:-5>
func.func @requantize(%x: tensor<4xi8>) -> tensor<4xi8> {
  %q = quant.scast %x : tensor<4xi8> to tensor<4x!a>
  %e = quant.dcast %q : tensor<4x!a> to tensor<4xf32>
  %r = quant.qcast %e : tensor<4xf32> to tensor<4x!b>
  %y = quant.scast %r : tensor<4x!b> to tensor<4xi8>
  return %y : tensor<4xi8>
}
