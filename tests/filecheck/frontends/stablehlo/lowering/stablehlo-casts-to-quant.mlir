// RUN: xdsl-opt %s -p 'stablehlo-casts-to-quant' | filecheck %s --match-full-lines

// Quantize, dequantize, and from one quantized type to another.

func.func @casts(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
  %2 = stablehlo.uniform_quantize %0 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
  return %1, %2 : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @casts(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>) {
// CHECK-NEXT:      %0 = quant.qcast %x {quant.nan = "stored-zero", quant.rounding_mode = "nearest-even", quant.zero_point_order = "before-rounding"} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xf32>
// CHECK-NEXT:      %2 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xf32>
// CHECK-NEXT:      %3 = quant.qcast %2 {quant.nan = "stored-zero", quant.rounding_mode = "nearest-even", quant.zero_point_order = "before-rounding"} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:      func.return %1, %3 : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
