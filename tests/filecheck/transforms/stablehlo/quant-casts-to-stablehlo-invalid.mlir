// RUN: xdsl-opt %s -p quant-casts-to-stablehlo --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'quant.qcast' op cannot become a StableHLO op: these take ranked tensors, but the type is '!quant.uniform<i8:f32, 1.000000e+00>'
func.func @f(%x: f32) -> !quant.uniform<i8:f32, 1.0> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0>
  return %0 : !quant.uniform<i8:f32, 1.0>
}
