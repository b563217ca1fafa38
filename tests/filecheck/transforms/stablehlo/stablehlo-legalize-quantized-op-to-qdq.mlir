// RUN: xdsl-opt %s -p 'stablehlo-legalize-quantized-op-to-qdq' | filecheck %s --match-full-lines

// Operands of other types, a result of another type, quantized weights of floats, what only
// moves elements, and a reduction.

func.func @elementwise(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> (tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
  %sum = stablehlo.add %q, %r {note = 1 : i32} : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  %t = stablehlo.tanh %sum {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  %c = stablehlo.compare LT, %q, %sum, FLOAT : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xi1>
  %s = stablehlo.select %c, %sum, %t : tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  %k = stablehlo.clamp %sum, %s, %t : tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  return %c, %k : tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
}

func.func @products(%x: tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %f: tensor<2x4xf32>, %w: tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> (tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<2x2xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, HIGH] : (tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  %1 = stablehlo.dot_general %f, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<2x2xf32>
}

func.func @stays(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %i: tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) {
  %0 = stablehlo.reshape %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = stablehlo.uniform_quantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  %2 = stablehlo.reduce(%q init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
  return %0, %1, %2 : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @elementwise(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> (tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
// CHECK-NEXT:      %sum = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %sum_1 = stablehlo.uniform_dequantize %r : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %sum_2 = stablehlo.add %sum, %sum_1 {note = 1 : i32} : tensor<4xf32>
// CHECK-NEXT:      %sum_3 = stablehlo.uniform_quantize %sum_2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %t = stablehlo.uniform_dequantize %sum_3 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %t_1 = stablehlo.tanh %t {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
// CHECK-NEXT:      %t_2 = stablehlo.uniform_quantize %t_1 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %c = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %c_1 = stablehlo.uniform_dequantize %sum_3 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %c_2 = stablehlo.compare LT, %c, %c_1, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
// CHECK-NEXT:      %s = stablehlo.uniform_dequantize %sum_3 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %s_1 = stablehlo.uniform_dequantize %t_2 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %s_2 = stablehlo.select %c_2, %s, %s_1 : tensor<4xi1>, tensor<4xf32>
// CHECK-NEXT:      %s_3 = stablehlo.uniform_quantize %s_2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %k = stablehlo.uniform_dequantize %sum_3 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %k_1 = stablehlo.uniform_dequantize %s_3 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %k_2 = stablehlo.uniform_dequantize %t_2 : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %k_3 = stablehlo.clamp %k, %k_1, %k_2 : tensor<4xf32>
// CHECK-NEXT:      %k_4 = stablehlo.uniform_quantize %k_3 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      func.return %c_2, %k_4 : tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @products(%x: tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %f: tensor<2x4xf32>, %w: tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> (tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<2x2xf32>) {
// CHECK-NEXT:      %0 = stablehlo.uniform_dequantize %x : (tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x4xf32>
// CHECK-NEXT:      %1 = stablehlo.uniform_dequantize %w : (tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> tensor<4x2xf32>
// CHECK-NEXT:      %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, HIGH] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      %3 = stablehlo.uniform_quantize %2 : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %4 = stablehlo.uniform_dequantize %w : (tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> tensor<4x2xf32>
// CHECK-NEXT:      %5 = stablehlo.dot_general %f, %4, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      func.return %3, %5 : tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<2x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @stays(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %i: tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) {
// CHECK-NEXT:      %0 = stablehlo.reshape %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %1 = stablehlo.uniform_quantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %2 = stablehlo.reduce(%q init: %i) across dimensions = [0] : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:       reducer(%3: tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>, %4: tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>)  {
// CHECK-NEXT:        %5 = stablehlo.uniform_dequantize %3 : (tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<f32>
// CHECK-NEXT:        %6 = stablehlo.uniform_dequantize %4 : (tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<f32>
// CHECK-NEXT:        %7 = stablehlo.maximum %5, %6 : tensor<f32>
// CHECK-NEXT:        %8 = stablehlo.uniform_quantize %7 : (tensor<f32>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:        stablehlo.return %8 : tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %0, %1, %2 : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
