// RUN: XDSL_ROUNDTRIP
// RUN: xdsl-opt %s -t mlir-aliased | xdsl-opt | filecheck %s

// CHECK-LABEL:  func.func private @none(!quant.none<f32>, tensor<*x!quant.none<bf16>>, tensor<2x?x!quant.none<f64>>, !quant.none<f8E4M3FN>) -> ()
func.func private @none(
  !quant.none<f32>,
  tensor<*x!quant.none<bf16>>,
  tensor<2x?x!quant<none<f64>>>,
  !quant.none <f8E4M3FN>)

// CHECK-LABEL:  func.func @casts
// CHECK-NEXT:     %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.none<f32>>
// CHECK-NEXT:     %1 = quant.dcast %0 : tensor<2x!quant.none<f32>> to tensor<2xf32>
// CHECK-NEXT:     %2 = quant.region "k" (%a = %x : tensor<2xf32> as !quant.none<f32>) -> (tensor<2xf32> as !quant.none<f32>) {
func.func @casts(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.none<f32>>
  %1 = quant.dcast %0 : tensor<2x!quant.none<f32>> to tensor<2xf32>
  %2 = quant.region "k" (%a = %x : tensor<2xf32> as !quant.none<f32>) -> (tensor<2xf32> as !quant.none<f32>) {
    quant.return %a : tensor<2xf32>
  }
  return
}
