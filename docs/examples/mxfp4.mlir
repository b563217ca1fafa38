!mxfp4 = !quant.block_scaled<f4E2M1FN:f32:{0:1, 1:32},
  scales = dense<[[0.5, 1.0], [2.0, 4.0]]> : tensor<2x2xf8E8M0FNU>>

func.func @dequantize(%stored: tensor<2x64xf4E2M1FN>) -> tensor<2x64xf32> {
  %q = quant.scast %stored : tensor<2x64xf4E2M1FN> to tensor<2x64x!mxfp4>
  %x = quant.dcast %q : tensor<2x64x!mxfp4> to tensor<2x64xf32>
  return %x : tensor<2x64xf32>
}
