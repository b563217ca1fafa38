// RUN: xdsl-opt %s -p quant-calibrated-to-uniform | filecheck %s --match-full-lines

// Calibrated types inside of other types than tensors.

!c = !quant.calibrated<f32<-1.0:0.9921875>>

func.func @f(%m: tuple<!c, i8>, %n: memref<2xi8>) {
  %0 = "test.op"() : () -> tuple<i32, tuple<tensor<2x!c>>>
  func.return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%m: tuple<!quant.uniform<i8:f32, 7.812500e-03>, i8>, %n: memref<2xi8>) {
// CHECK-NEXT:      %0 = "test.op"() : () -> tuple<i32, tuple<tensor<2x!quant.uniform<i8:f32, 7.812500e-03>>>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }
