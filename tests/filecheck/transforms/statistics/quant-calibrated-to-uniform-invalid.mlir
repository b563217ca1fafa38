// RUN: xdsl-opt %s -p quant-calibrated-to-uniform --verify-diagnostics --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'quant-calibrated-to-uniform{bits=33}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=WIDE

// CHECK:       'quant.qcast' op cannot be converted: scale 1.000000e+05 out of expressed type range [5.960464e-08, 6.550400e+04]
// WIDE: 'quant.qcast' op cannot be converted: unknown storage type 'i33', available: 'i1' to 'i32', 'u1' to 'u32', and float types, e.g. 'f8E4M3FN'
func.func @f(%x: f16) {
  %0 = quant.qcast %x : f16 to !quant.calibrated<f16<0.0:2.55e7>>
  return
}

// -----

// CHECK:       'quant.qcast' op expects integer 'quant.axis' and 'quant.axis_stats' with elements of type f64 and shape [N,2]
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x {quant.axis_stats = dense<0.0> : tensor<2x2xf64>} : tensor<2xf32> to tensor<2x!quant.calibrated<f32<0.0:1.0>>>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be converted: quantized dimension size does not match number of scales
func.func @f(%x: tensor<3xf32>) {
  %0 = quant.qcast %x {quant.axis = 0 : i64, quant.axis_stats = dense<0.0> : tensor<2x2xf64>} : tensor<3xf32> to tensor<3x!quant.calibrated<f32<0.0:1.0>>>
  return
}

// -----

// CHECK:       'quant.qcast' op range nan to 0.0 is not finite
func.func @f(%x: tensor<1xf32>) {
  %0 = quant.qcast %x {quant.axis = 0 : i64, quant.axis_stats = dense<[[0x7FF8000000000000, 0.0]]> : tensor<1x2xf64>} : tensor<1xf32> to tensor<1x!quant.calibrated<f32<0.0:1.0>>>
  return
}
