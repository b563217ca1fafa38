// RUN: xdsl-opt %s -p stablehlo-legalize-quant-to-integer --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'stablehlo.add' op cannot be computed with integers: a scale 2.23696e+08 times that of the result is too large: its multiplier of 58 bits causes an error of 0.89 units; use 'fallback=qdq' to compute it with floats
func.func @f(%a: tensor<4x!quant.uniform<i32:f32, 67108864.0>>) -> tensor<4x!quant.uniform<i32:f32, 0.3>> {
  %0 = stablehlo.add %a, %a : (tensor<4x!quant.uniform<i32:f32, 67108864.0>>, tensor<4x!quant.uniform<i32:f32, 67108864.0>>) -> tensor<4x!quant.uniform<i32:f32, 0.3>>
  return %0 : tensor<4x!quant.uniform<i32:f32, 0.3>>
}

// -----

// CHECK:       'stablehlo.dot_general' op cannot be computed with integers: unknown width of sums: a contracting dimension is dynamic; use 'fallback=qdq' to compute it with floats
func.func @f(%a: tensor<4x?x!quant.uniform<i8:f32, 1.0>>, %b: tensor<?x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x?x!quant.uniform<i8:f32, 1.0>>, tensor<?x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  return %0 : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
}

// -----

// CHECK:       'stablehlo.dot_general' op cannot be computed with integers: products of integers of up to 45 bits and the required multiplier of 19 bits exceed 64 bits; use 'fallback=qdq' to compute it with floats
func.func @f(%a: tensor<4x20000x!quant.uniform<i16:f32, 1.0>>, %b: tensor<20000x4x!quant.uniform<i16:f32, 1.0>>) -> tensor<4x4x!quant.uniform<i16:f32, 1.0>> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x20000x!quant.uniform<i16:f32, 1.0>>, tensor<20000x4x!quant.uniform<i16:f32, 1.0>>) -> tensor<4x4x!quant.uniform<i16:f32, 1.0>>
  return %0 : tensor<4x4x!quant.uniform<i16:f32, 1.0>>
}

// -----

// CHECK:       'tensor.extract_slice' op cannot be computed with integers: quantized dimension size does not match number of scales, found 'tensor<2x8x!quant.uniform<i8:f...1,1.250000e-01,1.000000e+00}>>'; use 'fallback=keep' to keep it
!q = !quant.uniform<i8:f32:0, {0.5, 0.25, 0.125, 1.0}>
func.func @f(%x: tensor<4x8x!q>) -> tensor<2x8x!q> {
  %0 = tensor.extract_slice %x[0, 0] [2, 8] [1, 1] : tensor<4x8x!q> to tensor<2x8x!q>
  return %0 : tensor<2x8x!q>
}
