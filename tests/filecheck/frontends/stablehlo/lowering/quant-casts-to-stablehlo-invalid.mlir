// RUN: xdsl-opt %s -p quant-casts-to-stablehlo --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'quant.qcast' op cannot be converted to StableHLO: expected a ranked tensor, found type '!quant.uniform<i8:f32, 1.000000e+00>'
func.func @f(%x: f32) -> !quant.uniform<i8:f32, 1.0> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0>
  return %0 : !quant.uniform<i8:f32, 1.0>
}

// -----

// CHECK:       'quant.dcast' op cannot be converted to StableHLO: expected per-tensor or per-axis storage in integers of 2, 4, 8, 16 or 32 bits, found type 'tensor<2x!quant.uniform<f8E4M3FN:f32, 5.000000e-01>>'; use 'lower-quant-ops'
func.func @f(%x: tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>) -> tensor<2xf32> {
  %0 = quant.dcast %x : tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>> to tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// CHECK:       'quant.qcast' op cannot be converted to StableHLO: expected per-tensor or per-axis storage in integers of 2, 4, 8, 16 or 32 bits, found type 'tensor<2x!quant.block_scaled<i4:f32:{}, scales = dense<5.000000e-01> : tensor<f16>>>'; use 'lower-quant-ops'
func.func @f(%x: tensor<2xf32>) -> tensor<2x!quant.block_scaled<i4:f32:{}, scales = dense<0.5> : tensor<f16>>> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.block_scaled<i4:f32:{}, scales = dense<0.5> : tensor<f16>>>
  return %0 : tensor<2x!quant.block_scaled<i4:f32:{}, scales = dense<0.5> : tensor<f16>>>
}

// -----

// CHECK:       'quant.dynamic_qcast' op cannot be converted to StableHLO: scales and zero points are operands; use 'quant-casts-from-dynamic' if they are constant, otherwise 'lower-quant-ops'
func.func @f(%x: tensor<4x2xf32>, %scale: tensor<4xf32>) -> tensor<4x2xi8> {
  %0 = quant.dynamic_qcast %x, %scale {0:1} as <i8> : tensor<4x2xf32>, tensor<4xf32> to tensor<4x2xi8>
  return %0 : tensor<4x2xi8>
}

// -----

// CHECK:       'quant.dynamic_dcast' op cannot be converted to StableHLO: scales and zero points are operands; use 'quant-casts-from-dynamic' if they are constant, otherwise 'lower-quant-ops'
func.func @f(%q: tensor<4x2xi8>, %scale: tensor<4xf32>) -> tensor<4x2xf32> {
  %0 = quant.dynamic_dcast %q, %scale {0:1} as <i8> : tensor<4x2xi8>, tensor<4xf32> to tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
