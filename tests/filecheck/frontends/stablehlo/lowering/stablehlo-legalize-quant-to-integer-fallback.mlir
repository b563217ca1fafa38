// RUN: xdsl-opt %s -p 'stablehlo-legalize-quant-to-integer{fallback=qdq}' | filecheck %s --match-full-lines

func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %y: tensor<4x!quant.uniform<i8:f32, 0.25>>, %z: tensor<4x!quant.uniform<i16:f32, 0.5:3>>) -> (tensor<4xi1>, tensor<4x!quant.uniform<i16:f32, 0.01>>) {
  %0 = stablehlo.compare LT, %x, %y : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4xi1>
  %1 = stablehlo.tanh %z : (tensor<4x!quant.uniform<i16:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i16:f32, 0.01>>
  return %0, %1 : tensor<4xi1>, tensor<4x!quant.uniform<i16:f32, 0.01>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, %y: tensor<4x!quant.uniform<i8:f32, 2.500000e-01>>, %z: tensor<4x!quant.uniform<i16:f32, 5.000000e-01:3>>) -> (tensor<4xi1>, tensor<4x!quant.uniform<i16:f32, 1.000000e-02>>) {
// CHECK-NEXT:      %0 = quant.scast %x : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xi8>
// CHECK-NEXT:      %1 = quant.scast %y : tensor<4x!quant.uniform<i8:f32, 2.500000e-01>> to tensor<4xi8>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<4xi1>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0, %1 : tensor<4xi8>, tensor<4xi8>) outs(%2 : tensor<4xi1>) {
// CHECK-NEXT:      ^bb0(%in: i8, %in_1: i8, %out: i1):
// CHECK-NEXT:        %4 = arith.extsi %in : i8 to i32
// CHECK-NEXT:        %5 = arith.constant 3 : i32
// CHECK-NEXT:        %6 = arith.subi %4, %5 : i32
// CHECK-NEXT:        %7 = arith.constant 2 : i32
// CHECK-NEXT:        %8 = arith.muli %6, %7 : i32
// CHECK-NEXT:        %9 = arith.extsi %in_1 : i8 to i32
// CHECK-NEXT:        %10 = arith.cmpi slt, %8, %9 : i32
// CHECK-NEXT:        linalg.yield %10 : i1
// CHECK-NEXT:      } -> tensor<4xi1>
// CHECK-NEXT:      %z_f32 = stablehlo.uniform_dequantize %z : (tensor<4x!quant.uniform<i16:f32, 5.000000e-01:3>>) -> tensor<4xf32>
// CHECK-NEXT:      %11 = stablehlo.tanh %z_f32 : tensor<4xf32>
// CHECK-NEXT:      %12 = stablehlo.uniform_quantize %11 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i16:f32, 1.000000e-02>>
// CHECK-NEXT:      func.return %3, %12 : tensor<4xi1>, tensor<4x!quant.uniform<i16:f32, 1.000000e-02>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
