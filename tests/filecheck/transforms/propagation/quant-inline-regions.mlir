// RUN: xdsl-opt %s -p quant-inline-regions --split-input-file | filecheck %s

// Specifications become casts.

func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s, %p = quant.region "both" (%a = %x : tensor<4xf32> as !quant.uniform<i8:f32, 5.000000e-01:3>, %b = %y : tensor<4xf32>) -> (tensor<4xf32> as !quant.any<i8:f32>, tensor<4xf32>) {
    %c = stablehlo.add %a, %b : tensor<4xf32>
    %d = stablehlo.multiply %a, %c : tensor<4xf32>
    quant.return %c, %d : tensor<4xf32>, tensor<4xf32>
  }
  return %s, %p : tensor<4xf32>, tensor<4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %a = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xf32>
// CHECK-NEXT:      %c = stablehlo.add %a, %y : tensor<4xf32>
// CHECK-NEXT:      %d = stablehlo.multiply %a, %c : tensor<4xf32>
// CHECK-NEXT:      %1 = quant.qcast %c : tensor<4xf32> to tensor<4x!quant.any<i8:f32>>
// CHECK-NEXT:      %s = quant.dcast %1 : tensor<4x!quant.any<i8:f32>> to tensor<4xf32>
// CHECK-NEXT:      func.return %s, %d : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Ops are where they were.

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %u = stablehlo.exponential %x : tensor<4xf32>
  %t = quant.region "k" (%a = %x : tensor<4xf32>, %v = %u : tensor<4xf32>) -> (tensor<4xf32>) attributes {quant.positions = [0 : i64, 2 : i64]} {
    %b = stablehlo.tanh %a : tensor<4xf32>
    %c = stablehlo.add %b, %v : tensor<4xf32>
    quant.return %c : tensor<4xf32>
  }
  return %t : tensor<4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %b = stablehlo.tanh %x : tensor<4xf32>
// CHECK-NEXT:      %u = stablehlo.exponential %x : tensor<4xf32>
// CHECK-NEXT:      %c = stablehlo.add %b, %u : tensor<4xf32>
// CHECK-NEXT:      func.return %c : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
