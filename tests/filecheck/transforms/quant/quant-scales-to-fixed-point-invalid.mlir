// RUN: xdsl-opt %s -p quant-scales-to-fixed-point --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'func.func' op has a type that cannot be converted: scale 1e-10 is out of the range of fixed-point scales, 2**-32 to 536870911.75
func.func private @f(!quant.uniform<i8:f32, 1.0e-10>)

// -----

// CHECK:       'quant.qcast' op has a type that cannot be converted: scale 1000000000.0 at index 1 is out of the range of fixed-point scales, 2**-32 to 536870911.75
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:0, {1.0, 1.0e+9}>>
  return
}

// -----

// CHECK:       'func.func' op has a type that cannot be converted: fixed-point scales are unsupported in sub-channel types; 'normalize-quant-types' converts equivalent types to per-axis or per-tensor
func.func private @f(tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{1.0, 2.0}, {3.0, 4.0}}>>)

// -----

// CHECK:       'func.func' op has a type that cannot be converted: zero point 300 is not representable in 'i8'; expected -128 to 127
func.func private @f(!quant.uniform<i8:f32, 1.0:300>)

// -----

// CHECK:       'func.func' op has a type that cannot be converted: fixed-point scales are unsupported in block-scaled types; 'normalize-quant-types' converts equivalent types to per-axis or per-tensor
func.func private @f(tensor<4x!quant.block_scaled<i8:f32:{0:2}, scales = dense<[0.5, 0.25]> : tensor<2xf32>>>)
