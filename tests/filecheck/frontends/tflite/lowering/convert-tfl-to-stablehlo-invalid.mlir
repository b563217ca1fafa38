// RUN: xdsl-opt %s -p convert-tfl-to-stablehlo --allow-unregistered-dialect --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'tfl.reverse_sequence' op has no conversion to StableHLO; use 'partial=true' to keep it
func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "tfl.reverse_sequence"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK: 'tfl.var_handle' op has state; run 'tfl-variables-to-arguments' first; use 'partial=true' to keep it
func.func @state() -> tensor<4xf32> {
  %0 = "tfl.var_handle"() <{container = "", shared_name = "v"}> : () -> tensor<*x!tf_type.resource>
  %1 = "tfl.read_variable"(%0) : (tensor<*x!tf_type.resource>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
