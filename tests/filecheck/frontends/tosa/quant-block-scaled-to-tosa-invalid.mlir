// RUN: xdsl-opt %s -p quant-block-scaled-to-tosa --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

!mxfp4 = !quant.block_scaled<f4E2M1FN:f32:{1:32}, scales = dense<0.5> : tensor<1xf8E8M0FNU>>

// CHECK:       'quant.qcast' op cannot be converted to TOSA: tosa.cast_to_block_scaled computes block scales, but the type fixes them; quantize constants first
func.func @f(%x: tensor<2x32xf32>) -> tensor<2x32x!mxfp4> {
  %q = quant.qcast %x : tensor<2x32xf32> to tensor<2x32x!mxfp4>
  return %q : tensor<2x32x!mxfp4>
}

// -----

!mxint8 = !quant.block_scaled<i8:f32:{1:32}, scales = dense<0.5> : tensor<1xf32>>

// CHECK:       'quant.dcast' op cannot be converted to TOSA: stored values are not constant, and TOSA has no cast to '!tosa.mxint8'
func.func @f(%q: tensor<2x32x!mxint8>) -> tensor<2x32xf32> {
  %x = quant.dcast %q : tensor<2x32x!mxint8> to tensor<2x32xf32>
  return %x : tensor<2x32xf32>
}

// -----

!q4_0 = !quant.block_scaled<i4:f32:{1:32}, scales = dense<0.5> : tensor<1xf16>>

// CHECK:       'quant.dcast' op cannot be converted to TOSA: unsupported storage type 'i4'; expected 'f8E4M3FN', 'f8E5M2', 'f6E2M3FN', 'f6E3M2FN', 'f4E2M1FN' or 'i8'
func.func @f(%q: tensor<2x32x!q4_0>) -> tensor<2x32xf32> {
  %x = quant.dcast %q : tensor<2x32x!q4_0> to tensor<2x32xf32>
  return %x : tensor<2x32xf32>
}

// -----

!nvfp4 = !quant.block_scaled<f4E2M1FN:f32:{1:16}, scales = dense<[0.5, 0.75]> : tensor<2xf8E4M3FN>>

// CHECK:       'quant.dcast' op cannot be converted to TOSA: scale 0.75 is not representable in f8E8M0FNU; expected a power of two
func.func @f(%q: tensor<2x32x!nvfp4>) -> tensor<2x32xf32> {
  %x = quant.dcast %q : tensor<2x32x!nvfp4> to tensor<2x32xf32>
  return %x : tensor<2x32xf32>
}
