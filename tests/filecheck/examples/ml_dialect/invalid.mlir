// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'ml.add' op lhs must be scalar or ranked tensor of floating-point or quantized type, but got 'i8'
func.func @integers(%a: i8, %b: f32) {
  %0 = ml.add %a, %b : (i8, f32) -> f32
  func.return
}

// -----

// CHECK: 'ml.sub' op rhs must be scalar or ranked tensor of floating-point or quantized type, but got 'tensor<*xf32>'
func.func @unranked(%a: f32, %b: tensor<*xf32>) {
  %0 = ml.sub %a, %b : (f32, tensor<*xf32>) -> f32
  func.return
}

// -----

// CHECK: 'ml.mul' op result must be scalar or ranked tensor of floating-point or quantized type, but got 'vector<2xf32>'
func.func @vector(%a: f32) {
  %0 = ml.mul %a, %a : (f32, f32) -> vector<2xf32>
  func.return
}

// -----

// CHECK: 'ml.div' op requires the same shape for operands and result
func.func @scalar_and_tensor(%a: f32, %b: tensor<2xf32>) {
  %0 = ml.div %a, %b : (f32, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: 'ml.mod' op requires the same shape for operands and result
func.func @static_and_dynamic(%a: tensor<2xf32>, %b: tensor<?xf32>) {
  %0 = ml.mod %a, %b : (tensor<2xf32>, tensor<?xf32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: 'ml.add' op requires the same expressed type for operands and result
func.func @expressed_types(%a: !quant.uniform<i8:f16, 1.0>, %b: f32) {
  %0 = ml.add %a, %b : (!quant.uniform<i8:f16, 1.0>, f32) -> !quant.any<i8>
  func.return
}
