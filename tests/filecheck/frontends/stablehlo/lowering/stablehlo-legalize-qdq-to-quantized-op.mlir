// RUN: xdsl-opt %s -p 'stablehlo-legalize-qdq-to-quantized-op{partial=true}' | filecheck %s --match-full-lines

// What is used elsewhere stays, as does what is no valid quantized op.

func.func @fused(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<4xf32>) {
  %a = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
  %b = stablehlo.uniform_dequantize %r : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
  %y = stablehlo.add %a, %b {note = 1 : i32} : tensor<4xf32>
  %0 = stablehlo.uniform_quantize %y : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = stablehlo.uniform_quantize %y : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  return %0, %1, %b : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<4xf32>
}

func.func @moved(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
  %a = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
  %b = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<2x2xf32>
  %same = stablehlo.uniform_quantize %b : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %other = stablehlo.uniform_quantize %b : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  return %same, %other : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
}

func.func @stays(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %x: tensor<4xf32>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
  %a = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
  %b = stablehlo.multiply %a, %x : tensor<4xf32>
  %0 = stablehlo.uniform_quantize %b : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  return %0, %1 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @fused(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<4xf32>) {
// CHECK-NEXT:      %b = stablehlo.uniform_dequantize %r : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %0 = stablehlo.add %q, %r {note = 1 : i32} : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %1 = stablehlo.add %q, %r {note = 1 : i32} : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      func.return %0, %1, %b : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @moved(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
// CHECK-NEXT:      %a = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %b = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      %same = stablehlo.reshape %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %other = stablehlo.uniform_quantize %b : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      func.return %same, %other : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @stays(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %x: tensor<4xf32>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
// CHECK-NEXT:      %a = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %b = stablehlo.multiply %a, %x : tensor<4xf32>
// CHECK-NEXT:      %0 = stablehlo.uniform_quantize %b : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %1 = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      func.return %0, %1 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
