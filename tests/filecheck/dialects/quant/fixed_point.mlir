// RUN: XDSL_ROUNDTRIP --match-full-lines
// RUN: XDSL_GENERIC_ROUNDTRIP
// RUN: xdsl-opt %s -p canonicalize | filecheck %s --check-prefix=FOLDED
// RUN: xdsl-opt %s -p strip-func-quant-types | filecheck %s --check-prefix=STRIPPED

// The smallest and the largest scale, ranges, zero points.

// CHECK-LABEL:  func.func private @per_layer(!quant.fixed_point<i8:f32, 1073741824p-62>, !quant.fixed_point<i8<-127:127>:f32, 2147483647p-2:3>, !quant.fixed_point<u4:bf16, 1288490189p-37:15>, !quant.fixed_point<si8:f64, 1288490189p-37:-128>) -> ()
func.func private @per_layer(
  !quant.fixed_point<i8:f32, 1073741824p-62>,
  !quant.fixed_point<i8<-127:127>:f32, 2147483647p-2:3>,
  !quant.fixed_point<u4<0:15>:bf16, 1288490189p-37:15>,
  !quant<fixed_point<si8:f64, 1288490189p-37:-128>>)

// CHECK-LABEL:  func.func private @per_axis(tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>>, tensor<*x!quant.fixed_point<i8<-127:127>:f32:7, {1073741824p-30,1073741824p-31}>>, tensor<1x!quant.fixed_point<u32:f32:0, {1073741824p-30:4294967295}>>) -> ()
func.func private @per_axis(
  tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3, 1610612736p-38}>>,
  tensor<*x!quant.fixed_point<i8<-127:127>:f32:7, {1073741824p-30:0,1073741824p-31}>>,
  tensor<1x!quant.fixed_point<u32:f32:0, { 1073741824 p -30 : 4294967295 }>>)

!layer = !quant.fixed_point<i8:f32, 1610612736p-38:3>
!axis = !quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>

// CHECK-LABEL:  func.func @casts(%x: tensor<?x2xf32>) -> tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>> {
// CHECK-NEXT:     %q = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>>
// CHECK-NEXT:     %y = quant.dcast %q : tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>> to tensor<?x2xf32>
// CHECK-NEXT:     %z = quant.qcast %y : tensor<?x2xf32> to tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>>
// CHECK-NEXT:     func.return %z : tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>>
// CHECK-GENERIC: %q = "quant.qcast"(%x) : (tensor<?x2xf32>) -> tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>>

// FOLDED-LABEL: func.func @casts
// FOLDED-NEXT:    %z = quant.qcast %x
// FOLDED-NEXT:    func.return %z

// STRIPPED-LABEL: func.func @casts(%x: tensor<?x2xf32>) -> tensor<?x2xi8> {
// STRIPPED:         %z_stripped = quant.scast %z : tensor<?x2x!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>> to tensor<?x2xi8>
func.func @casts(%x: tensor<?x2xf32>) -> tensor<?x2x!axis> {
  %q = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!axis>
  %y = quant.dcast %q : tensor<?x2x!axis> to tensor<?x2xf32>
  %z = quant.qcast %y : tensor<?x2xf32> to tensor<?x2x!axis>
  return %z : tensor<?x2x!axis>
}

// CHECK-LABEL:  func.func @stored(%i: i8) -> i8 {
// CHECK-NEXT:     %q = quant.scast %i : i8 to !quant.fixed_point<i8:f32, 1610612736p-38:3>
// CHECK-NEXT:     %j = quant.scast %q : !quant.fixed_point<i8:f32, 1610612736p-38:3> to i8

// FOLDED-LABEL: func.func @stored(%i: i8) -> i8 {
// FOLDED-NEXT:    func.return %i : i8
func.func @stored(%i: i8) -> i8 {
  %q = quant.scast %i : i8 to !layer
  %j = quant.scast %q : !layer to i8
  return %j : i8
}
