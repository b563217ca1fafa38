// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

"test.op"() {
  direction = #stablehlo<comparison_direction NE>,
  compare_type = #stablehlo<comparison_type TOTALORDER>,
  precisions = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>, #stablehlo<precision HIGHEST>],
  mode = #stablehlo.result_accuracy_mode<HIGHEST>
} : () -> ()

// CHECK:      direction = #stablehlo<comparison_direction NE>
// CHECK-SAME: compare_type = #stablehlo<comparison_type TOTALORDER>
// CHECK-SAME: precisions = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>, #stablehlo<precision HIGHEST>]
// CHECK-SAME: mode = #stablehlo.result_accuracy_mode<HIGHEST>

// Tolerances of 0 are elided.

"test.op"() {
  exact = #stablehlo.result_accuracy<atol = 0.0, rtol = 0.0, ulps = 0, mode = #stablehlo.result_accuracy_mode<HIGHEST>>,
  tolerant = #stablehlo.result_accuracy<atol = 1.0e-5, rtol = 0.5, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>
} : () -> ()

// CHECK:      exact = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>
// CHECK-SAME: tolerant = #stablehlo.result_accuracy<atol = 1.000000e-05, rtol = 5.000000e-01, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>

// The fields of `dot` have an order, and those without numbers are elided.

"test.op"() {
  none = #stablehlo.dot<>,
  empty = #stablehlo.dot<lhs_contracting_dimensions = []>,
  all = #stablehlo.dot<rhs_contracting_dimensions = [0], lhs_contracting_dimensions = [1], rhs_batching_dimensions = [2], lhs_batching_dimensions = [3],>
} : () -> ()

// CHECK:      none = #stablehlo.dot<>
// CHECK-SAME: empty = #stablehlo.dot<>
// CHECK-SAME: all = #stablehlo.dot<lhs_batching_dimensions = [3], rhs_batching_dimensions = [2], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>

"test.op"() {
  channels_last = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
  mixed = #stablehlo.conv<[b,1,f,0] x [i,1,0,o] -> [f,0,b,1]>,
  no_window = #stablehlo.conv<[b, f]x[i, o]->[f, b]>,
  named = #stablehlo.conv<raw
    input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1],
    kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0],
    output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2]>,
  raw = #stablehlo.conv<raw
    input_batch_dimension = 0, input_feature_dimension = 0, input_spatial_dimensions = [1],
    kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0],
    output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [7]>
} : () -> ()

// CHECK:      channels_last = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>
// CHECK-SAME: mixed = #stablehlo.conv<[b, 1, f, 0]x[i, 1, 0, o]->[f, 0, b, 1]>
// CHECK-SAME: no_window = #stablehlo.conv<[b, f]x[i, o]->[f, b]>
// CHECK-SAME: named = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, f, 0]>
// CHECK-SAME: raw = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 0, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [7]>

%bounded = "test.op"() : () -> tensor<?x8xf32, #stablehlo.bounds<3, ?>>
%0 = stablehlo.abs %bounded : tensor<?x8xf32, #stablehlo.bounds<3, ?>>
%1 = stablehlo.reshape %bounded : (tensor<?x8xf32, #stablehlo.bounds<3, ?>>) -> tensor<8x?xf32, #stablehlo.bounds<?, 3>>

// CHECK:      %bounded = "test.op"() : () -> tensor<?x8xf32, #stablehlo.bounds<3, ?>>
// CHECK-NEXT: %{{.*}} = stablehlo.abs %bounded : tensor<?x8xf32, #stablehlo.bounds<3, ?>>
// CHECK-NEXT: %{{.*}} = stablehlo.reshape %bounded : (tensor<?x8xf32, #stablehlo.bounds<3, ?>>) -> tensor<8x?xf32, #stablehlo.bounds<?, 3>>

// CHECK-GENERIC: "stablehlo.abs"(%bounded) : (tensor<?x8xf32, #stablehlo.bounds<3, ?>>) -> tensor<?x8xf32, #stablehlo.bounds<3, ?>>

// Element types, of ops that take them all.

%2, %3, %4 = "test.op"() : () -> (tensor<2xf8E4M3FN>, tensor<2xui64>, tensor<2xcomplex<f64>>)
%5 = stablehlo.add %2, %2 : tensor<2xf8E4M3FN>
%6 = stablehlo.add %3, %3 : tensor<2xui64>
%7 = stablehlo.add %4, %4 : tensor<2xcomplex<f64>>

// CHECK:      stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf8E4M3FN>
// CHECK-NEXT: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xui64>
// CHECK-NEXT: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xcomplex<f64>>

%8, %9 = "test.op"() : () -> (tensor<2x!quant.uniform<i2:bf16, 5.000000e-01>>, tensor<?x!quant.uniform<u4:f64:0, {5.000000e-01}>>)
%10 = stablehlo.add %8, %8 : tensor<2x!quant.uniform<i2:bf16, 5.000000e-01>>
%11 = stablehlo.add %9, %9 : tensor<?x!quant.uniform<u4:f64:0, {5.000000e-01}>>

// CHECK:      stablehlo.add %{{.*}}, %{{.*}} : tensor<2x!quant.uniform<i2:bf16, 5.000000e-01>>
// CHECK-NEXT: stablehlo.add %{{.*}}, %{{.*}} : tensor<?x!quant.uniform<u4:f64:0, {5.000000e-01}>>
