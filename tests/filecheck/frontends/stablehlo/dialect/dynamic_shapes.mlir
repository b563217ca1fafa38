// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s -p canonicalize | filecheck %s --check-prefix=STATIC

func.func @unknown(%x: tensor<?xf32>, %n: tensor<1xi32>, %z: tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %0 = stablehlo.dynamic_reshape %x, %n {note} : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0] {note, known_expanding_dimensions = array<i64: 0>} : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  %2 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %3 = stablehlo.real_dynamic_slice %x, %n, %n, %n : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  %4 = stablehlo.dynamic_pad %x, %z, %n, %n, %n : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  func.return %0, %1, %2, %3, %4 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// CHECK:       %{{.*}} = stablehlo.dynamic_reshape %x, %n {note} : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
// CHECK-NEXT:  %{{.*}} = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0] {note, known_expanding_dimensions = array<i64: 0>} : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
// CHECK-NEXT:  %{{.*}} = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
// CHECK-NEXT:  %{{.*}} = stablehlo.real_dynamic_slice %x, %n, %n, %n : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
// CHECK-NEXT:  %{{.*}} = stablehlo.dynamic_pad %x, %z, %n, %n, %n : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>

// STATIC-LABEL: func.func @unknown
// STATIC-NEXT:  stablehlo.dynamic_reshape
// STATIC-NEXT:  stablehlo.dynamic_broadcast_in_dim
// STATIC-NEXT:  stablehlo.dynamic_iota
// STATIC-NEXT:  stablehlo.real_dynamic_slice
// STATIC-NEXT:  stablehlo.dynamic_pad
// STATIC-NEXT:  func.return

func.func @constant(%x: tensor<1xf32>, %u: tensor<?xf32>, %z: tensor<f32>) -> (tensor<1xf32>, tensor<2xf32>, tensor<2xi32>, tensor<3xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %x, %one : (tensor<1xf32>, tensor<1xi32>) -> tensor<1xf32>
  %1 = stablehlo.dynamic_broadcast_in_dim %x, %two, dims = [0] {note} : (tensor<1xf32>, tensor<1xi32>) -> tensor<2xf32>
  %2 = stablehlo.dynamic_iota %two, dim = 0 : (tensor<1xi32>) -> tensor<2xi32>
  %3 = stablehlo.dynamic_pad %x, %z, %one, %one, %one : (tensor<1xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xf32>
  %4 = stablehlo.real_dynamic_slice %u, %one, %two, %one : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  %5 = stablehlo.dynamic_reshape %u, %two : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  func.return %0, %1, %2, %3, %4, %5 : tensor<1xf32>, tensor<2xf32>, tensor<2xi32>, tensor<3xf32>, tensor<?xf32>, tensor<?xf32>
}

// STATIC-LABEL: func.func @constant
// STATIC:       %{{.*}} = stablehlo.reshape %x : (tensor<1xf32>) -> tensor<1xf32>
// STATIC-NEXT:  %{{.*}} = stablehlo.broadcast_in_dim %x, dims = [0] {note} : (tensor<1xf32>) -> tensor<2xf32>
// STATIC-NEXT:  %{{.*}} = stablehlo.iota dim = 0 : tensor<2xi32>
// STATIC-NEXT:  %{{.*}} = stablehlo.pad %x, %z, low = [1], high = [1], interior = [1] : (tensor<1xf32>, tensor<f32>) -> tensor<3xf32>
// STATIC-NEXT:  %{{.*}} = stablehlo.slice %u [1:2] : (tensor<?xf32>) -> tensor<?xf32>
// STATIC-NEXT:  %{{.*}} = stablehlo.dynamic_reshape
