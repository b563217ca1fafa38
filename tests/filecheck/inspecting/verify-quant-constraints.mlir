// RUN: xdsl-opt %s -p verify-quant-constraints | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'verify-quant-constraints{rules=tflite}' | filecheck %s --match-full-lines

// A module without violations is printed as it is.

!activation = !quant.uniform<i8:f32, 0.5:-128>
!weight = !quant.uniform<i8<-127:127>:f32:1, {0.25,0.125}>

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%x: tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01:-128>>) attributes {type = tensor<?x?x!quant.uniform<i8<-127:127>:f32:1, {2.500000e-01,1.250000e-01}>>} {
// CHECK-NEXT:      %c = arith.constant dense<1.000000e+00> : tensor<4x2xf32>
// CHECK-NEXT:      %w = quant.qcast %c : tensor<4x2xf32> to tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }
func.func @f(%x: tensor<?x4x!activation>) attributes {type = tensor<?x?x!weight>} {
  %c = arith.constant dense<1.0> : tensor<4x2xf32>
  %w = quant.qcast %c : tensor<4x2xf32> to tensor<4x2x!weight>
  return
}
