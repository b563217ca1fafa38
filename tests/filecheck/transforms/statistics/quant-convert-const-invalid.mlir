// RUN: xdsl-opt %s -p quant-convert-const --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'quant.qcast' op cannot quantize its constant: zero point 128 is not representable in 'i8'; expected -128 to 127
func.func @f() {
  %c = arith.constant 1.0 : f32
  %0 = quant.qcast %c : f32 to !quant.uniform<i8:f32, 1.0:128>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot quantize its constant: NumPy has no dtype for expressed type 'tf32'; use one of f16, f32, f64, bf16, f8E5M2, f8E4M3, f8E4M3FN, f8E5M2FNUZ, f8E4M3FNUZ, f8E4M3B11FNUZ, f8E3M4, f8E8M0FNU, f6E2M3FN, f6E3M2FN, f4E2M1FN
func.func @f() {
  %c = arith.constant 1.0 : tf32
  %0 = quant.qcast %c : tf32 to !quant.uniform<i8:tf32, 1.0>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot quantize its constant: missing data of resource 'nothing'
func.func @f() {
  %c = arith.constant dense_resource<nothing> : tensor<2xf32>
  %0 = quant.qcast %c : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 1.0>>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot quantize its constant: data of 4 bytes; expected 8 for 'tensor<2xf32>'
func.func @f() {
  %c = arith.constant dense_resource<short> : tensor<2xf32>
  %0 = quant.qcast %c : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 1.0>>
  return
}

{-#
  dialect_resources: {
    builtin: {
      short: "0x0400000000000040"
    }
  }
#-}
