// RUN: xdsl-opt %s -p 'tosa-rescale-to-quant{scale-rounding=double}' | filecheck %s

// The scale of the result is 1: a rescale has the ratio alone.

// CHECK:       func.func @double(%x: tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:    %0 = quant.scast %x : tensor<4xi8> to tensor<4x!quant.fixed_point<i8:f32, 1717986918p-32:10>>
// CHECK-NEXT:    %1 = quant.dcast %0 : tensor<4x!quant.fixed_point<i8:f32, 1717986918p-32:10>> to tensor<4xf32>
// CHECK-NEXT:    %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!quant.fixed_point<i8:f32, 1073741824p-30:-5>>
// CHECK-NEXT:    %y = quant.scast %2 : tensor<4x!quant.fixed_point<i8:f32, 1073741824p-30:-5>> to tensor<4xi8>
// CHECK-NEXT:    func.return %y : tensor<4xi8>
func.func @double(%x: tensor<4xi8>) -> tensor<4xi8> {
  %m = "tosa.const"() <{values = dense<1717986918> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<32> : tensor<1xi8>}> : () -> tensor<1xi8>
  %a = "tosa.const"() <{values = dense<10> : tensor<1xi8>}> : () -> tensor<1xi8>
  %b = "tosa.const"() <{values = dense<-5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = tosa.rescale %x, %m, %s, %a, %b {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  return %y : tensor<4xi8>
}

// A multiplier of 16 bits has a spelling of 31 bits. Shifts of up to 31 are rounded once in both modes.

// CHECK:       func.func @channels(%x: tensor<3x2xi16>) -> tensor<3x2xi8> {
// CHECK-NEXT:    %0 = quant.scast %x : tensor<3x2xi16> to tensor<3x2x!quant.fixed_point<i16:f32:1, {1073741824p-31,1073807360p-29}>>
// CHECK-NEXT:    %1 = quant.dcast %0 : tensor<3x2x!quant.fixed_point<i16:f32:1, {1073741824p-31,1073807360p-29}>> to tensor<3x2xf32>
// CHECK-NEXT:    %2 = quant.qcast %1 : tensor<3x2xf32> to tensor<3x2x!quant.fixed_point<u8:f32, 1073741824p-30:128>>
// CHECK-NEXT:    %y = quant.scast %2 : tensor<3x2x!quant.fixed_point<u8:f32, 1073741824p-30:128>> to tensor<3x2xi8>
func.func @channels(%x: tensor<3x2xi16>) -> tensor<3x2xi8> {
  %m = "tosa.const"() <{values = dense<[16384, 16385]> : tensor<2xi16>}> : () -> tensor<2xi16>
  %s = "tosa.const"() <{values = dense<[15, 13]> : tensor<2xi8>}> : () -> tensor<2xi8>
  %a = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
  %b = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = tosa.rescale %x, %m, %s, %a, %b {input_unsigned = false, output_unsigned = true, per_channel = true, rounding_mode = SINGLE_ROUND, scale32 = false} : (tensor<3x2xi16>, tensor<2xi16>, tensor<2xi8>, tensor<1xi16>, tensor<1xi8>) -> tensor<3x2xi8>
  return %y : tensor<3x2xi8>
}

// A scale that is less than 2**-32 is a ratio to a larger one.

// CHECK:       func.func @small
// CHECK:         quant.qcast %{{.*}} : tensor<f32> to tensor<!quant.fixed_point<i8:f32, 1073741824p-28>>
func.func @small(%x: tensor<i32>) -> tensor<i8> {
  %m = "tosa.const"() <{values = dense<268435456> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<62> : tensor<1xi8>}> : () -> tensor<1xi8>
  %a = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %b = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = tosa.rescale %x, %m, %s, %a, %b {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = INEXACT_ROUND, scale32 = true} : (tensor<i32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<i8>
  return %y : tensor<i8>
}
