// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s

func.func @elementwise(%x: tensor<2xf32>, %q: tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, %p: tensor<2xi1>, %i: tensor<2xi32>) {
  %0 = stablehlo.sqrt %x : tensor<2xf32>
  %1 = stablehlo.rsqrt %q {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01>>
  %2 = stablehlo.round_nearest_even %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  %3 = stablehlo.and %p, %p : tensor<2xi1>
  %4 = stablehlo.or %i, %i : tensor<2xi32>
  %5 = stablehlo.not %p : tensor<2xi1>
  func.return
}

// CHECK:      %{{.*}} = stablehlo.sqrt %x : tensor<2xf32>
// CHECK-NEXT: %{{.*}} = stablehlo.rsqrt %q {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: %{{.*}} = stablehlo.round_nearest_even %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: %{{.*}} = stablehlo.and %p, %p : tensor<2xi1>
// CHECK-NEXT: %{{.*}} = stablehlo.or %i, %i : tensor<2xi32>
// CHECK-NEXT: %{{.*}} = stablehlo.not %p : tensor<2xi1>

func.func @indices(%x: tensor<2x?xf32>, %table: tensor<10x8x!quant.uniform<i8:f32, 5.000000e-01>>, %ids: tensor<3x1xi32>) {
  %0 = stablehlo.iota dim = 1 {note} : tensor<2x3xi32>
  %1 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>
  %2 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<10x8x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<3x1xi32>) -> tensor<3x8x!quant.uniform<i8:f32, 5.000000e-01>>
  func.return
}

// CHECK:      %{{.*}} = stablehlo.iota dim = 1 {note} : tensor<2x3xi32>
// CHECK-NEXT: %{{.*}} = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>
// CHECK-NEXT: %{{.*}} = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<10x8x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<3x1xi32>) -> tensor<3x8x!quant.uniform<i8:f32, 5.000000e-01>>

func.func @reduce_window(%x: tensor<1x8x8x4x!quant.uniform<i8:f32, 5.000000e-01>>, %low: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
  %0 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>, padding = dense<0> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<!quant.uniform<i8:f32, 5.000000e-01>>, %b: tensor<!quant.uniform<i8:f32, 5.000000e-01>>):
    %1 = stablehlo.maximum %a, %b : tensor<!quant.uniform<i8:f32, 5.000000e-01>>
    stablehlo.return %1 : tensor<!quant.uniform<i8:f32, 5.000000e-01>>
  }) : (tensor<1x8x8x4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<1x4x4x4x!quant.uniform<i8:f32, 5.000000e-01>>
  func.return
}

// CHECK:      %{{.*}} = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>, padding = dense<0> : tensor<4x2xi64>}> ({
// CHECK-NEXT: ^{{.*}}(%a: tensor<!quant.uniform<i8:f32, 5.000000e-01>>, %b: tensor<!quant.uniform<i8:f32, 5.000000e-01>>):
// CHECK-NEXT:   %{{.*}} = stablehlo.maximum %a, %b : tensor<!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:   stablehlo.return %{{.*}} : tensor<!quant.uniform<i8:f32, 5.000000e-01>>

func.func @custom_calls(%x: tensor<2xf32>, %t: !stablehlo.token) {
  %0 = stablehlo.custom_call @foo(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1, %2 = stablehlo.custom_call @"foo bar"(%x, %t) {has_side_effect = true, backend_config = "abc", called_computations = [@f], operand_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>], result_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<2xf32>, !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  %3 = stablehlo.custom_call @foo(%t) {api_version = 4 : i32, backend_config = {a = 1 : i32}} : (!stablehlo.token) -> tensor<2xf32>
  %4 = stablehlo.custom_call @foo(%x) {output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]} : (tensor<2xf32>) -> tensor<2xf32>
  stablehlo.custom_call @foo() {has_side_effect = true} : () -> ()
  func.return
}

// CHECK:      %{{.*}} = stablehlo.custom_call @foo(%x) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: %{{.*}}, %{{.*}} = stablehlo.custom_call @"foo bar"(%x, %t) {has_side_effect = true, backend_config = "abc", called_computations = [@f], operand_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>], result_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<2xf32>, !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
// CHECK-NEXT: %{{.*}} = stablehlo.custom_call @foo(%t) {api_version = 4 : i32, backend_config = {a = 1 : i32}} : (!stablehlo.token) -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = stablehlo.custom_call @foo(%x) {output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: stablehlo.custom_call @foo() {has_side_effect = true} : () -> ()

func.func @others(%x: tensor<2x3xf32>, %t: !stablehlo.token) {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  "test.op"() ({
    stablehlo.return %t : !stablehlo.token
  }) {algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>} : () -> ()
  func.return
}

// CHECK:      %{{.*}} = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
// CHECK-NEXT: %{{.*}} = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
// CHECK:        stablehlo.return %t : !stablehlo.token
// CHECK-NEXT: }) {algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>} : () -> ()
