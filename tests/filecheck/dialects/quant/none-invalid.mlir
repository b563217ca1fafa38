// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// CHECK: expressed type in quantized type expected to match float type
func.func @other_float(%x: f16) {
  %0 = quant.qcast %x : f16 to !quant.none<f32>
  return
}

// -----

// CHECK: storage type in quantized type expected to match integer type
func.func @storage(%x: i8) {
  %0 = quant.scast %x : i8 to !quant.none<f32>
  return
}

// -----

// CHECK: 'quant.region' op has incompatible specification !quant.none<f16> and input type 'f32'
func.func @port(%x: f32) {
  quant.region "k" (%a = %x : f32 as !quant.none<f16>) {
  }
  return
}
