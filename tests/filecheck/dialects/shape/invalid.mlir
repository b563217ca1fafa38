// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @shape_of_a_scalar(%x: f32) {
  %0 = shape.shape_of %x : f32 -> tensor<?xindex>
  func.return
}
// CHECK: 'shape.shape_of' op operand #0 must be shaped of any type values or , but got 'f32'

// -----

func.func @shape_of_to_integers(%x: tensor<2xf32>) {
  %0 = shape.shape_of %x : tensor<2xf32> -> tensor<1xi64>
  func.return
}
// CHECK: 'shape.shape_of' op result #0 must be shape or extent tensor, but got 'tensor<1xi64>'

// -----

func.func @shape_of_with_another_rank(%x: tensor<2xf32>) {
  %0 = shape.shape_of %x : tensor<2xf32> -> tensor<2xindex>
  func.return
}
// CHECK: 'shape.shape_of' op inferred type(s) 'tensor<1xindex>' are incompatible with return type(s) of operation 'tensor<2xindex>'

// -----

func.func @shape_of_an_error(%x: !shape.value_shape) {
  %0 = shape.shape_of %x : !shape.value_shape -> tensor<?xindex>
  func.return
}
// CHECK: 'shape.shape_of' op if at least one of the operands can hold error values then the result must be of type `shape` to propagate them

// -----

func.func @num_elements_of_unranked(%x: tensor<*xindex>) {
  %0 = shape.num_elements %x : tensor<*xindex> -> index
  func.return
}
// CHECK: 'shape.num_elements' op operand #0 must be shape or extent tensor, but got 'tensor<*xindex>'

// -----

func.func @num_elements_to_integer(%x: tensor<?xindex>) {
  %0 = shape.num_elements %x : tensor<?xindex> -> i64
  func.return
}
// CHECK: 'shape.num_elements' op result #0 must be size or index, but got 'i64'

// -----

func.func @num_elements_of_an_error(%x: !shape.shape) {
  %0 = shape.num_elements %x : !shape.shape -> index
  func.return
}
// CHECK: 'shape.num_elements' op if at least one of the operands can hold error values then the result must be of type `size` to propagate them

// -----

func.func @split_at_an_integer(%x: tensor<?xindex>, %i: i32) {
  %0:2 = "shape.split_at"(%x, %i) : (tensor<?xindex>, i32) -> (tensor<?xindex>, tensor<?xindex>)
  func.return
}
// CHECK: 'shape.split_at' op operand #1 must be size or index, but got 'i32'

// -----

func.func @split_at_to_integers(%x: tensor<?xindex>, %i: index) {
  %0:2 = "shape.split_at"(%x, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xi8>)
  func.return
}
// CHECK: 'shape.split_at' op result #1 must be shape or extent tensor, but got 'tensor<?xi8>'

// -----

func.func @split_at_without_quotes(%x: tensor<?xindex>, %i: index) {
  %0:2 = shape.split_at %x, %i : tensor<?xindex>
  func.return
}
// CHECK: Operation shape.split_at does not have a custom format.
