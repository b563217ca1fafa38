// RUN: xdsl-opt -p quant-export %s | filecheck %s

// StableHLO has no casts to floats: the kernel is computed in floats between casts of the quant dialect.
func.func @float_storage(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = quant.region "add" (%a = %x : tensor<4xf32> as !quant.uniform<f8E5M2:f32, 0.5>)
      -> (tensor<4xf32> as !quant.uniform<f8E5M2:f32, 0.5>) {
    %z = stablehlo.add %a, %a : tensor<4xf32>
    quant.return %z : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// CHECK:       builtin.module attributes {quant.float_kernels = ["kernel 'add': unsupported storage type 'f8E5M2', expected an integer type"]} {
// CHECK-NEXT:    func.func @float_storage(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:      %z = stablehlo.add %1, %1 : tensor<4xf32>
// CHECK-NEXT:      %y = quant.qcast %z : tensor<4xf32> to tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>>
// CHECK-NEXT:      %y_1 = quant.dcast %y : tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:      func.return %y_1 : tensor<4xf32>
