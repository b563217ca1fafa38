// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// C7 and C8: zero points are in the range of stored values.

func.func @zero_point_too_large(%q: tensor<2x!quant.uniform<i8:f32, 0.5:128>>) {
  %0 = stablehlo.abs %q : tensor<2x!quant.uniform<i8:f32, 0.5:128>>
  func.return
}
// CHECK: 'stablehlo.abs' op operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:128>>'

// -----

func.func @zero_point_too_small(%q: tensor<2x!quant.uniform<u8:f32, 0.5:-1>>) {
  %0 = stablehlo.abs %q : tensor<2x!quant.uniform<u8:f32, 0.5:-1>>
  func.return
}
// CHECK: 'stablehlo.abs' op operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<u8:f32, 5.000000e-01:-1>>'

// -----

func.func @zero_point_outside_range(%q: tensor<2x!quant.uniform<i8<-10:10>:f32, 0.5:11>>) {
  %0 = stablehlo.abs %q : tensor<2x!quant.uniform<i8<-10:10>:f32, 0.5:11>>
  func.return
}
// CHECK: 'stablehlo.abs' op operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-10:10>:f32, 5.000000e-01:11>>'

// -----

func.func @one_zero_point_too_large(%q: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25:200}>>) {
  %0 = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25:200}>>
  func.return
}
// CHECK: 'stablehlo.add' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:200}>>'

// -----

// C12 and C13: the quantized dimension is one of the tensor, with a scale for each index.

func.func @no_such_dimension(%q: tensor<2x!quant.uniform<i8:f32:1, {0.5,0.25}>>) {
  %0 = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32:1, {0.5,0.25}>>
  func.return
}
// CHECK: 'stablehlo.add' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>'

// -----

func.func @too_few_scales(%q: tensor<2x!quant.uniform<i8:f32:0, {0.5}>>) {
  %0 = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32:0, {0.5}>>
  func.return
}
// CHECK: 'stablehlo.add' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01}>>'

// -----

// Storage types and kinds of quantization that StableHLO does not have.

func.func @odd_storage(%q: tensor<2x!quant.uniform<i3:f32, 0.5>>) {
  %0 = stablehlo.add %q, %q : tensor<2x!quant.uniform<i3:f32, 0.5>>
  func.return
}
// CHECK: 'stablehlo.add' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i3:f32, 5.000000e-01>>'

// -----

func.func @any(%q: tensor<2x!quant.any<i8:f32>>) {
  %0 = stablehlo.add %q, %q : tensor<2x!quant.any<i8:f32>>
  func.return
}
// CHECK: 'stablehlo.add' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.any<i8:f32>>'

// -----

func.func @sub_channel(%q: tensor<2x!quant.uniform<i8:f32:{0:1}, {{0.5}, {0.25}}>>) {
  %0 = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32:{0:1}, {{0.5}, {0.25}}>>
  func.return
}
// CHECK: 'stablehlo.add' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:{0:1}, {{\{\{}}5.000000e-01}, {2.500000e-01}}>>'

// -----

func.func @scalar(%x: f32) {
  %0 = stablehlo.abs %x : f32
  func.return
}
// CHECK: 'stablehlo.abs' op operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'f32'

// -----

func.func @unranked(%x: tensor<*xf32>) {
  %0 = stablehlo.abs %x : tensor<*xf32>
  func.return
}
// CHECK: 'stablehlo.abs' op operand #0 must be ranked tensor of 2/4/8/16/32/64-bit signless integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<*xf32>'

// -----

// uniform_quantize, uniform_dequantize

func.func @quantize_integers(%x: tensor<2xi32>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<2xi32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.uniform_quantize' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xi32>'

// -----

func.func @quantize_to_float(%x: tensor<2xf32>) {
  %0 = stablehlo.uniform_quantize %x : tensor<2xf32>
  func.return
}
// CHECK: 'stablehlo.uniform_quantize' op result #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xf32>'

// -----

func.func @quantize_other_shape(%x: tensor<2xf32>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<3x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.uniform_quantize' op all non-scalar operands/results must have the same shape and base type

// -----

func.func @quantize_other_expressed_type(%x: tensor<2xf16>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<2xf16>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: Expressed type of result expected to be 'f16', but got 'f32'

// -----

func.func @requantize_other_expressed_type(%q: tensor<2x!quant.uniform<i8:f16, 0.5>>) {
  %0 = stablehlo.uniform_quantize %q : (tensor<2x!quant.uniform<i8:f16, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: Expressed type of result expected to be 'f16', but got 'f32'

// -----

func.func @dequantize_float(%x: tensor<2xf32>) {
  %0 = stablehlo.uniform_dequantize %x : tensor<2xf32>
  func.return
}
// CHECK: 'stablehlo.uniform_dequantize' op operand #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xf32>'

// -----

func.func @dequantize_other_expressed_type(%q: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.uniform_dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf64>
  func.return
}
// CHECK: 'stablehlo.uniform_dequantize' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf64>'

// -----

func.func @dequantize_other_shape(%q: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.uniform_dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x1xf32>
  func.return
}
// CHECK: 'stablehlo.uniform_dequantize' op all non-scalar operands/results must have the same shape and base type

// -----

// constant

func.func @constant_of_expressed_values() {
  %0 = stablehlo.constant() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.constant' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'

// -----

func.func @constant_of_other_shape() {
  %0 = stablehlo.constant() <{value = dense<1> : tensor<3xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.constant' op inferred type(s) 'tensor<3xi8>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'

// -----

func.func @constant_of_unknown_shape() {
  %0 = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<?xi8>
  func.return
}
// CHECK: 'stablehlo.constant' op result #0 must be statically shaped tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<?xi8>'

// -----

// add, C2 to C7

func.func @add_shapes(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  %0 = stablehlo.add %a, %b : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: 'stablehlo.add' op requires the same shape for all operands and results

// -----

func.func @add_elements(%a: tensor<2xf32>, %b: tensor<2xf16>) {
  %0 = stablehlo.add %a, %b : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>
  func.return
}
// CHECK: op requires the same element type for all operands and results

// -----

func.func @add_c2(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2xf32>) {
  %0 = stablehlo.add %a, %b : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: expects  all operands and results to be either quantized or non-quantized

// -----

func.func @add_c3(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<i16:f32, 0.5>>) {
  %0 = stablehlo.add %a, %b : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i16:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: mismatched operands and result quantization storage types

// -----

func.func @add_c4(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<i8:f16, 0.5>>) {
  %0 = stablehlo.add %a, %b : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f16, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: mismatched operands and result quantization expressed types

// -----

func.func @add_c5(%a: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %b: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %0 = stablehlo.add %a, %b : (tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: result is not per_axis quantized but lhs or rhs are

// -----

func.func @add_c5_result(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.add %a, %b : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: result per_axis quantized but none from rhs and lhs are per_axis quantized

// -----

func.func @add_c6(%a: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>, %b: tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %0 = stablehlo.add %a, %b : (tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>, tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: quantization_dimension of lhs and result are not same '!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.250000e-01}>' vs '!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>'

// -----

func.func @add_c7(%a: tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %b: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.add %a, %b : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) -> tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: quantization_dimension of rhs and result are not same '!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.250000e-01}>' vs '!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>'

// -----

func.func @add_range_of_result(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.add %a, %b : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8<-127:127>:f32, 0.5>>
  func.return
}
// CHECK: 'stablehlo.add' op inferred type(s) 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>'

// -----

// Other elementwise ops

func.func @subtract_per_axis(%a: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %0 = stablehlo.subtract %a, %a : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: 'stablehlo.subtract' op operand #0 must be ranked tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'

// -----

func.func @multiply_storage(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<u8:f32, 0.5>>) {
  %0 = stablehlo.multiply %a, %b : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<u8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.multiply' op requires compatible types for all operands and results

// -----

func.func @divide_shapes(%a: tensor<?xf32>, %b: tensor<2xf32>) {
  %0 = stablehlo.divide %a, %b : (tensor<?xf32>, tensor<2xf32>) -> tensor<3xf32>
  func.return
}
// CHECK: 'stablehlo.divide' op requires the same shape for all operands and results

// -----

func.func @tanh_of_integers(%a: tensor<2xi32>) {
  %0 = stablehlo.tanh %a : tensor<2xi32>
  func.return
}
// CHECK: 'stablehlo.tanh' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi32>'

// -----

func.func @negate_to_float(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.negate %a : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  func.return
}
// CHECK: 'stablehlo.negate' op requires compatible types for all operands and results

// -----

func.func @abs_element_type(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.abs %a : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>
  func.return
}
// CHECK: 'stablehlo.abs' op inferred type(s) 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i16:f32, 5.000000e-01>>'

// -----

func.func @abs_shape(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.abs %a : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.abs' op all non-scalar operands/results must have the same shape and base type

// -----

func.func @convert_quantized(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.convert %a : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  func.return
}
// CHECK: 'stablehlo.convert' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'

// -----

func.func @convert_shape(%a: tensor<2xf32>) {
  %0 = stablehlo.convert %a : (tensor<2xf32>) -> tensor<3xi8>
  func.return
}
// CHECK: 'stablehlo.convert' op requires the same shape for all operands and results

// -----

// compare, select, clamp

func.func @compare_storage(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<i8<-127:127>:f32, 0.5>>) {
  %0 = stablehlo.compare EQ, %a, %b : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8<-127:127>:f32, 0.5>>) -> tensor<2xi1>
  func.return
}
// CHECK: 'stablehlo.compare' op requires compatible element types for all operands

// -----

func.func @compare_shape(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.compare EQ, %a, %a : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3xi1>
  func.return
}
// CHECK: 'stablehlo.compare' op all non-scalar operands/results must have the same shape and base type

// -----

func.func @select_scale(%p: tensor<2xi1>, %a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<i8:f32, 0.25:3>>) {
  %0 = stablehlo.select %p, %a, %b : (tensor<2xi1>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.25:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: requires compatible types for non-predicate operands

// -----

func.func @select_predicate_shape(%p: tensor<3xi1>, %a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.select %p, %a, %a : tensor<3xi1>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: requires the same shape for all operands

// -----

func.func @select_result(%p: tensor<2xi1>, %a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.select %p, %a, %a : (tensor<2xi1>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>
  func.return
}
// CHECK: 'stablehlo.select' op inferred type(s) 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i16:f32, 5.000000e-01>>'

// -----

func.func @clamp_storage(%s: tensor<!quant.uniform<i16:f32, 0.5>>, %a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.clamp %s, %a, %s : (tensor<!quant.uniform<i16:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<!quant.uniform<i16:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.clamp' op requires compatible element types for all operands and results

// -----

func.func @clamp_min_shape(%s: tensor<3xf32>, %a: tensor<2xf32>) {
  %0 = stablehlo.clamp %s, %a, %a : (tensor<3xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: min shape [3] is not scalar and is not compatible to operand shape [2]

// -----

func.func @clamp_max_shape(%s: tensor<2x1xf32>, %a: tensor<2xf32>) {
  %0 = stablehlo.clamp %a, %a, %s : (tensor<2xf32>, tensor<2xf32>, tensor<2x1xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: max shape [2, 1] is not scalar and is not compatible to operand shape [2]

// -----

// reshape, transpose, broadcast_in_dim: what is quantized stays so, along the same dimension

func.func @reshape_elements(%a: tensor<2x3xf32>) {
  %0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<5xf32>
  func.return
}
// CHECK: number of output elements (5) doesn't match expected number of elements (6)

// -----

func.func @reshape_dynamic(%a: tensor<2x3xf32>) {
  %0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<?xf32>
  func.return
}
// CHECK: 'stablehlo.reshape' op result #0 must be statically shaped or single bounded dimension tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<?xf32>'

// -----

func.func @reshape_scale(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.reshape %a : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<6x!quant.uniform<i8:f32, 0.25:3>>
  func.return
}
// CHECK: expect same quantization scale and zero_point but got 'tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<6x!quant.uniform<i8:f32, 2.500000e-01:3>>'

// -----

func.func @reshape_scales(%a: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.reshape %a : (tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.5}>>
  func.return
}
// CHECK: expect same quantization scales and zero_points but got 'tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.250000e-01}>>' vs 'tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,5.000000e-01}>>'

// -----

func.func @reshape_granularity(%a: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.reshape %a : (tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) -> tensor<6x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.reshape' op requires compatible element types for all operands and results

// -----

func.func @reshape_dimension_size(%a: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.reshape %a : (tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) -> tensor<1x6x!quant.uniform<i8:f32:1, {0.5,0.25,0.125,1.0,1.0,1.0}>>
  func.return
}
// CHECK: expect same quantization dimension size for operand and result 'tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.250000e-01}>>' and 'tensor<1x6x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.250000e-01,1.000000e+00,1.000000e+00,1.000000e+00}>>'

// -----

func.func @reshape_dimension_moved(%a: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.reshape %a : (tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) -> tensor<3x2x!quant.uniform<i8:f32:0, {0.5,0.25,0.125}>>
  func.return
}
// CHECK: product of dimensions before quantization dimension must match between operand and result for 2 and 1

// -----

func.func @transpose_rank(%a: tensor<2x3xf32>) {
  %0 = stablehlo.transpose %a, dims = [0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return
}
// CHECK: expects 2 dimensions in the permutation, got 1

// -----

func.func @transpose_permutation(%a: tensor<2x3xf32>) {
  %0 = stablehlo.transpose %a, dims = [1, 1] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as permutation, got [1, 1]

// -----

func.func @transpose_shape(%a: tensor<2x3xf32>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}
// CHECK: 'stablehlo.transpose' op inferred type(s) 'tensor<3x2xf32>' are incompatible with return type(s) of operation 'tensor<2x3xf32>'

// -----

func.func @transpose_scale(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.25:3>>
  func.return
}
// CHECK: expect same quantization scale and zero_point but got 'tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<3x2x!quant.uniform<i8:f32, 2.500000e-01:3>>'

// -----

func.func @transpose_scales(%a: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) -> tensor<3x2x!quant.uniform<i8:f32:0, {0.5,0.25,0.5}>>
  func.return
}
// CHECK: expect same quantization scales and zero_points but got 'tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.250000e-01}>>' vs 'tensor<3x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,5.000000e-01}>>'

// -----

func.func @transpose_dimension(%a: tensor<3x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) -> tensor<3x3x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>
  func.return
}
// CHECK: operand quantization_dimension 1 is not same as permutation[1] = 0

// -----

func.func @broadcast_rank(%a: tensor<2xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}
// CHECK: expects 1 broadcast_dimensions, got 2

// -----

func.func @broadcast_duplicates(%a: tensor<2x2xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as broadcast_dimensions, got [0, 0]

// -----

func.func @broadcast_dimension(%a: tensor<2xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [2] : (tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as broadcast_dimensions, got [2]

// -----

func.func @broadcast_size(%a: tensor<2xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}
// CHECK: size of operand dimension 0 (2) is not equal to 1 or size of result dimension 1 (3)

// -----

func.func @broadcast_scale(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 0.25:3>>
  func.return
}
// CHECK: expect same quantization scale and zero_point but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<2x3x!quant.uniform<i8:f32, 2.500000e-01:3>>'

// -----

func.func @broadcast_quantized_dimension(%a: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>
  func.return
}
// CHECK: result quantization_dimension 1 not same as broadcast_dimensions[0] = 0

// -----

func.func @broadcast_repeated_scale(%a: tensor<1x!quant.uniform<i8:f32:0, {0.5}>>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<1x!quant.uniform<i8:f32:0, {0.5}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: mismatch result scale 1 (2.500000e-01) and operand scale 0 (5.000000e-01)

// -----

func.func @broadcast_repeated_zero_point(%a: tensor<1x!quant.uniform<i8:f32:0, {0.5:7}>>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<1x!quant.uniform<i8:f32:0, {0.5:7}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5:7,0.5:8}>>
  func.return
}
// CHECK: mismatch result zero_point 1 (8) and operand zero_point 0 (7)

// -----

// concatenate, slice, pad

func.func @concatenate_nothing() {
  %0 = stablehlo.concatenate dim = 0 : () -> tensor<2xf32>
  func.return
}
// CHECK: 'stablehlo.concatenate' op expected 1 or more operands, but found 0

// -----

func.func @concatenate_negative(%a0: tensor<2xf32>) {
  %0 = stablehlo.concatenate %a0, dim = -1 : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 1) as dimension, got [-1]

// -----

func.func @concatenate_scalars(%a0: tensor<f32>) {
  %0 = stablehlo.concatenate %a0, dim = 0 : (tensor<f32>) -> tensor<f32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 0) as dimension, got [0]

// -----

func.func @concatenate_dimension(%a0: tensor<2xf32>) {
  %0 = stablehlo.concatenate %a0, dim = 1 : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 1) as dimension, got [1]

// -----

func.func @concatenate_ranks(%a0: tensor<2xf32>, %a1: tensor<2x1xf32>) {
  %0 = stablehlo.concatenate %a0, %a1, dim = 0 : (tensor<2xf32>, tensor<2x1xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: shapes of operands before (1) and of operand (1) are not compatible in all dimensions but 0

// -----

func.func @concatenate_sizes(%a0: tensor<2x3xf32>, %a1: tensor<2x4xf32>) {
  %0 = stablehlo.concatenate %a0, %a1, dim = 0 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  func.return
}
// CHECK: shapes of operands before (1) and of operand (1) are not compatible in all dimensions but 0

// -----

func.func @concatenate_sizes_unlike_each_other(%a0: tensor<2x?xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x4xf32>) {
  %0 = stablehlo.concatenate %a0, %a1, %a2, dim = 0 : (tensor<2x?xf32>, tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<6x?xf32>
  func.return
}
// CHECK: shapes of operands before (2) and of operand (2) are not compatible in all dimensions but 0

// -----

func.func @concatenate_result(%a0: tensor<2xf32>, %a1: tensor<3xf32>) {
  %0 = stablehlo.concatenate %a0, %a1, dim = 0 : (tensor<2xf32>, tensor<3xf32>) -> tensor<6xf32>
  func.return
}
// CHECK: 'stablehlo.concatenate' op inferred type(s) 'tensor<5xf32>' are incompatible with return type(s) of operation 'tensor<6xf32>'

// -----

func.func @concatenate_scale(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %a1: tensor<2x!quant.uniform<i8:f32, 0.25:3>>) {
  %0 = stablehlo.concatenate %a0, %a1, dim = 0 : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.25:3>>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.concatenate' op requires the same element type for all operands and results

// -----

func.func @slice_rank(%a: tensor<4xf32>) {
  %0 = stablehlo.slice %a [] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: expects 1 start_indices, got 0

// -----

func.func @slice_start(%a: tensor<4xf32>) {
  %0 = stablehlo.slice %a [-1:2] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: expects a range in a dimension of size 4, got -1:2:1

// -----

func.func @slice_limit(%a: tensor<4xf32>) {
  %0 = stablehlo.slice %a [0:5] : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}
// CHECK: expects a range in a dimension of size 4, got 0:5:1

// -----

func.func @slice_start_after_limit(%a: tensor<4xf32>) {
  %0 = stablehlo.slice %a [3:2] : (tensor<4xf32>) -> tensor<1xf32>
  func.return
}
// CHECK: expects a range in a dimension of size 4, got 3:2:1

// -----

func.func @slice_stride(%a: tensor<4xf32>) {
  %0 = stablehlo.slice %a [0:4:0] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: expects a range in a dimension of size 4, got 0:4:0

// -----

func.func @slice_result(%a: tensor<4xf32>) {
  %0 = stablehlo.slice %a [0:4:3] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: 'stablehlo.slice' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'

// -----

func.func @slice_scale(%a: tensor<4x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.slice %a [0:2] : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.25:3>>
  func.return
}
// CHECK: 'stablehlo.slice' op requires the same element type for all operands and results

// -----

func.func @slice_counts(%a: tensor<4xf32>) {
  %0 = "stablehlo.slice"(%a) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1, 1>, strides = array<i64: 1>}> : (tensor<4xf32>) -> tensor<1xf32>
  func.return
}
// CHECK: expects 1 limit_indices, got 2

// -----

func.func @pad_value_rank(%a: tensor<4xf32>, %v: tensor<1xf32>) {
  %0 = stablehlo.pad %a, %v, low = [0], high = [0], interior = [0] : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: 'stablehlo.pad' op operand #1 must be 0D tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<1xf32>'

// -----

func.func @pad_value_scale(%a: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %v: tensor<!quant.uniform<i8:f32, 0.25:3>>) {
  %0 = stablehlo.pad %a, %v, low = [0], high = [0], interior = [0] : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<!quant.uniform<i8:f32, 0.25:3>>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.pad' op requires the same element type for all operands and results

// -----

func.func @pad_counts(%a: tensor<4xf32>, %v: tensor<f32>) {
  %0 = stablehlo.pad %a, %v, low = [0], high = [0, 0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return
}
// CHECK: expects 1 edge_padding_high, got 2

// -----

func.func @pad_rank(%a: tensor<4xf32>, %v: tensor<f32>) {
  %0 = stablehlo.pad %a, %v, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return
}
// CHECK: expects 1 edge_padding_low, got 2

// -----

func.func @pad_interior(%a: tensor<4xf32>, %v: tensor<f32>) {
  %0 = stablehlo.pad %a, %v, low = [0], high = [0], interior = [-1] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return
}
// CHECK: expects interior padding and padded sizes that are not negative

// -----

func.func @pad_negative_size(%a: tensor<4xf32>, %v: tensor<f32>) {
  %0 = stablehlo.pad %a, %v, low = [-3], high = [-2], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<0xf32>
  func.return
}
// CHECK: expects interior padding and padded sizes that are not negative

// -----

func.func @pad_result(%a: tensor<4xf32>, %v: tensor<f32>) {
  %0 = stablehlo.pad %a, %v, low = [1], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return
}
// CHECK: 'stablehlo.pad' op inferred type(s) 'tensor<8xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'

// -----

// reduce

func.func @reduce_dimension(%a: tensor<2x3xf32>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [2] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
    stablehlo.return %p : tensor<f32>
  }
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as dimensions, got [2]

// -----

func.func @reduce_dimension_twice(%a: tensor<2x3xf32>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
    stablehlo.return %p : tensor<f32>
  }
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as dimensions, got [1, 1]

// -----

func.func @reduce_result(%a: tensor<2x3xf32>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
    stablehlo.return %p : tensor<f32>
  }
  func.return
}
// CHECK: 'stablehlo.reduce' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'

// -----

func.func @reduce_result_storage(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %z: tensor<!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>
    reducer(%p: tensor<!quant.uniform<i8:f32, 0.5:3>>, %q: tensor<!quant.uniform<i8:f32, 0.5:3>>) {
    stablehlo.return %p : tensor<!quant.uniform<i8:f32, 0.5:3>>
  }
  func.return
}
// CHECK: 'stablehlo.reduce' op inferred type(s) 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>' are incompatible with return type(s) of operation 'tensor<2x!quant.uniform<i16:f32, 5.000000e-01>>'

// -----

func.func @reduce_parameter(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %z: tensor<!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
    reducer(%p: tensor<!quant.uniform<i8:f32, 0.5:3>>, %q: tensor<!quant.uniform<i8:f32, 0.25:3>>) {
    stablehlo.return %p : tensor<!quant.uniform<i8:f32, 0.5:3>>
  }
  func.return
}
// CHECK: The type of reduction-region's parameter at index 1 is different than the corresponding result type: 'tensor<!quant.uniform<i8:f32, 2.500000e-01:3>>' vs 'tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>'

// -----

func.func @reduce_init_shape(%a: tensor<2x3xf32>, %z: tensor<1xf32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2xf32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
    stablehlo.return %p : tensor<f32>
  }
  func.return
}
// CHECK: The shape of reduction-region's result type at index 0 differs from the op's corresponding init-value type: 'tensor<f32>' vs 'tensor<1xf32>'

// -----

func.func @reduce_init_element(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<f32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
    reducer(%p: tensor<!quant.uniform<i8:f32, 0.5:3>>, %q: tensor<!quant.uniform<i8:f32, 0.5:3>>) {
    stablehlo.return %p : tensor<!quant.uniform<i8:f32, 0.5:3>>
  }
  func.return
}
// CHECK: The element-type of reduction-region's result type at index 0 is expected to be promotable from the op's corresponding init-value element-type: 'tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<f32>'

// -----

func.func @reduce_narrower(%a: tensor<2x3x!quant.uniform<i16:f32, 0.5>>, %z: tensor<!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3x!quant.uniform<i16:f32, 0.5>>, tensor<!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
    reducer(%p: tensor<!quant.uniform<i8:f32, 0.5:3>>, %q: tensor<!quant.uniform<i8:f32, 0.5:3>>) {
    stablehlo.return %p : tensor<!quant.uniform<i8:f32, 0.5:3>>
  }
  func.return
}
// CHECK: The element-type of reduction-region's argument at index 1 is expected to be promotable from '!quant.uniform<i16:f32, 5.000000e-01>', but got '!quant.uniform<i8:f32, 5.000000e-01:3>'

// -----

func.func @reduce_rank_of_parameter(%a: tensor<2x3xf32>, %z: tensor<2xf32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<f32>
    reducer(%p: tensor<2xf32>, %q: tensor<2xf32>) {
    stablehlo.return %p : tensor<2xf32>
  }
  func.return
}
// CHECK: The shape of reduction-region's argument at index 1 is not compatible with that of the op's input

// -----

func.func @reduce_shape_of_parameter(%a: tensor<2x3xf32>, %z: tensor<3xf32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
    reducer(%p: tensor<3xf32>, %q: tensor<3xf32>) {
    stablehlo.return %p : tensor<3xf32>
  }
  func.return
}
// CHECK: The shape of reduction-region's argument at index 1 is not compatible with that of the op's input

// -----

func.func @reduce_counts(%a: tensor<2xf32>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
    stablehlo.return %p, %q : tensor<f32>, tensor<f32>
  }
  func.return
}
// CHECK: expects 1 results of the region, got 2

// -----

func.func @reduce_with_nothing(%a: tensor<2xf32>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
    stablehlo.return
  }
  func.return
}
// CHECK: expects 1 results of the region, got 0

// -----

func.func @reduce_with_one_parameter(%a: tensor<2xf32>, %z: tensor<f32>) {
  %0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 0>}> ({
  ^bb0(%p: tensor<f32>):
    stablehlo.return %p : tensor<f32>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
  func.return
}
// CHECK: expects 2 parameters of the region, got 1

// -----

func.func @reduce_shapes(%a: tensor<2xf32>, %b: tensor<3xf32>, %z: tensor<f32>) {
  %0, %1 = stablehlo.reduce(%a init: %z), (%b init: %z) across dimensions = [0] : (tensor<2xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<f32>, %s: tensor<f32>) {
    stablehlo.return %p, %r : tensor<f32>, tensor<f32>
  }
  func.return
}
// CHECK: expects all inputs to have compatible shapes

// -----

func.func @reduce_per_axis(%a: tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<f32>) -> tensor<f32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
    stablehlo.return %p : tensor<f32>
  }
  func.return
}
// CHECK: 'stablehlo.reduce' op operand #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'

// -----

// dot_general, C1 to C10, C11, C12 and C14 to C20

func.func @dot_c1(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [], contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: batching dimensions must match for lhs/rhs

// -----

func.func @dot_c2(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: contracting dimensions must match for lhs/rhs

// -----

func.func @dot_c3(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [1] x [1], contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as lhs dimension numbers, got [1, 1]

// -----

func.func @dot_c4(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as rhs dimension numbers, got [0, 0]

// -----

func.func @dot_c6(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [2] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as lhs dimension numbers, got [2]

// -----

func.func @dot_c7(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [-1], contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 2) as rhs dimension numbers, got [-1, 0]

// -----

func.func @dot_c9(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [1], contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: batching dimensions must match for lhs/rhs

// -----

func.func @dot_c10(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: contracting dimensions must match for lhs/rhs

// -----

func.func @dot_c11(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [HIGH, HIGH, HIGH] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}
// CHECK: expects precision config to be empty or have <= 2 elements, got 3

// -----

func.func @dot_c12(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x5xf32>
  func.return
}
// CHECK: inferred shape '[2, 4]' is incompatible with return type of operation 'tensor<2x5xf32>'

// -----

func.func @dot_c14(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x4xf32>
  func.return
}
// CHECK: rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold

// -----

func.func @dot_c14_rhs(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4xf32>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold

// -----

func.func @dot_c15(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: Zero point of rhs should be 0

// -----

func.func @dot_c15_per_axis(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.5:1}>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.5:1}>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: Zero points of rhs should be 0

// -----

func.func @dot_c16(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x!quant.uniform<i8:f32:0, {0.5,0.25,0.125}>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x!quant.uniform<i8:f32:0, {0.5,0.25,0.125}>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: Quantization dimension of rhs should not be in the contracting dimension of rhs

// -----

func.func @dot_c17(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x!quant.uniform<i16:f32, 0.5>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x!quant.uniform<i16:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: mismatched lhs and rhs quantization storage types

// -----

func.func @dot_c18(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x!quant.uniform<i8:f16, 0.5>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x!quant.uniform<i8:f16, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: mismatched lhs, rhs and result quantization expressed types

// -----

func.func @dot_c18_result(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x4x!quant.uniform<i8:f16, 0.5>>
  func.return
}
// CHECK: mismatched lhs, rhs and result quantization expressed types

// -----

func.func @dot_c19(%a: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x2x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5,0.5}>>
  func.return
}
// CHECK: mismatched rhs and result quantization granularity

// -----

func.func @dot_c20(%a: tensor<2x3xf16>, %b: tensor<3x4x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf16>, tensor<3x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x4xf16>
  func.return
}
// CHECK: mismatched rhs quantization expressed type and lhs and result element type

// -----

func.func @dot_lhs_per_axis(%a: tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %b: tensor<3x4x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<3x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.dot_general' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'

// -----

// convolution

func.func @convolution_of_vectors(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: expects 1 input dimension-numbers, got 3

// -----

func.func @convolution_ranks(%a: tensor<2x8x4xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects 3 dimensions of the kernel, got 2

// -----

func.func @convolution_element_types(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf16>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf16>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects lhs and rhs to have compatible element type. Got: 'f32' and 'f16'

// -----

func.func @convolution_spatial_counts(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects 3 kernel dimension-numbers, got 2

// -----

func.func @convolution_dimension_numbers(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects 3 input dimension-numbers, got 4

// -----

func.func @convolution_groups(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 2 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects batch_group_count and feature_group_count not to be both greater than 1. Got 2 and 2 resp.

// -----

func.func @convolution_no_groups(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 0 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects positive group counts, got 0

// -----

func.func @convolution_batch_groups(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 3 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects input batch dimension (2) to be a multiple of the group count (3)

// -----

func.func @convolution_feature_groups(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 3 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects input feature dimension (4) to be a multiple of the group count (3)

// -----

func.func @convolution_kernel_features(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects input feature dimension (4) / feature_group_count (2) = kernel input feature dimension (4)

// -----

func.func @convolution_output_features(%a: tensor<2x8x4xf32>, %b: tensor<3x1x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<2x8x4xf32>, tensor<3x1x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects output feature dimension (2) to be a multiple of the group count (4)

// -----

func.func @convolution_output_batch_groups(%a: tensor<3x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 3 : i64, feature_group_count = 1 : i64} : (tensor<3x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects output feature dimension (2) to be a multiple of the group count (3)

// -----

func.func @convolution_precision(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>, #stablehlo<precision HIGH>]} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects precision config to be empty or have <= 2 elements, got 3

// -----

func.func @convolution_unused_dimension(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, f]x[i, o]->[b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects 3 input dimension-numbers, got 2

// -----

func.func @convolution_strides(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects 1 window strides, got 2

// -----

func.func @convolution_stride(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [0]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects window to have positive sizes, strides and dilations

// -----

func.func @convolution_padding(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[0, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects 1 padding pairs, got 2

// -----

func.func @convolution_lhs_dilation(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {lhs_dilate = [0]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects window to have positive sizes, strides and dilations

// -----

func.func @convolution_rhs_dilation(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {rhs_dilate = [-1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects window to have positive sizes, strides and dilations

// -----

func.func @convolution_reversal(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects 1 window reversals, got 2

// -----

func.func @convolution_empty_window(%a: tensor<2x8x4xf32>, %b: tensor<0x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<0x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects window to have positive sizes, strides and dilations

// -----

func.func @convolution_c25(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x7x2xf32>
  func.return
}
// CHECK: inferred shape '[2, 6, 2]' is incompatible with return type of operation 'tensor<2x7x2xf32>'

// -----

func.func @convolution_c28(%a: tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold

// -----

func.func @convolution_c29(%a: tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x2x!quant.uniform<i8:f32:0, {0.5,0.25,0.5}>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x2x!quant.uniform<i8:f32:0, {0.5,0.25,0.5}>>) -> tensor<2x6x2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: quantization dimension of rhs should be same with kernel_output_feature_dimension

// -----

func.func @convolution_c30(%a: tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x2x!quant.uniform<i8:f32:2, {0.5,0.25}>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x2x!quant.uniform<i8:f32:2, {0.5,0.25}>>) -> tensor<2x6x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: quantization dimension of result should be same with output_feature_dimension

// -----

func.func @convolution_c31(%a: tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x2x!quant.uniform<i16:f32, 0.5>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x2x!quant.uniform<i16:f32, 0.5>>) -> tensor<2x6x2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: mismatched lhs and rhs quantization storage types

// -----

func.func @convolution_c32(%a: tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x6x2x!quant.uniform<i8:f16, 0.5>>
  func.return
}
// CHECK: mismatched lhs, rhs and result quantization expressed types

// -----

func.func @convolution_c33(%a: tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x6x2x!quant.uniform<i8:f32:2, {0.5,0.25}>>
  func.return
}
// CHECK: mismatched rhs and result quantization granularity

// -----

func.func @convolution_c34(%a: tensor<2x8x4xf16>, %b: tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf16>, tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x6x2xf16>
  func.return
}
// CHECK: mismatched rhs quantization expressed type and lhs and result element type

// -----

func.func @convolution_lhs_per_axis(%a: tensor<2x8x4x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %b: tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<3x4x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x6x2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.convolution' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x8x4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'

// -----

func.func @convolution_padding_type(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, padding = dense<0> : tensor<1x2xi32>}> : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: Expected attribute i64 but got i32

// -----

func.func @convolution_padding_shape(%a: tensor<2x8x4xf32>, %b: tensor<3x4x2xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, padding = dense<0> : tensor<2xi64>}> : (tensor<2x8x4xf32>, tensor<3x4x2xf32>) -> tensor<2x6x2xf32>
  func.return
}
// CHECK: expects the shape of padding to be [N, 2], got [2]

// -----

// Text

func.func @add_operand_count(%a: tensor<2xf32>) {
  %0 = stablehlo.add %a, %a : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: 2 operands present, but expected 1

// -----

func.func @add_result_count(%a: tensor<2xf32>) {
  %0 = stablehlo.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> ()
  func.return
}
// CHECK: expected single output

// -----

func.func @select_types(%p: tensor<2xi1>, %a: tensor<2xf32>) {
  %0 = stablehlo.select %p, %a, %a : tensor<2xf32>
  func.return
}
// CHECK: expected functional type or list of two types

// -----

func.func @reduce_applies(%a: tensor<2xf32>, %z: tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.subtract across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
  func.return
}
// CHECK: expected the inner-op to be a commutative binary-op from the stablehlo dialect, with zero region, producing single result

// -----

func.func @slice_too_large(%a: tensor<4xf32>) {
  %0 = stablehlo.slice %a [0:4:9223372036854775808] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: integer value too large

// -----

func.func @transpose_too_large(%a: tensor<4xf32>) {
  %0 = stablehlo.transpose %a, dims = [9223372036854775808] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: integer value too large

// -----

func.func @constant_twice() {
  %0 = stablehlo.constant {value = dense<1> : tensor<2xi8>} dense<1> : tensor<2xi8>
  func.return
}
// CHECK: attribute 'value' occurs more than once in the attribute list

// -----

func.func @dot_entry_twice() {
  "test.op"() {a = #stablehlo.dot<lhs_contracting_dimensions = [0], lhs_contracting_dimensions = [0]>} : () -> ()
  func.return
}
// CHECK: duplicated `lhs_contracting_dimensions` entry

// -----

func.func @result_accuracy() {
  "test.op"() {a = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<DEFAULT>>} : () -> ()
  func.return
}
// CHECK: Invalid tolerances for ResultAccuracyAttr with mode DEFAULT, must be all zero.

// -----

func.func @result_accuracy_negative() {
  "test.op"() {a = #stablehlo.result_accuracy<ulps = -2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : () -> ()
  func.return
}
// CHECK: Negative tolerance

// -----

func.func @conv_missing() {
  "test.op"() {a = #stablehlo.conv<[b, 0]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f in any order

// -----

func.func @conv_missing_spatial() {
  "test.op"() {a = #stablehlo.conv<[b, 1, f]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f, 0 in any order

// -----

func.func @conv_keyword() {
  "test.op"() {a = #stablehlo.conv<[b, 0, z]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f, 0 in any order

// -----

func.func @conv_letter_twice() {
  "test.op"() {a = #stablehlo.conv<[b, b, f]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f, 0 in any order

// -----

func.func @conv_letter_of_kernel() {
  "test.op"() {a = #stablehlo.conv<[b, 0, f, i]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f, 0, 1 in any order

// -----

func.func @conv_number_twice() {
  "test.op"() {a = #stablehlo.conv<[b, 0, 0, f]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f, 0, 1 in any order

// -----

func.func @conv_letters_missing() {
  "test.op"() {a = #stablehlo.conv<[0]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f in any order

// -----

func.func @conv_negative() {
  "test.op"() {a = #stablehlo.conv<[b, -1, f]x[0, i, o]->[b, 0, f]>} : () -> ()
  func.return
}
// CHECK: Expected dimensions b, f, 0 in any order

// -----

// Ops of jax programs

func.func @sqrt_per_axis(%x: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %0 = stablehlo.sqrt %x : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: 'stablehlo.sqrt' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'

// -----

func.func @round_of_integers(%x: tensor<2xi32>) {
  %0 = stablehlo.round_nearest_even %x : tensor<2xi32>
  func.return
}
// CHECK: 'stablehlo.round_nearest_even' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2xi32>'

// -----

func.func @and_of_quantized(%x: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = stablehlo.and %x, %x : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return
}
// CHECK: 'stablehlo.and' op operand #0 must be ranked tensor of bool or 2/4/8/16/32/64-bit integer values, but got 'tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>'

// -----

func.func @iota_per_axis() {
  %0 = stablehlo.iota dim = 0 : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  func.return
}
// CHECK: 'stablehlo.iota' op result #0 must be statically shaped tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'

// -----

func.func @iota_dimension() {
  %0 = stablehlo.iota dim = 1 : tensor<4xi32>
  func.return
}
// CHECK: expects distinct dimensions in [0, 1) as iota_dimension, got [1]

// -----

func.func @dimension_size_type(%x: tensor<2xf32>) {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<2xf32>) -> tensor<i64>
  func.return
}
// CHECK: 'stablehlo.get_dimension_size' op result #0 must be ranked tensor of 32-bit signless integer values, but got 'tensor<i64>'

// -----

func.func @gather_elements(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %i: tensor<3xi32>) {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<3xi32>) -> tensor<3x!quant.uniform<i8:f32, 0.25>>
  func.return
}
// CHECK: 'stablehlo.gather' op failed to verify that all of {operand, result} have same element type

// -----

func.func @gather_sizes(%x: tensor<4xf32>, %i: tensor<3xi32>) {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2>}> : (tensor<4xf32>, tensor<3xi32>) -> tensor<3xf32>
  func.return
}
// CHECK: slice size 2 of dimension 0 is too large

// -----

func.func @gather_shape(%x: tensor<4xf32>, %i: tensor<3xi32>) {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<4xf32>, tensor<3xi32>) -> tensor<4xf32>
  func.return
}
// CHECK: 'stablehlo.gather' op inferred type(s) 'tensor<3xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'

// -----

func.func @reduce_window_storage(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %z: tensor<!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<!quant.uniform<i8:f32, 0.5:3>>):
    stablehlo.return %a : tensor<!quant.uniform<i8:f32, 0.5:3>>
  }) : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x!quant.uniform<i16:f32, 0.5>>
  func.return
}
// CHECK: 'stablehlo.reduce_window' op inferred type(s) 'tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>' are incompatible with return type(s) of operation 'tensor<3x!quant.uniform<i16:f32, 5.000000e-01>>'

// -----

func.func @custom_call_config(%x: tensor<4xf32>) {
  %0 = stablehlo.custom_call @f(%x) {api_version = 4 : i32, backend_config = ""} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: backend_config for api_version 4 must be a dictionary attribute.
