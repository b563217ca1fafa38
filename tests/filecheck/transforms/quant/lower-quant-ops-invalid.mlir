// RUN: xdsl-opt %s -p lower-quant-ops --allow-unregistered-dialect --verify-diagnostics --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even fuse=true runtime-checks=true}' --allow-unregistered-dialect --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// MLIR crashes.

// CHECK:       'quant.dcast' op cannot be lowered: type '!quant.any<i8:f32>' has no scale
func.func @f(%q: !quant.any<i8:f32>) -> f32 {
  %0 = quant.dcast %q : !quant.any<i8:f32> to f32
  return %0 : f32
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: type '!quant.any<i8<-8:7>:f32>' has no scale
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.any<i8<-8:7>:f32>>
  return
}

// -----

// CHECK:       'quant.dcast' op cannot be lowered: type '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no scale
func.func @f(%q: tensor<*x!quant.calibrated<f32<-1.0:1.0>>>) {
  %0 = quant.dcast %q : tensor<*x!quant.calibrated<f32<-1.0:1.0>>> to tensor<*xf32>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: type '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no scale
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.calibrated<f32<-1.0:1.0>>
  return
}

// -----

// MLIR takes zero points modulo 2^width.

// CHECK:       'quant.qcast' op cannot be lowered: zero point 128 is not representable in 'i8'; expected -128 to 127
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0:128>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: zero point -129 is not representable in 'i8'; expected -128 to 127
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0:-129>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: zero point 256 is not representable in 'u8'; expected 0 to 255
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<u8:f32, 1.0:256>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: zero point -1 is not representable in 'u8'; expected 0 to 255
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<u8:f32, 1.0:-1>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: zero point 8 is not representable in 'i4'; expected -8 to 7
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<i4:f32, 1.0:8>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: zero point 2 is not representable in 'u1'; expected 0 to 1
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<u1:f32, 1.0:2>
  return
}

// -----

// CHECK:       'quant.qcast' op cannot be lowered: zero point 2147483648 is not representable in 'i32'; expected -2147483648 to 2147483647
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<i32:f32, 1.0:2147483648>
  return
}

// -----

// A zero point need not be in a narrowed range, only in the storage type; one of many is enough.

// CHECK:       'quant.dcast' op cannot be lowered: zero point 1000 is not representable in 'i8'; expected -128 to 127
func.func @f(%q: tensor<3x!quant.uniform<i8<-8:7>:f32:0, {1.0:100, 2.0:127, 3.0:1000}>>) {
  %0 = quant.dcast %q : tensor<3x!quant.uniform<i8<-8:7>:f32:0, {1.0:100, 2.0:127, 3.0:1000}>> to tensor<3xf32>
  return
}

// -----

// CHECK:       'quant.dcast' op cannot be lowered: zero point -200 is not representable in 'u8'; expected 0 to 255
func.func @f(%q: tensor<2x!quant.uniform<u8:f32:{0:1}, {1.0:255, 1.0:-200}>>) {
  %0 = quant.dcast %q : tensor<2x!quant.uniform<u8:f32:{0:1}, {1.0:255, 1.0:-200}>> to tensor<2xf32>
  return
}

// -----

// In a nested region, of an op that is no function.

// CHECK:       'quant.dcast' op cannot be lowered: type '!quant.any<i8:f32>' has no scale
"test.op"() ({
  %q = "test.op"() : () -> !quant.any<i8:f32>
  %0 = quant.dcast %q : !quant.any<i8:f32> to f32
  "test.termop"() : () -> ()
}) : () -> ()

// -----

// The location is that of the cast.

// CHECK:       a.tflite:7:3: error: 'quant.dcast' op cannot be lowered: type '!quant.any<i8:f32>' has no scale
func.func @f(%q: !quant.any<i8:f32>) {
  %0 = quant.dcast %q : !quant.any<i8:f32> to f32 loc("a.tflite":7:3)
  return
}

// -----

// Nothing is rewritten if one cast cannot be: neither before nor after it.

// CHECK:       'quant.qcast' op cannot be lowered: type '!quant.any<i8:f32>' has no scale
func.func @f(%x: f32, %i: i8) -> f32 {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0>
  %1 = quant.dcast %0 : !quant.uniform<i8:f32, 1.0> to f32
  %2 = quant.qcast %1 : f32 to !quant.uniform<i8:f32, 1.0:1>
  %3 = quant.qcast %1 : f32 to !quant.any<i8:f32>
  %4 = quant.qcast %1 : f32 to !quant.uniform<i8:f32, 1.0:2>
  return %1 : f32
}
// CHECK-NEXT:  "builtin.module"() ({
// CHECK-NEXT:    "func.func"() <{sym_name = "f", function_type = (f32, i8) -> f32}> ({
// CHECK-NEXT:    ^bb0(%x: f32, %i: i8):
// CHECK-NEXT:      %0 = "quant.qcast"(%x) : (f32) -> !quant.uniform<i8:f32, 1.000000e+00>
// CHECK-NEXT:      %1 = "quant.dcast"(%0) : (!quant.uniform<i8:f32, 1.000000e+00>) -> f32
// CHECK-NEXT:      %2 = "quant.qcast"(%1) : (f32) -> !quant.uniform<i8:f32, 1.000000e+00:1>
// CHECK-NEXT:      %3 = "quant.qcast"(%1) : (f32) -> !quant.any<i8:f32>
// CHECK-NEXT:      ^^^^^^^^^^^^^^^^^^----------------------------------------------------------
// CHECK-NEXT:      | 'quant.qcast' op cannot be lowered: type '!quant.any<i8:f32>' has no scale
// CHECK-NEXT:      ----------------------------------------------------------------------------
// CHECK-NEXT:      %4 = "quant.qcast"(%1) : (f32) -> !quant.uniform<i8:f32, 1.000000e+00:2>
// CHECK-NEXT:      "func.return"(%1) : (f32) -> ()
// CHECK-NEXT:    }) : () -> ()
// CHECK-NEXT:  }) : () -> ()

// -----

// CHECK:       'quant.qcast' op cannot be lowered: xDSL has no constants of expressed type 'f80'; use f64
func.func @f(%x: tensor<2xf80>) {
  %0 = quant.qcast %x : tensor<2xf80> to tensor<2x!quant.uniform<i8:f80, 1.0>>
  return
}
