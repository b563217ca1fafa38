// RUN: xdsl-opt %s -p 'stablehlo-legalize-quantized-op-to-qdq' | filecheck %s --match-full-lines

// Operands of other types, a result of another type, quantized weights of floats, what only
// moves elements, reductions, and indices.

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

func.func @conversions(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %i: tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<!quant.uniform<i32:f32, 2.000000e+00>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) {
  %0 = stablehlo.reduce(%q init: %i) across dimensions = [0] : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<!quant.uniform<i32:f32, 2.000000e+00>>
   reducer(%a: tensor<!quant.uniform<i32:f32, 5.000000e-01>>, %b: tensor<!quant.uniform<i32:f32, 5.000000e-01>>) {
    %2 = stablehlo.add %a, %b : tensor<!quant.uniform<i32:f32, 5.000000e-01>>
    stablehlo.return %2 : tensor<!quant.uniform<i32:f32, 5.000000e-01>>
  }
  %1 = stablehlo.iota dim = 0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  return %0, %1 : tensor<!quant.uniform<i32:f32, 2.000000e+00>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @elementwise(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %r: tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> (tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
// CHECK-NEXT:      %q_f32 = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %r_f32 = stablehlo.uniform_dequantize %r : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %sum_f32 = stablehlo.add %q_f32, %r_f32 {note = 1 : i32} : tensor<4xf32>
// CHECK-NEXT:      %sum = stablehlo.uniform_quantize %sum_f32 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %sum_f32_1 = stablehlo.uniform_dequantize %sum : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %t_f32 = stablehlo.tanh %sum_f32_1 {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
// CHECK-NEXT:      %t = stablehlo.uniform_quantize %t_f32 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %q_f32_1 = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %sum_f32_2 = stablehlo.uniform_dequantize %sum : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %c = stablehlo.compare LT, %q_f32_1, %sum_f32_2, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
// CHECK-NEXT:      %sum_f32_3 = stablehlo.uniform_dequantize %sum : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %t_f32_1 = stablehlo.uniform_dequantize %t : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %s_f32 = stablehlo.select %c, %sum_f32_3, %t_f32_1 : tensor<4xi1>, tensor<4xf32>
// CHECK-NEXT:      %s = stablehlo.uniform_quantize %s_f32 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %sum_f32_4 = stablehlo.uniform_dequantize %sum : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %s_f32_1 = stablehlo.uniform_dequantize %s : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %t_f32_2 = stablehlo.uniform_dequantize %t : (tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) -> tensor<4xf32>
// CHECK-NEXT:      %k_f32 = stablehlo.clamp %sum_f32_4, %s_f32_1, %t_f32_2 : tensor<4xf32>
// CHECK-NEXT:      %k = stablehlo.uniform_quantize %k_f32 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      func.return %c, %k : tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @products(%x: tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %f: tensor<2x4xf32>, %w: tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> (tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<2x2xf32>) {
// CHECK-NEXT:      %x_f32 = stablehlo.uniform_dequantize %x : (tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x4xf32>
// CHECK-NEXT:      %w_f32 = stablehlo.uniform_dequantize %w : (tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> tensor<4x2xf32>
// CHECK-NEXT:      %0 = stablehlo.dot_general %x_f32, %w_f32, contracting_dims = [1] x [0], precision = [DEFAULT, HIGH] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      %1 = stablehlo.uniform_quantize %0 : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      %w_f32_1 = stablehlo.uniform_dequantize %w : (tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) -> tensor<4x2xf32>
// CHECK-NEXT:      %2 = stablehlo.dot_general %f, %w_f32_1, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      func.return %1, %2 : tensor<2x2x!quant.uniform<i8:f32, 1.000000e-01:-7>>, tensor<2x2xf32>
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
// CHECK-NEXT:    func.func @conversions(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %i: tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<!quant.uniform<i32:f32, 2.000000e+00>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) {
// CHECK-NEXT:      %0 = stablehlo.uniform_quantize %q : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK-NEXT:      %1 = stablehlo.uniform_quantize %i : (tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK-NEXT:      %2 = stablehlo.reduce(%0 init: %1) across dimensions = [0] : (tensor<4x!quant.uniform<i32:f32, 5.000000e-01>>, tensor<!quant.uniform<i32:f32, 5.000000e-01>>) -> tensor<!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK-NEXT:       reducer(%a: tensor<!quant.uniform<i32:f32, 5.000000e-01>>, %b: tensor<!quant.uniform<i32:f32, 5.000000e-01>>)  {
// CHECK-NEXT:        %a_f32 = stablehlo.uniform_dequantize %a : (tensor<!quant.uniform<i32:f32, 5.000000e-01>>) -> tensor<f32>
// CHECK-NEXT:        %b_f32 = stablehlo.uniform_dequantize %b : (tensor<!quant.uniform<i32:f32, 5.000000e-01>>) -> tensor<f32>
// CHECK-NEXT:        %3 = stablehlo.add %a_f32, %b_f32 : tensor<f32>
// CHECK-NEXT:        %4 = stablehlo.uniform_quantize %3 : (tensor<f32>) -> tensor<!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK-NEXT:        stablehlo.return %4 : tensor<!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK-NEXT:      }
// CHECK-NEXT:      %5 = stablehlo.uniform_quantize %2 : (tensor<!quant.uniform<i32:f32, 5.000000e-01>>) -> tensor<!quant.uniform<i32:f32, 2.000000e+00>>
// CHECK-NEXT:      %6 = stablehlo.iota dim = 0 : tensor<4xf32>
// CHECK-NEXT:      %7 = stablehlo.uniform_quantize %6 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %5, %7 : tensor<!quant.uniform<i32:f32, 2.000000e+00>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
