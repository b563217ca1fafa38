// RUN: xdsl-opt %s -p 'tfl-infer-shapes{static=true}' --split-input-file | filecheck %s

// The end of the slice is computed from the shape of the argument.

// CHECK: func.func @main(%x: tensor<1x10xf32>) -> tensor<1x8xf32>
// CHECK: "tfl.strided_slice"
// CHECK-SAME: -> tensor<1x8xf32>
// CHECK-NEXT: "tfl.relu"(%{{.*}}) : (tensor<1x8xf32>) -> tensor<1x8xf32>
func.func @main(%x: tensor<?x10xf32>) -> tensor<?x?xf32> {
  %shape = "tfl.shape"(%x) : (tensor<?x10xf32>) -> tensor<2xi32>
  %drop = "tfl.pseudo_const"() <{value = dense<[0, 2]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %end = tfl.sub %shape, %drop {fused_activation_function = "NONE"} : tensor<2xi32>
  %begin = "tfl.pseudo_const"() <{value = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
  %strides = "tfl.pseudo_const"() <{value = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>
  %0 = "tfl.strided_slice"(%x, %begin, %end, %strides) <{begin_mask = 0 : i32, ellipsis_mask = 0 : i32, end_mask = 0 : i32, new_axis_mask = 0 : i32, offset = false, shrink_axis_mask = 0 : i32}> : (tensor<?x10xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  %1 = "tfl.relu"(%0) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %1 : tensor<?x?xf32>
}

// -----

// Shapes that depend on elements stay dynamic.

// CHECK: func.func @main(%x: tensor<1xi32>) -> tensor<?xf32>
func.func @main(%x: tensor<?xi32>) -> tensor<?xf32> {
  %value = "tfl.pseudo_const"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
  %0 = "tfl.fill"(%x, %value) : (tensor<?xi32>, tensor<f32>) -> tensor<?xf32>
  func.return %0 : tensor<?xf32>
}
