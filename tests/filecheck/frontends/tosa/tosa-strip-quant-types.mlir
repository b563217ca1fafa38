// RUN: xdsl-opt %s -p tosa-strip-quant-types | filecheck %s
// RUN: xdsl-opt %s -p strip-func-quant-types,tosa-strip-quant-types | filecheck %s

!q = !quant.uniform<i8:f32, 2.0>
!x = !quant.uniform<i8:f32, 0.0215:-25>
!y = !quant.uniform<i8:f32, 0.0176:18>
!u = !quant.uniform<u8:f32, 0.5:128>
!w = !quant.uniform<i8:f32:0, {0.5, 0.25}>
!s = !quant.uniform<i32:f32, 3.784000e-04>

// CHECK:       func.func @predict(%x: tensor<3xi8>, %y: tensor<3xi8>) -> tensor<3xi8> {
// CHECK:         %0 = tosa.rescale %x, %m, %s, %z8, %z32 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<3xi32>
// CHECK-NEXT:    %1 = tosa.rescale %y, %m, %s, %z8, %z32 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<3xi32>
// CHECK-NEXT:    %2 = tosa.add %0, %1 : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
// CHECK-NEXT:    %3 = tosa.rescale %2, %m, %s2, %z32, %z8 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3xi8>
// CHECK-NEXT:    func.return %3 : tensor<3xi8>
func.func @predict(%x: tensor<3x!q>, %y: tensor<3x!q>) -> tensor<3x!q> {
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<11> : tensor<1xi8>}> : () -> tensor<1xi8>
  %s2 = "tosa.const"() <{values = dense<49> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z8 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z32 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %0 = tosa.rescale %x, %m, %s, %z8, %z32 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<3x!q>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<3xi32>
  %1 = tosa.rescale %y, %m, %s, %z8, %z32 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<3x!q>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<3xi32>
  %2 = tosa.add %0, %1 : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  %3 = tosa.rescale %2, %m, %s2, %z32, %z8 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x!q>
  return %3 : tensor<3x!q>
}

// CHECK:       func.func @product(%x: tensor<1x3x4xi8>, %y: tensor<1x4x3xi8>) -> tensor<1x3x3xi32> {
// CHECK:         %0 = tosa.matmul %x, %y, %a, %b : (tensor<1x3x4xi8>, tensor<1x4x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3xi32>
// CHECK-NEXT:    %1 = tosa.reduce_sum %0 {axis = 1 : i32} : (tensor<1x3x3xi32>) -> tensor<1x1x3xi32>
// CHECK-NEXT:    %2 = tosa.add %0, %1 : (tensor<1x3x3xi32>, tensor<1x1x3xi32>) -> tensor<1x3x3xi32>
func.func @product(%x: tensor<1x3x4x!x>, %y: tensor<1x4x3x!y>) -> tensor<1x3x3x!s> {
  %a = "tosa.const"() <{values = dense<-25> : tensor<1xi8>}> : () -> tensor<1xi8>
  %b = "tosa.const"() <{values = dense<18> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.matmul %x, %y, %a, %b : (tensor<1x3x4x!x>, tensor<1x4x3x!y>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x!s>
  %1 = tosa.reduce_sum %0 {axis = 1 : i32} : (tensor<1x3x3x!s>) -> tensor<1x1x3x!s>
  %2 = tosa.add %0, %1 : (tensor<1x3x3x!s>, tensor<1x1x3x!s>) -> tensor<1x3x3x!s>
  return %2 : tensor<1x3x3x!s>
}

// CHECK:       func.func @order(%x: tensor<2x3xi8>, %z: tensor<1xi8>) -> (tensor<2x3xi8>, tensor<2x3xi1>) {
// CHECK-NEXT:    %0 = tosa.clamp %x {max_val = 100 : i8, min_val = 0 : i8} : (tensor<2x3xi8>) -> tensor<2x3xi8>
// CHECK-NEXT:    %1 = tosa.negate %0, %z, %z : (tensor<2x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8>
// CHECK-NEXT:    %2 = tosa.maximum %1, %x : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi8>
// CHECK-NEXT:    %3 = tosa.greater %1, %2 : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi1>
func.func @order(%x: tensor<2x3x!x>, %z: tensor<1xi8>) -> (tensor<2x3x!x>, tensor<2x3xi1>) {
  %0 = tosa.clamp %x {min_val = 0 : i8, max_val = 100 : i8} : (tensor<2x3x!x>) -> tensor<2x3x!x>
  %1 = tosa.negate %0, %z, %z : (tensor<2x3x!x>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3x!x>
  %2 = tosa.maximum %1, %x : (tensor<2x3x!x>, tensor<2x3x!x>) -> tensor<2x3x!x>
  %3 = tosa.greater %1, %2 : (tensor<2x3x!x>, tensor<2x3x!x>) -> tensor<2x3xi1>
  return %2, %3 : tensor<2x3x!x>, tensor<2x3xi1>
}

// CHECK:       func.func @move(%x: tensor<2x2xi8>, %u: tensor<2x3xi8>) -> (tensor<2x2xi8>, tensor<2x3xi8>) {
// CHECK-NEXT:    %0 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x2xi8>) -> tensor<2x2xi8>
// CHECK-NEXT:    %1 = tosa.reverse %u {axis = 1 : i32} : (tensor<2x3xi8>) -> tensor<2x3xi8>
// CHECK-NEXT:    func.return %0, %1 : tensor<2x2xi8>, tensor<2x3xi8>
func.func @move(%x: tensor<2x2x!w>, %u: tensor<2x3xi8>) -> (tensor<2x2x!w>, tensor<2x3x!u>) {
  %0 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x2x!w>) -> tensor<2x2x!w>
  %q = quant.scast %u : tensor<2x3xi8> to tensor<2x3x!u>
  %1 = tosa.reverse %q {axis = 1 : i32} : (tensor<2x3x!u>) -> tensor<2x3x!u>
  return %0, %1 : tensor<2x2x!w>, tensor<2x3x!u>
}

// CHECK:       func.func private @declared(tensor<2xi8>) -> i8
func.func private @declared(tensor<2x!q>) -> !q
