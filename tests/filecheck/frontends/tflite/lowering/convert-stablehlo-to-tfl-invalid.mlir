// RUN: xdsl-opt %s -p convert-stablehlo-to-tfl --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'stablehlo.cbrt' op has no conversion to TensorFlow Lite
func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.cbrt %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK: 'stablehlo.add' op has elements of type 'f16', for which LiteRT has no kernel; expected f32, i1, i32, i64 or a quantized type
func.func @half(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = stablehlo.add %x, %x : tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// CHECK: 'stablehlo.pad' op has interior padding
func.func @interior(%x: tensor<4xf32>, %f: tensor<f32>) -> tensor<7xf32> {
  %0 = stablehlo.pad %x, %f, low = [0], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// CHECK: 'stablehlo.divide' op divides integers, which TensorFlow Lite rounds otherwise
func.func @integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = stablehlo.divide %x, %x : tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// CHECK: 'stablehlo.and' op combines bits of integers
func.func @bits(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = stablehlo.and %x, %x : tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// CHECK: 'func.func' op has calls that cannot be inlined: function 'main' calls itself
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
