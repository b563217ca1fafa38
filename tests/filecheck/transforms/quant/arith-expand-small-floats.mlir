// RUN: xdsl-opt %s -p arith-expand-small-floats,canonicalize | filecheck %s --match-full-lines

// CHECK:       builtin.module {

// A code with zeros after it is an f16.

// CHECK-NEXT:    func.func @extend(%x: f8E5M2) -> f32 {
// CHECK-NEXT:      %0 = arith.bitcast %x : f8E5M2 to i8
// CHECK-NEXT:      %1 = arith.constant -256 : i16
// CHECK-NEXT:      %2 = arith.extsi %0 : i8 to i16
// CHECK-NEXT:      %3 = arith.constant 8 : i16
// CHECK-NEXT:      %4 = arith.shli %2, %3 : i16
// CHECK-NEXT:      %5 = arith.andi %4, %1 : i16
// CHECK-NEXT:      %6 = arith.bitcast %5 : i16 to f16
// CHECK-NEXT:      %7 = arith.extf %6 : f16 to f32
// CHECK-NEXT:      %8 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %y = arith.mulf %7, %8 : f32
// CHECK-NEXT:      func.return %y : f32
// CHECK-NEXT:    }
func.func @extend(%x: f8E5M2) -> f32 {
  %y = arith.extf %x : f8E5M2 to f32
  return %y : f32
}
// CHECK-NEXT:  }
