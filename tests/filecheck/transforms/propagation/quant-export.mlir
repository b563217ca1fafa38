// RUN: xdsl-opt %s -p quant-export | filecheck %s

!q = !quant.uniform<i8:f32, 0.5>
!r = !quant.uniform<i8:f32, 0.25:3>

// Another kernel takes other parameters than the first one gives.
func.func @requantized(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %sizes = arith.constant dense<[2, 2]> : tensor<2xi32>
  %0 = quant.region "relu" (%a = %x : tensor<4xf32> as !q) -> (tensor<4xf32> as !q) {
    %b = "tfl.relu"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    quant.return %b : tensor<4xf32>
  }
  %1 = quant.region "reshape" (%a = %0 : tensor<4xf32> as !r, %b = %sizes : tensor<2xi32>)
      -> (tensor<2x2xf32> as !r) {
    %c = "tfl.reshape"(%a, %b) : (tensor<4xf32>, tensor<2xi32>) -> tensor<2x2xf32>
    quant.return %c : tensor<2x2xf32>
  }
  func.return %1 : tensor<2x2xf32>
}

// CHECK:       builtin.module attributes {quant.float_kernels = ["{{.*}}.mlir:{{[0-9:]+}}: kernel 'sin': a port has no parameters, found specification 'f32'"]} {
// CHECK-NEXT:    func.func @requantized(%x: tensor<4xf32>) -> tensor<2x2xf32> {
// CHECK-NEXT:      %0 = "tfl.quantize"(%x) <{qtype = tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>}> : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      %sizes = arith.constant dense<2> : tensor<2xi32>
// CHECK-NEXT:      %b = "tfl.relu"(%0) : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      %1 = "tfl.quantize"(%b) <{qtype = tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>}> : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT:      %c = "tfl.reshape"(%1, %sizes) : (tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>, tensor<2xi32>) -> tensor<2x2x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT:      %2 = "tfl.dequantize"(%c) : (tensor<2x2x!quant.uniform<i8:f32, 2.500000e-01:3>>) -> tensor<2x2xf32>
// CHECK-NEXT:      func.return %2 : tensor<2x2xf32>
// CHECK-NEXT:    }

// A kernel without parameters stays in floating point.
func.func @in_float(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.region "sin" (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %b = "tfl.sin"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    quant.return %b : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// CHECK-NEXT:    func.func @in_float(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %b = "tfl.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:      func.return %b : tensor<4xf32>
// CHECK-NEXT:    }

// Constants are quantized, and a sum of products has 32 bits.
func.func @accumulator(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[0.5, -0.5], [1.0, 0.25]]> : tensor<2x2xf32>
  %b = stablehlo.constant dense<[[0.1, -0.2]]> : tensor<1x2xf32>
  %0 = quant.region "dense" (%a = %x : tensor<1x2xf32> as !q,
      %c = %w : tensor<2x2xf32> as !quant.uniform<i8:f32:1, {0.0078125, 0.00390625}>,
      %d = %b : tensor<1x2xf32> as !quant.uniform<i32:f32:1, {0.00390625, 0.001953125}>)
      -> (tensor<1x2xf32> as !r) {
    %e = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0]
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %f = stablehlo.add %e, %d : tensor<1x2xf32>
    quant.return %f : tensor<1x2xf32>
  }
  func.return %0 : tensor<1x2xf32>
}

// CHECK-NEXT:    func.func @accumulator(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
// CHECK-NEXT:      %0 = stablehlo.uniform_quantize %x : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      %w = stablehlo.constant() <{value = dense<[[64, -128], [127, 64]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8:f32:1, {7.812500e-03,3.906250e-03}>>
// CHECK-NEXT:      %b = stablehlo.constant() <{value = dense<[[26, -102]]> : tensor<1x2xi32>}> : () -> tensor<1x2x!quant.uniform<i32:f32:1, {3.906250e-03,0.001953125}>>
// CHECK-NEXT:      %e = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<1x2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x2x!quant.uniform<i8:f32:1, {7.812500e-03,3.906250e-03}>>) -> tensor<1x2x!quant.uniform<i32:f32:1, {3.906250e-03,0.001953125}>>
// CHECK-NEXT:      %f = stablehlo.add %e, %b : tensor<1x2x!quant.uniform<i32:f32:1, {3.906250e-03,0.001953125}>>
// CHECK-NEXT:      %1 = stablehlo.uniform_quantize %f : (tensor<1x2x!quant.uniform<i32:f32:1, {3.906250e-03,0.001953125}>>) -> tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT:      %2 = stablehlo.uniform_dequantize %1 : (tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01:3>>) -> tensor<1x2xf32>
// CHECK-NEXT:      func.return %2 : tensor<1x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
