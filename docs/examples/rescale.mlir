func.func @rescale(%x: tensor<3x2xi32>) -> tensor<3x2xi8> {
  %multiplier = "tosa.const"() <{values = dense<[1288490189, 1073741824]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %shift = "tosa.const"() <{values = dense<[37, 40]> : tensor<2xi8>}> : () -> tensor<2xi8>
  %input_zp = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %output_zp = "tosa.const"() <{values = dense<-5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = tosa.rescale %x, %multiplier, %shift, %input_zp, %output_zp {input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = SINGLE_ROUND, scale32 = true} : (tensor<3x2xi32>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>
  return %y : tensor<3x2xi8>
}
