// RUN: xdsl-opt %s -p convert-tfl-to-linalg --allow-unregistered-dialect --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'tfl.reverse_sequence' op has no conversion to linalg
func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "tfl.reverse_sequence"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK: 'tfl.var_handle' op has state; run 'tfl-variables-to-arguments' first
func.func @state() -> tensor<4xf32> {
  %0 = "tfl.var_handle"() <{container = "", shared_name = "v"}> : () -> tensor<*x!tf_type.resource>
  %1 = "tfl.read_variable"(%0) : (tensor<*x!tf_type.resource>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CHECK: 'tfl.relu' op has an operand of type 'tensor<?x4xf32>' with a dynamic shape
func.func @shape(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = "tfl.relu"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

// CHECK: 'tfl.pseudo_qconst' op has the type 'tensor<2x!quant.uniform<f8E4M3FN:f32, 5.000000e-01>>': unsupported storage type 'f8E4M3FN', expected an integer type
func.func @float_storage() -> tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>> {
  %0 = "tfl.pseudo_qconst"() <{qtype = tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>, value = dense<1> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>
  return %0 : tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>
}

// -----

// CHECK: 'tfl.relu' op cannot be converted: no integer kernel supports '!quant.block_scaled'; use 'tfl.dequantize'
func.func @block_scales(%x: tensor<2x!quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f16>>>) -> tensor<2x!quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f16>>> {
  %0 = "tfl.relu"(%x) : (tensor<2x!quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f16>>>) -> tensor<2x!quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f16>>>
  return %0 : tensor<2x!quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f16>>>
}

// -----

// CHECK: 'tfl.concatenation' op has the type 'tensor<4x!quant.uniform<i8:f32:{0:1}, {5.000000e-01, 1.000000e+00}>>': dimension size 4 of scales tensor at axis 0 should match
func.func @blocks(%x: tensor<2x!quant.uniform<i8:f32:{0:1}, {0.5, 1.0}>>) -> tensor<4x!quant.uniform<i8:f32:{0:1}, {0.5, 1.0}>> {
  %0 = "tfl.concatenation"(%x, %x) <{axis = 0 : i32, fused_activation_function = "NONE"}> : (tensor<2x!quant.uniform<i8:f32:{0:1}, {0.5, 1.0}>>, tensor<2x!quant.uniform<i8:f32:{0:1}, {0.5, 1.0}>>) -> tensor<4x!quant.uniform<i8:f32:{0:1}, {0.5, 1.0}>>
  return %0 : tensor<4x!quant.uniform<i8:f32:{0:1}, {0.5, 1.0}>>
}
