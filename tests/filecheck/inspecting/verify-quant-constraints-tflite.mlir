// RUN: xdsl-opt %s -p 'verify-quant-constraints{rules=tflite}' --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// A weight, a bias and an activation, each with what is wrong with it.

!input = !quant.uniform<i8:f32, 0.5:3>
!weight = !quant.uniform<i8:f32:1, {0.25,0.125:1}>
!bias = !quant.uniform<i32:f32:1, {0.125,0.06}>
!per_axis = !quant.uniform<i8:f32:1, {1.0,2.0}>

// CHECK:       error: 'quant.qcast' op result #0: zero point 1 at index 1 of !quant.uniform<i8:f32:1, {2.500000e-01,1.250000e-01:1}> is not 0, as weights require (weight-zero-point)
// CHECK-NEXT:  error: 'quant.qcast' op result #0: the smallest stored value of !quant.uniform<i8:f32:1, {2.500000e-01,1.250000e-01:1}>, a weight, is -128; expected -127 or more, as in i8<-127:127> (weight-range)
// CHECK-NEXT:  error: 'quant.qcast' op result #0: scale 0.06 at index 1 of !quant.uniform<i32:f32:1, {1.250000e-01,6.000000e-02}>, a bias of 'linalg.matmul', is not input scale x weight scale; expected 0.5 x 0.125 = 0.0625 (bias-scale)
// CHECK-NEXT:  error: 'quant.qcast' op result #0: activation of type !quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}> has 2 scales; expected one for all values (activation-granularity)
// CHECK-NEXT:  error: 4 violations of the rules of TensorFlow Lite for quantized types
func.func @f(%x: tensor<3x4x!input>) {
  %cw = arith.constant dense<1.0> : tensor<4x2xf32>
  %w = quant.qcast %cw : tensor<4x2xf32> to tensor<4x2x!weight>
  %cb = arith.constant dense<1.0> : tensor<3x2xf32>
  %b = quant.qcast %cb : tensor<3x2xf32> to tensor<3x2x!bias>
  %xf = quant.dcast %x : tensor<3x4x!input> to tensor<3x4xf32>
  %wf = quant.dcast %w : tensor<4x2x!weight> to tensor<4x2xf32>
  %bf = quant.dcast %b : tensor<3x2x!bias> to tensor<3x2xf32>
  %i = tensor.empty() : tensor<3x2xf32>
  %p = linalg.matmul ins(%xf, %wf : tensor<3x4xf32>, tensor<4x2xf32>) outs(%i : tensor<3x2xf32>) -> tensor<3x2xf32>
  %s = arith.addf %p, %bf : tensor<3x2xf32>
  %y = quant.qcast %s : tensor<3x2xf32> to tensor<3x2x!per_axis>
  return
}

// -----

// CHECK:       error: 'func.func' op argument #0: zero point 5 of !quant.uniform<i16:f32, 1.000000e+00:5> is not 0, as storage types of 16 bits or more require (zero-point)
// CHECK-NEXT:  error: 1 violation of the rules of TensorFlow Lite for quantized types
func.func private @f(tensor<2x!quant.uniform<i16:f32, 1.0:5>>)
