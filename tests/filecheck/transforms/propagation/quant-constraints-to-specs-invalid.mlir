// RUN: xdsl-opt %s -p quant-constraints-to-specs --verify-diagnostics --split-input-file | filecheck %s

// CHECK: a.mlir:4:3: error: contradictory constraints on a value, found !quant.calibrated<f32<-1.000000e+00:1.000000e+00>> of 'quant.stats' op at a.mlir:3:3 and !quant.calibrated<f32<-2.000000e+00:1.000000e+00>> of 'quant.stats' op at a.mlir:4:3; keep one of them
func.func @statistics(%x: f32) {
  %0 = quant.stats %x <-1.0:1.0> : f32 loc("a.mlir":3:3)
  %1 = quant.stats %0 <-2.0:1.0> : f32 loc("a.mlir":4:3)
  quant.region "k" (%a = %1 : f32) {
  }
  return
}

// -----

// CHECK: contradictory constraints on a value, found !quant.none<f32> of 'quant.qcast' op and !quant.uniform<u8:f32, 0.0039215686274509803> of 'quant.const_fake_quant' op; keep one of them
func.func @none(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.none<f32>
  %1 = quant.dcast %0 : !quant.none<f32> to f32
  %2 = quant.const_fake_quant %1 <0.0:1.0> bits 8 : f32
  quant.region "k" (%a = %2 : f32) {
  }
  return
}

// -----

// CHECK: contradictory constraints on values coupled by 'state', found !quant.any<i8:f32> of input #0 of kernel 'k' and !quant.any<u8:f32> of input #1 of kernel 'k'; keep one of them
func.func @coupled(%x: f32, %y: f32) {
  %0 = quant.coupled_ref %x "state" : f32
  %1 = quant.coupled_ref %y "state" : f32
  quant.region "k" (%a = %0 : f32 as !quant.any<i8:f32>, %b = %1 : f32 as !quant.any<u8:f32>) {
  }
  return
}
