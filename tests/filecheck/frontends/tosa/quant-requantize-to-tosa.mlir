// RUN: xdsl-opt %s -p quant-requantize-to-tosa | filecheck %s
// RUN: xdsl-opt %s -p 'quant-requantize-to-tosa{scale-rounding=double}' | filecheck %s --check-prefix=DOUBLE
// RUN: xdsl-opt %s -p quant-requantize-to-tosa,tosa-rescale-to-quant,canonicalize | filecheck %s --check-prefix=BACK

!a = !quant.fixed_point<i8:f32, 1717986918p-34:10>
!b = !quant.fixed_point<i8:f32, 1073741824p-32:-5>

// Values are requantized as stored values. The rounding mode is that of the option.

// CHECK:       func.func @per_tensor(%q: tensor<4x!quant.fixed_point<i8:f32, 1717986918p-34:10>>) -> tensor<4x!quant.fixed_point<i8:f32, 1073741824p-32:-5>> {
// CHECK-NEXT:    %0 = quant.scast %q : tensor<4x!quant.fixed_point<i8:f32, 1717986918p-34:10>> to tensor<4xi8>
// CHECK-NEXT:    %1 = "tosa.const"() <{values = dense<1717986918> : tensor<1xi32>}> : () -> tensor<1xi32>
// CHECK-NEXT:    %2 = "tosa.const"() <{values = dense<32> : tensor<1xi8>}> : () -> tensor<1xi8>
// CHECK-NEXT:    %3 = "tosa.const"() <{values = dense<10> : tensor<1xi8>}> : () -> tensor<1xi8>
// CHECK-NEXT:    %4 = "tosa.const"() <{values = dense<-5> : tensor<1xi8>}> : () -> tensor<1xi8>
// CHECK-NEXT:    %5 = tosa.rescale %0, %1, %2, %3, %4 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = SINGLE_ROUND, scale32 = true} : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
// CHECK-NEXT:    %r = quant.scast %5 : tensor<4xi8> to tensor<4x!quant.fixed_point<i8:f32, 1073741824p-32:-5>>
// CHECK-NEXT:    func.return %r : tensor<4x!quant.fixed_point<i8:f32, 1073741824p-32:-5>>
// DOUBLE:        %5 = tosa.rescale %0, %1, %2, %3, %4 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true}
// BACK:          func.func @per_tensor(%q: tensor<4x!quant.fixed_point<i8:f32, 1717986918p-34:10>>) -> tensor<4x!quant.fixed_point<i8:f32, 1073741824p-32:-5>> {
// BACK-NEXT:       %0 = quant.dcast %q : tensor<4x!quant.fixed_point<i8:f32, 1717986918p-34:10>> to tensor<4xf32>
// BACK-NEXT:       %r = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.fixed_point<i8:f32, 1073741824p-32:-5>>
// BACK-NEXT:       func.return %r : tensor<4x!quant.fixed_point<i8:f32, 1073741824p-32:-5>>
func.func @per_tensor(%q: tensor<4x!a>) -> tensor<4x!b> {
  %e = quant.dcast %q : tensor<4x!a> to tensor<4xf32>
  %r = quant.qcast %e : tensor<4xf32> to tensor<4x!b>
  return %r : tensor<4x!b>
}

// Channels are along the last dimension. A narrower storage range is a clamp.

// CHECK:       func.func @per_axis
// CHECK:         = "tosa.const"() <{values = dense<[1073741824, 1610612736]> : tensor<2xi32>}> : () -> tensor<2xi32>
// CHECK-NEXT:    = "tosa.const"() <{values = dense<[36, 35]> : tensor<2xi8>}> : () -> tensor<2xi8>
// CHECK-NEXT:    = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
// CHECK-NEXT:    = "tosa.const"() <{values = dense<-5> : tensor<1xi8>}> : () -> tensor<1xi8>
// CHECK-NEXT:    = tosa.rescale {{.*}} {input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = SINGLE_ROUND, scale32 = true} : (tensor<3x2xi32>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2xi8>
// CHECK-NEXT:    = tosa.clamp {{.*}} {max_val = 127 : i8, min_val = -127 : i8} : (tensor<3x2xi8>) -> tensor<3x2xi8>
// BACK:        func.func @per_axis
// BACK:          tosa.clamp
func.func @per_axis(%q: tensor<3x2x!quant.fixed_point<i32:f32:1, {1073741824p-38,1610612736p-37}>>) -> tensor<3x2x!quant.fixed_point<i8<-127:127>:f32, 1073741824p-32:-5>> {
  %e = quant.dcast %q : tensor<3x2x!quant.fixed_point<i32:f32:1, {1073741824p-38,1610612736p-37}>> to tensor<3x2xf32>
  %r = quant.qcast %e : tensor<3x2xf32> to tensor<3x2x!quant.fixed_point<i8<-127:127>:f32, 1073741824p-32:-5>>
  return %r : tensor<3x2x!quant.fixed_point<i8<-127:127>:f32, 1073741824p-32:-5>>
}

// Unsigned stored values are signless in TOSA: 200 has the bits of -56.

// CHECK:       func.func @unsigned
// CHECK:         = "tosa.const"() <{values = dense<-56> : tensor<1xi8>}> : () -> tensor<1xi8>
// CHECK:         = tosa.rescale {{.*}} {input_unsigned = true, output_unsigned = false,
func.func @unsigned(%q: tensor<?x!quant.fixed_point<u8:f32, 1073741824p-34:200>>) -> tensor<?x!b> {
  %e = quant.dcast %q : tensor<?x!quant.fixed_point<u8:f32, 1073741824p-34:200>> to tensor<?xf32>
  %r = quant.qcast %e : tensor<?xf32> to tensor<?x!b>
  return %r : tensor<?x!b>
}

// Other casts stay.

// CHECK:       func.func @others
// CHECK-NEXT:    %e = quant.dcast
// CHECK-NEXT:    %r = quant.qcast
// CHECK-NEXT:    %s = quant.qcast
func.func @others(%q: tensor<4x!quant.uniform<i8:f32, 0.5>>, %x: tensor<4xf32>) -> (tensor<4x!b>, tensor<4x!b>) {
  %e = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %r = quant.qcast %e : tensor<4xf32> to tensor<4x!b>
  %s = quant.qcast %x : tensor<4xf32> to tensor<4x!b>
  return %r, %s : tensor<4x!b>, tensor<4x!b>
}
