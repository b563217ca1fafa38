!x = tensor<8xf32>
func.func @main(%x: !x) -> !x {
  %y = quant.region "stablehlo.tanh" (%a = %x : !x as !quant.uniform<i8:f32, 0.03125:4>)
      -> (!x as !quant.uniform<i8:f32, 0.0078125>) {
    %t = stablehlo.tanh %a : !x
    quant.return %t : !x
  }
  return %y : !x
}
