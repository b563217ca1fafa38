// RUN: xdsl-opt %s -p verify-quant-constraints --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// All violations, wherever the types are.

// CHECK:       error: 'func.func' op argument #0: zero point 300 of !quant.uniform<i8:f32, 1.000000e+00:300> is outside of the storage range -128 to 127 (C7)
// CHECK-NEXT:  error: 'func.func' op argument #0: zero point 300 of !quant.uniform<i8:f32, 1.000000e+00:300> is not representable in i8: expected -128 to 127 (C8)
// CHECK-NEXT:  error: 'func.func' op result #0 of the signature: quantized dimension 2 of !quant.uniform<i8:f32:2, {1.000000e+00}> must be less than 2 in a shape of rank 2 (C12)
// CHECK-NEXT:  error: 3 violations of the rules of StableHLO for quantized types
func.func private @f(tuple<i1, tensor<2x!quant.uniform<i8:f32, 1.0:300>>>) -> tensor<2x3x!quant.uniform<i8:f32:2, {1.0}>>

// -----

// CHECK:       error: 'test.op' op attribute 'type': !quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}> has 2 scales: expected 3, the size of dimension 0 (C13)
// CHECK-NEXT:  error: 'test.op' op result #1: storage type i3 of !quant.uniform<i3:f32, 1.000000e+00> is not one of i2, i4, i8, i16, i32, u2, u4, u8, u16, u32 (QuantizationStorageType)
// CHECK-NEXT:  error: 'test.op' op argument #0 of block #0: zero points -1 at index 0 and 11 at index 1 of !quant.uniform<i8<0:10>:f32:0, {1.000000e+00:-1,2.000000e+00:11}> are outside of the storage range 0 to 10 (C7)
// CHECK-NEXT:  error: 3 violations of the rules of StableHLO for quantized types
%0, %1 = "test.op"() ({
^bb0(%a: tensor<2x!quant.uniform<i8<0:10>:f32:0, {1.0:-1,2.0:11}>>):
  "test.termop"() : () -> ()
}) {type = [{a = tensor<3x!quant.uniform<i8:f32:0, {1.0,2.0}>>}]} : () -> (i8, tensor<2x!quant.uniform<i3:f32, 1.0>>)

// -----

// CHECK:       error: 'test.op' op result #0: !quant.uniform<i8:f32:{0:1}, {1.000000e+00, 2.000000e+00}> is unsupported: expected a per-tensor or per-axis !quant.uniform type (QuantizedTensorElementType)
// CHECK-NEXT:  error: 'test.op' op result #1: tensor of !quant.uniform<i8:f32, 1.000000e+00> is unranked: expected a ranked tensor (QuantizedTensorType)
// CHECK-NEXT:  error: 2 violations of the rules of StableHLO for quantized types
%0, %1 = "test.op"() : () -> (tensor<2x!quant.uniform<i8:f32:{0:1}, {1.0,2.0}>>, tensor<*x!quant.uniform<i8:f32, 1.0>>)
