// RUN: xdsl-opt %s -p 'quant-casts-to-stablehlo' | filecheck %s --match-full-lines

// Tensors of known rank, with scales for the whole or along a dimension.

func.func @casts(%x: tensor<4xf32>, %y: tensor<?x2xf32>) -> (tensor<4xf32>, tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) {
  %0 = quant.qcast %x {other, quant.nan = "stored-zero"} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xf32>
  %2 = quant.qcast %y : tensor<?x2xf32> to tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>
  return %1, %2 : tensor<4xf32>, tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @casts(%x: tensor<4xf32>, %y: tensor<?x2xf32>) -> (tensor<4xf32>, tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>) {
// CHECK-NEXT:      %0 = stablehlo.uniform_quantize %x {other} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %2 = stablehlo.uniform_quantize %y : (tensor<?x2xf32>) -> tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>
// CHECK-NEXT:      func.return %1, %2 : tensor<4xf32>, tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {1.000000e-01,2.000000e-01}>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
