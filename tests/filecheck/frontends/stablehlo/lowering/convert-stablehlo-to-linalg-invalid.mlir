// RUN: xdsl-opt %s -p convert-stablehlo-to-linalg --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'stablehlo.add' op is arithmetic on a quantized tensor: run 'convert-quantized-stablehlo-to-linalg' instead
func.func @quantized(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.add %x, %x : tensor<4x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// CHECK:       'stablehlo.uniform_quantize' op is a quantization cast: run 'convert-quantized-stablehlo-to-linalg' instead, or 'stablehlo-casts-to-quant' first
func.func @cast(%x: tensor<4xf32>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// CHECK:       'stablehlo.exponential' op has a value of type 'tensor<4xcomplex<f32>>', expected elements of type bf16, f16, f32, f64 or an integer of up to 64 bits
func.func @complex(%x: tensor<4xcomplex<f32>>) {
  %0 = stablehlo.exponential %x : tensor<4xcomplex<f32>>
  return
}

// -----

// CHECK:       'stablehlo.reduce' op has a body with 'stablehlo.constant', which has a value that is not a tensor of rank 0, which has no conversion to linalg
func.func @reduce(%x: tensor<4xf32>, %zero: tensor<f32>) {
  %0 = stablehlo.reduce(%x init: %zero) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %c = stablehlo.constant dense<1.0> : tensor<4xf32>
    %d = stablehlo.slice %c [0:1] : (tensor<4xf32>) -> tensor<1xf32>
    stablehlo.return %a : tensor<f32>
  }
  return
}

// -----

// CHECK:       'test.op' op has a value of type 'tensor<4xui8>', which this pass converts to a signless type; lower the op first
func.func @sign(%x: tensor<4xui8>) {
  "test.op"(%x) : (tensor<4xui8>) -> ()
  return
}

// -----

// CHECK:       'stablehlo.reduce' op is arithmetic on a quantized tensor: run 'convert-quantized-stablehlo-to-linalg' instead
func.func @quantized_reduce(%x: tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, %i: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [0] : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01>>
  return
}
