// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

!q = !quant.uniform<i8:f32, 2.000000e+00>
!a = !quant.uniform<u8:f32:1, {2.000000e+00,3.000000e+00:128}>

// CHECK-LABEL: @scalars
// CHECK-SAME:      (%a: !quant.uniform<i8:f32, 2.000000e+00>, %b: f32)
func.func @scalars(%a: !q, %b: f32) {
  // CHECK-NEXT:  %{{.*}} = ml.add %a, %b : (!quant.uniform<i8:f32, 2.000000e+00>, f32) -> f32
  // CHECK-NEXT:  %{{.*}} = ml.sub %b, %b : (f32, f32) -> !quant.uniform<i8:f32, 2.000000e+00>
  // CHECK-NEXT:  %{{.*}} = ml.mul %b, %b : (f32, f32) -> f32
  // CHECK-NEXT:  %{{.*}} = ml.div %a, %a : (!quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>) -> f32
  // CHECK-NEXT:  %{{.*}} = ml.mod %b, %a {note} : (f32, !quant.uniform<i8:f32, 2.000000e+00>) -> f32
  // GENERIC:     "ml.add"(%a, %b) : (!quant.uniform<i8:f32, 2.000000e+00>, f32) -> f32
  // GENERIC:     "ml.mod"(%b, %a) {note} : (f32, !quant.uniform<i8:f32, 2.000000e+00>) -> f32
  %0 = ml.add %a, %b : (!q, f32) -> f32
  %1 = ml.sub %b, %b : (f32, f32) -> !q
  %2 = ml.mul %b, %b : (f32, f32) -> f32
  %3 = ml.div %a, %a : (!q, !q) -> f32
  %4 = ml.mod %b, %a {note} : (f32, !q) -> f32
  func.return
}

// CHECK-LABEL: @tensors
func.func @tensors(%a: tensor<?x2x!q>, %b: tensor<?x2x!a>) {
  // CHECK-NEXT:  %{{.*}} = ml.add %a, %b : (tensor<?x2x!quant.uniform<i8:f32, 2.000000e+00>>, tensor<?x2x!quant.uniform<u8:f32:1, {2.000000e+00,3.000000e+00:128}>>) -> tensor<?x2x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>>
  // CHECK-NEXT:  %{{.*}} = ml.sub %a, %a : (tensor<?x2x!quant.uniform<i8:f32, 2.000000e+00>>, tensor<?x2x!quant.uniform<i8:f32, 2.000000e+00>>) -> tensor<?x2x!quant.any<i8>>
  %0 = ml.add %a, %b : (tensor<?x2x!q>, tensor<?x2x!a>) -> tensor<?x2x!quant.calibrated<f32<-1.0:1.0>>>
  %1 = ml.sub %a, %a : (tensor<?x2x!q>, tensor<?x2x!q>) -> tensor<?x2x!quant.any<i8>>
  func.return
}
