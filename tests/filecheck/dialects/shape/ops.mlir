// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

func.func @shapes(%ranked: tensor<2x?xf32>, %unranked: tensor<*xi8>, %point: tensor<f32>, %buffer: memref<*xf32>, %vector: vector<4xf32>, %value: !shape.value_shape) {
  %0 = shape.shape_of %ranked : tensor<2x?xf32> -> tensor<2xindex>
  %1 = shape.shape_of %unranked : tensor<*xi8> -> tensor<?xindex>
  %2 = shape.shape_of %point : tensor<f32> -> tensor<0xindex>
  %3 = shape.shape_of %buffer {note = "kept"} : memref<*xf32> -> tensor<3xindex>
  %4 = shape.shape_of %vector : vector<4xf32> -> tensor<?xindex>
  %5 = shape.shape_of %value : !shape.value_shape -> !shape.shape
  %6 = shape.num_elements %0 : tensor<2xindex> -> index
  %7 = shape.num_elements %5 : !shape.shape -> !shape.size
  %head, %tail = "shape.split_at"(%1, %6) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
  %8, %9 = "shape.split_at"(%5, %7) : (!shape.shape, !shape.size) -> (!shape.shape, !shape.shape)
  func.return
}

// CHECK:       func.func @shapes(%ranked: tensor<2x?xf32>, %unranked: tensor<*xi8>, %point: tensor<f32>, %buffer: memref<*xf32>, %vector: vector<4xf32>, %value: !shape.value_shape) {
// CHECK-NEXT:    %{{.*}} = shape.shape_of %ranked : tensor<2x?xf32> -> tensor<2xindex>
// CHECK-NEXT:    %{{.*}} = shape.shape_of %unranked : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:    %{{.*}} = shape.shape_of %point : tensor<f32> -> tensor<0xindex>
// CHECK-NEXT:    %{{.*}} = shape.shape_of %buffer {note = "kept"} : memref<*xf32> -> tensor<3xindex>
// CHECK-NEXT:    %{{.*}} = shape.shape_of %vector : vector<4xf32> -> tensor<?xindex>
// CHECK-NEXT:    %{{.*}} = shape.shape_of %value : !shape.value_shape -> !shape.shape
// CHECK-NEXT:    %{{.*}} = shape.num_elements %{{.*}} : tensor<2xindex> -> index
// CHECK-NEXT:    %{{.*}} = shape.num_elements %{{.*}} : !shape.shape -> !shape.size
// CHECK-NEXT:    %head, %tail = "shape.split_at"(%{{.*}}, %{{.*}}) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:    %{{.*}}, %{{.*}} = "shape.split_at"(%{{.*}}, %{{.*}}) : (!shape.shape, !shape.size) -> (!shape.shape, !shape.shape)
// CHECK-NEXT:    func.return

// CHECK-GENERIC:       %{{.*}} = "shape.shape_of"(%ranked) : (tensor<2x?xf32>) -> tensor<2xindex>
// CHECK-GENERIC-NEXT:  %{{.*}} = "shape.shape_of"(%unranked) : (tensor<*xi8>) -> tensor<?xindex>
// CHECK-GENERIC-NEXT:  %{{.*}} = "shape.shape_of"(%point) : (tensor<f32>) -> tensor<0xindex>
// CHECK-GENERIC-NEXT:  %{{.*}} = "shape.shape_of"(%buffer) {note = "kept"} : (memref<*xf32>) -> tensor<3xindex>
// CHECK-GENERIC-NEXT:  %{{.*}} = "shape.shape_of"(%vector) : (vector<4xf32>) -> tensor<?xindex>
// CHECK-GENERIC-NEXT:  %{{.*}} = "shape.shape_of"(%value) : (!shape.value_shape) -> !shape.shape
// CHECK-GENERIC-NEXT:  %{{.*}} = "shape.num_elements"(%{{.*}}) : (tensor<2xindex>) -> index
// CHECK-GENERIC-NEXT:  %{{.*}} = "shape.num_elements"(%{{.*}}) : (!shape.shape) -> !shape.size
// CHECK-GENERIC-NEXT:  %head, %tail = "shape.split_at"(%{{.*}}, %{{.*}}) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-GENERIC-NEXT:  %{{.*}}, %{{.*}} = "shape.split_at"(%{{.*}}, %{{.*}}) : (!shape.shape, !shape.size) -> (!shape.shape, !shape.shape)
