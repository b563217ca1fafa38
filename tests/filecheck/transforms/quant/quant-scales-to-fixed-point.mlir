// RUN: xdsl-opt %s -p quant-scales-to-fixed-point --allow-unregistered-dialect | filecheck %s
// RUN: xdsl-opt %s -p quant-scales-to-fixed-point,quant-scales-from-fixed-point --allow-unregistered-dialect | filecheck %s --check-prefix=BACK

// Signatures, tensors of all kinds, tuples and function types; ranges and zero points stay.

// CHECK:       func.func private @signature(!quant.fixed_point<i8<-127:127>:f32, 1073741824p-31:3>, tensor<?x2x!quant.fixed_point<u8:f32:1, {1073741824p-31:3,1717986918p-34}>>) -> tensor<*x!quant.fixed_point<i8<-127:127>:f32, 1073741824p-31:3>>
// BACK:        func.func private @signature(!quant.uniform<i8<-127:127>:f32, 5.000000e-01:3>, tensor<?x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,0.099999999976716935}>>) -> tensor<*x!quant.uniform<i8<-127:127>:f32, 5.000000e-01:3>>
func.func private @signature(
  !quant.uniform<i8<-127:127>:f32, 0.5:3>,
  tensor<?x2x!quant.uniform<u8:f32:1, {0.5:3, 0.1}>>
) -> tensor<*x!quant.uniform<i8<-127:127>:f32, 0.5:3>>

// CHECK:       func.func @nested(%f: (!quant.fixed_point<i8:f32, 1073741824p-31>) -> (), %t: tuple<f32, tensor<2x!quant.fixed_point<i8:f32, 1073741824p-31>>>) attributes {a.types = [!quant.fixed_point<i8:f32, 1073741824p-31>, {b = tensor<2x!quant.fixed_point<i8:f32, 1073741824p-31>>}]} {
func.func @nested(%f: (!quant.uniform<i8:f32, 0.5>) -> (), %t: tuple<f32, tensor<2x!quant.uniform<i8:f32, 0.5>>>) attributes {
  a.types = [!quant.uniform<i8:f32, 0.5>, {b = tensor<2x!quant.uniform<i8:f32, 0.5>>}]
} {
  return
}

// Values of all ops, and arguments of all blocks.

// CHECK:       func.func @values(%x: f32) -> !quant.fixed_point<i8:f32, 1073741824p-31> {
// CHECK-NEXT:    %q = quant.qcast %x : f32 to !quant.fixed_point<i8:f32, 1073741824p-31>
// CHECK-NEXT:    cf.br ^bb1(%q : !quant.fixed_point<i8:f32, 1073741824p-31>)
// CHECK-NEXT:  ^bb1(%y: !quant.fixed_point<i8:f32, 1073741824p-31>):
// CHECK-NEXT:    %z = "a.op"(%y) ({
// CHECK-NEXT:    ^bb0(%inner: !quant.fixed_point<i8:f32, 1073741824p-31>):
// CHECK-NEXT:      "a.end"() : () -> ()
// CHECK-NEXT:    }) : (!quant.fixed_point<i8:f32, 1073741824p-31>) -> !quant.fixed_point<i8:f32, 1073741824p-31>
// CHECK-NEXT:    func.return %z : !quant.fixed_point<i8:f32, 1073741824p-31>
func.func @values(%x: f32) -> !quant.uniform<i8:f32, 0.5> {
  %q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.5>
  cf.br ^bb1(%q : !quant.uniform<i8:f32, 0.5>)
^bb1(%y: !quant.uniform<i8:f32, 0.5>):
  %z = "a.op"(%y) ({
  ^bb0(%inner: !quant.uniform<i8:f32, 0.5>):
    "a.end"() : () -> ()
  }) : (!quant.uniform<i8:f32, 0.5>) -> !quant.uniform<i8:f32, 0.5>
  return %z : !quant.uniform<i8:f32, 0.5>
}

// Types without a scale stay.

// CHECK:       func.func private @others(!quant.any<i8:f32>, !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>, tensor<2xf32>)
func.func private @others(!quant.any<i8:f32>, !quant.calibrated<f32<-1.0:1.0>>, tensor<2xf32>)
