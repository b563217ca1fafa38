// RUN: xdsl-opt %s -p 'quant-fuse-kernels{target=stablehlo-int8}' --split-input-file | filecheck %s

// The largest kernel, with other ops between its ops.

func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %w = stablehlo.constant dense<5.000000e-01> : tensor<4x4xf32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = stablehlo.constant dense<1.500000e+00> : tensor<4x4xf32>
  %c = stablehlo.add %a, %b : tensor<4x4xf32>
  %z = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
  %d = stablehlo.maximum %c, %z : tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:      %w = stablehlo.constant dense<5.000000e-01> : tensor<4x4xf32>
// CHECK-NEXT:      %b = stablehlo.constant dense<1.500000e+00> : tensor<4x4xf32>
// CHECK-NEXT:      %z = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:      %d = quant.region "product_bias_relu" (%x_1 = %x : tensor<4x4xf32>, %w_1 = %w : tensor<4x4xf32>, %b_1 = %b : tensor<4x4xf32>, %z_1 = %z : tensor<4x4xf32>) -> (tensor<4x4xf32>) attributes {quant.positions = [1 : i64, 3 : i64, 5 : i64]} {
// CHECK-NEXT:        %a = stablehlo.dot_general %x_1, %w_1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:        %c = stablehlo.add %a, %b_1 : tensor<4x4xf32>
// CHECK-NEXT:        %d_1 = stablehlo.maximum %c, %z_1 : tensor<4x4xf32>
// CHECK-NEXT:        quant.return %d_1 : tensor<4x4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %d : tensor<4x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A bias that is no constant is an operand of another kernel.

func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %w = stablehlo.constant dense<5.000000e-01> : tensor<4x4xf32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = stablehlo.add %a, %y : tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:      %w = stablehlo.constant dense<5.000000e-01> : tensor<4x4xf32>
// CHECK-NEXT:      %a = quant.region "stablehlo.dot_general" (%x_1 = %x : tensor<4x4xf32>, %w_1 = %w : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
// CHECK-NEXT:        %a_1 = stablehlo.dot_general %x_1, %w_1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:        quant.return %a_1 : tensor<4x4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %c = quant.region "stablehlo.add" (%a_1 = %a : tensor<4x4xf32>, %y_1 = %y : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
// CHECK-NEXT:        %c_1 = stablehlo.add %a_1, %y_1 : tensor<4x4xf32>
// CHECK-NEXT:        quant.return %c_1 : tensor<4x4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %c : tensor<4x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A value that another op uses ends a kernel; statistics are part of one.

func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %w = stablehlo.constant dense<5.000000e-01> : tensor<4x4xf32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = stablehlo.constant dense<1.500000e+00> : tensor<4x4xf32>
  %s = quant.stats %a <-1.000000e+00:2.000000e+00> : tensor<4x4xf32>
  %c = stablehlo.add %s, %b : tensor<4x4xf32>
  %d = stablehlo.tanh %c : tensor<4x4xf32>
  %e = stablehlo.add %c, %d : tensor<4x4xf32>
  return %e : tensor<4x4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:      %w = stablehlo.constant dense<5.000000e-01> : tensor<4x4xf32>
// CHECK-NEXT:      %b = stablehlo.constant dense<1.500000e+00> : tensor<4x4xf32>
// CHECK-NEXT:      %c = quant.region "product_bias" (%x_1 = %x : tensor<4x4xf32>, %w_1 = %w : tensor<4x4xf32>, %b_1 = %b : tensor<4x4xf32>) -> (tensor<4x4xf32>) attributes {quant.positions = [1 : i64, 3 : i64, 4 : i64]} {
// CHECK-NEXT:        %a = stablehlo.dot_general %x_1, %w_1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:        %s = quant.stats %a <-1.000000e+00:2.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:        %c_1 = stablehlo.add %s, %b_1 : tensor<4x4xf32>
// CHECK-NEXT:        quant.return %c_1 : tensor<4x4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %d = quant.region "stablehlo.tanh" (%c_1 = %c : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
// CHECK-NEXT:        %d_1 = stablehlo.tanh %c_1 : tensor<4x4xf32>
// CHECK-NEXT:        quant.return %d_1 : tensor<4x4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %e = quant.region "stablehlo.add" (%c_1 = %c : tensor<4x4xf32>, %d_1 = %d : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
// CHECK-NEXT:        %e_1 = stablehlo.add %c_1, %d_1 : tensor<4x4xf32>
// CHECK-NEXT:        quant.return %e_1 : tensor<4x4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %e : tensor<4x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Ops in bodies are left alone, and so are integers.

func.func @main(%x: tensor<4x4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.add %i, %i : tensor<4xi32>
  return %a, %b : tensor<4xf32>, tensor<4xi32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<4x4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
// CHECK-NEXT:      %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:      %a = quant.region "stablehlo.reduce[stablehlo.add]" (%x_1 = %x : tensor<4x4xf32>, %zero_1 = %zero : tensor<f32>) -> (tensor<4xf32>) {
// CHECK-NEXT:        %a_1 = stablehlo.reduce(%x_1 init: %zero_1) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT:        quant.return %a_1 : tensor<4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %b = stablehlo.add %i, %i : tensor<4xi32>
// CHECK-NEXT:      func.return %a, %b : tensor<4xf32>, tensor<4xi32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
