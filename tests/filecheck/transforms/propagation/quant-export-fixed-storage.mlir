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

// CHECK:       builtin.module attributes {quant.float_kernels = ["{{.*}}.mlir:{{[0-9:]+}}: kernel 'add': unsupported storage type 'f8E5M2', expected an integer type", "{{.*}}.mlir:{{[0-9:]+}}: kernel 'neg': unsupported storage type 'f8E5M2', expected an integer type", "{{.*}}.mlir:{{[0-9:]+}}: kernel 'neg': the dialect of its ops has no quantized ops for these types"]} {
// CHECK-NEXT:    func.func @float_storage(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:      %z = stablehlo.add %1, %1 : tensor<4xf32>
// CHECK-NEXT:      %y = quant.qcast %z : tensor<4xf32> to tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>>
// CHECK-NEXT:      %y_1 = quant.dcast %y : tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:      func.return %y_1 : tensor<4xf32>

// Nor has it casts from floats to integers, or of blocks.
func.func @float_to_integer_storage(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = quant.region "neg" (%a = %x : tensor<4xf32> as !quant.uniform<f8E5M2:f32, 0.5>)
      -> (tensor<4xf32> as !quant.uniform<f8E5M2:f32, 0.5>) {
    %n = stablehlo.negate %a : tensor<4xf32>
    quant.return %n : tensor<4xf32>
  }
  %z = quant.region "abs" (%a = %y : tensor<4xf32> as !quant.uniform<i8:f32, 0.5>)
      -> (tensor<4xf32> as !quant.uniform<i8:f32, 0.5>) {
    %n = stablehlo.abs %a : tensor<4xf32>
    quant.return %n : tensor<4xf32>
  }
  func.return %z : tensor<4xf32>
}

func.func @blocks(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = quant.region "neg" (%a = %x : tensor<2x2xf32> as !quant.uniform<i8:f32:{0:2, 1:1}, {{0.5, 1.0}}>)
      -> (tensor<2x2xf32> as !quant.uniform<i8:f32:{0:2, 1:1}, {{0.5, 1.0}}>) {
    %n = stablehlo.negate %a : tensor<2x2xf32>
    quant.return %n : tensor<2x2xf32>
  }
  func.return %y : tensor<2x2xf32>
}

// CHECK:         func.func @float_to_integer_storage(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:      %n = stablehlo.negate %1 : tensor<4xf32>
// CHECK-NEXT:      %y = quant.qcast %n : tensor<4xf32> to tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>>
// CHECK-NEXT:      %2 = quant.dcast %y : tensor<4x!quant.uniform<f8E5M2:f32, 5.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:      %3 = stablehlo.uniform_quantize %2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      %n_1 = stablehlo.abs %3 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      %z = stablehlo.uniform_dequantize %n_1 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<4xf32>
// CHECK-NEXT:      func.return %z : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK:         func.func @blocks(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{[{][{]}}5.000000e-01, 1.000000e+00}}>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{[{][{]}}5.000000e-01, 1.000000e+00}}>> to tensor<2x2xf32>
// CHECK-NEXT:      %n = stablehlo.negate %1 : tensor<2x2xf32>
// CHECK-NEXT:      %y = quant.qcast %n : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{[{][{]}}5.000000e-01, 1.000000e+00}}>>
// CHECK-NEXT:      %y_1 = quant.dcast %y : tensor<2x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{[{][{]}}5.000000e-01, 1.000000e+00}}>> to tensor<2x2xf32>
// CHECK-NEXT:      func.return %y_1 : tensor<2x2xf32>
// CHECK-NEXT:    }
