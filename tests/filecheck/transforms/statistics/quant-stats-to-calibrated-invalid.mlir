// RUN: xdsl-opt %s -p quant-stats-to-calibrated --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'quant.stats' op cannot be converted: range 1.0 to 0.0 is reversed
func.func @f(%x: f32) {
  %0 = quant.stats %x <1.0:0.0> : f32
  return
}

// -----

// CHECK:       'quant.stats' op cannot be converted: range nan to 0.0 is not finite
func.func @f(%x: f32) {
  %0 = quant.stats %x <0x7FC00000:0.0> : f32
  return
}

// -----

// CHECK:       'quant.stats' op cannot be converted: range -inf to inf is not finite
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.stats %x <0.0:1.0> axis 0 [<0.0:1.0>, <0xFF800000:0x7F800000>] : tensor<2xf32>
  return
}

// -----

// CHECK:       'quant.stats' op cannot be converted: 'vector<2xf32>' is neither a float nor a tensor of floats
func.func @f(%x: vector<2xf32>) {
  %0 = quant.stats %x <0.0:1.0> : vector<2xf32>
  return
}

// -----

// CHECK:       'quant.coupled_ref' op cannot be converted: '!quant.any<i8:f32>' is neither a float nor a tensor of floats
func.func @f(%x: f32, %q: !quant.any<i8:f32>) {
  %0 = quant.stats %x <0.0:1.0> : f32
  %1 = quant.coupled_ref %0 "a" : f32
  %2 = quant.coupled_ref %q "a" : !quant.any<i8:f32>
  return
}

// -----

// CHECK:       'quant.stats' op cannot be converted: NumPy has no dtype for expressed type 'tf32'; use one of f16, f32, f64, bf16, f8E5M2, f8E4M3, f8E4M3FN, f8E5M2FNUZ, f8E4M3FNUZ, f8E4M3B11FNUZ, f8E3M4, f8E8M0FNU, f6E2M3FN, f6E3M2FN, f4E2M1FN
func.func @f(%x: f32) {
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xtf32>} : f32
  return
}
