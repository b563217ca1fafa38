// RUN: xdsl-opt %s -p stablehlo-legalize-qdq-to-integer --split-input-file | filecheck %s

!a = !quant.uniform<u8:f32, 2.0e-02:120>
!y = !quant.uniform<u8:f32, 2.0e-04:9>

// A product of two tensors: the zero point 9 is added before rounding.

// CHECK-LABEL: func.func @multiply
// CHECK:       linalg.generic
// CHECK-NEXT:  ^{{.*}}(%[[A:.*]]: i8, %[[B:.*]]: i8, %{{.*}}: i8):
// CHECK:       %[[P:.*]] = arith.muli
// CHECK-NEXT:  %[[F:.*]] = arith.sitofp %[[P]] : i32 to f32
// CHECK-NEXT:  %[[M:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:  %[[S:.*]] = arith.mulf %[[F]], %[[M]] : f32
// CHECK-NEXT:  %[[Z:.*]] = arith.constant 9.000000e+00 : f32
// CHECK-NEXT:  %[[T:.*]] = arith.addf %[[S]], %[[Z]] : f32
// CHECK-NEXT:  math.roundeven %[[T]] : f32
func.func @multiply(%a: tensor<4x!a>, %b: tensor<4x!a>) -> tensor<4x!y> {
  %0 = quant.dcast %a : tensor<4x!a> to tensor<4xf32>
  %1 = quant.dcast %b : tensor<4x!a> to tensor<4xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!y>
  func.return %3 : tensor<4x!y>
}

// -----

!a = !quant.uniform<u8:f32, 2.0e-02:120>

// onnxruntime has no kernel for differences.

// CHECK-LABEL: func.func @subtract
// CHECK-NOT:   linalg.generic
// CHECK:       stablehlo.subtract
func.func @subtract(%a: tensor<4x!a>, %b: tensor<4x!a>) -> tensor<4x!a> {
  %0 = quant.dcast %a : tensor<4x!a> to tensor<4xf32>
  %1 = quant.dcast %b : tensor<4x!a> to tensor<4xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!a>
  func.return %3 : tensor<4x!a>
}
