func.func @per_token(%x: tensor<?x4xf32>) -> (tensor<?x4xi8>, tensor<?xf32>, tensor<?xi8>) {
  %scale, %zero_point = quant.choose_parameters %x {0:1} as <u8>
      : tensor<?x4xf32> to tensor<?xf32>, tensor<?xi8>
  %q = quant.dynamic_qcast %x, %scale, %zero_point {0:1} as <u8>
      : tensor<?x4xf32>, tensor<?xf32>, tensor<?xi8> to tensor<?x4xi8>
  return %q, %scale, %zero_point : tensor<?x4xi8>, tensor<?xf32>, tensor<?xi8>
}
