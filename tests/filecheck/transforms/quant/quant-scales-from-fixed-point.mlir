// RUN: xdsl-opt %s -p quant-scales-from-fixed-point | filecheck %s
// RUN: xdsl-opt %s -p quant-scales-from-fixed-point,quant-scales-to-fixed-point | filecheck %s --check-prefix=BACK

// The scales are exact.

// CHECK:       func.func @f(%x: tensor<?x2xf32>) -> tensor<?x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,0.0093750000014551915}>> {
// CHECK-NEXT:    %q = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,0.0093750000014551915}>>
// BACK:        func.func @f(%x: tensor<?x2xf32>) -> tensor<?x2x!quant.fixed_point<u8:f32:1, {1073741824p-31:3,1288490189p-37}>> {
func.func @f(%x: tensor<?x2xf32>) -> tensor<?x2x!quant.fixed_point<u8:f32:1, {1073741824p-31:3, 1288490189p-37}>> {
  %q = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.fixed_point<u8:f32:1, {1073741824p-31:3, 1288490189p-37}>>
  return %q : tensor<?x2x!quant.fixed_point<u8:f32:1, {1073741824p-31:3, 1288490189p-37}>>
}

// CHECK:       func.func private @per_layer(!quant.uniform<i8<-127:127>:f16, 1.000000e+00:-3>, !quant.uniform<i8:f32, 5.000000e-01>)
// BACK:        func.func private @per_layer(!quant.fixed_point<i8<-127:127>:f16, 1073741824p-30:-3>, !quant.fixed_point<i8:f32, 1073741824p-31>)
func.func private @per_layer(!quant.fixed_point<i8<-127:127>:f16, 1073741824p-30:-3>, !quant.uniform<i8:f32, 0.5>)
