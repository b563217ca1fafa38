!u = !quant.uniform<i8:f32, 0.03125:4>
func.func @main(%q: tensor<8x!u>, %s: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // Quantized already: the cast stays, as the argument keeps its type.
  %x = quant.dcast %q : tensor<8x!u> to tensor<8xf32>
  %y = quant.region "stablehlo.add" (%a = %x : tensor<8xf32>, %b = %s : tensor<8xf32>) -> (tensor<8xf32>) {
    %t = stablehlo.add %a, %b : tensor<8xf32>
    quant.return %t : tensor<8xf32>
  }
  // From calibration, and from training.
  %y1 = quant.stats %y <-1.0:3.0> : tensor<8xf32>
  %z = quant.region "stablehlo.tanh" (%a = %y1 : tensor<8xf32>) -> (tensor<8xf32>) {
    %t = stablehlo.tanh %a : tensor<8xf32>
    quant.return %t : tensor<8xf32>
  }
  %z1 = quant.const_fake_quant %z <-1.0:0.9921875> bits 8 signed : tensor<8xf32>
  // The next state and the state, which are stored alike.
  %y2 = quant.coupled_ref %y1 "state" : tensor<8xf32>
  %s1 = quant.coupled_ref %s "state" : tensor<8xf32>
  return %y2, %z1 : tensor<8xf32>, tensor<8xf32>
}
