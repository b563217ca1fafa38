// RUN: xdsl-opt %s -p tosa-strip-quant-types --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'tosa.mul' op depends on scales: '!quant.uniform<i8:f32, 5.000000e-01>', '!quant.uniform<i8:f32, 5.000000e-01>', '!quant.uniform<i8:f32, 5.000000e-01>'; use 'tosa.rescale' and an op on plain integers instead
func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>, %s: tensor<1xi8>) {
  %0 = tosa.mul %x, %x, %s : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<1xi8>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// CHECK:       'quant.dcast' op depends on scales: '!quant.uniform<i8:f32, 5.000000e-01>'; run 'lower-quant-ops' first
func.func @f(%x: !quant.uniform<i8:f32, 0.5>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32, 0.5> to f32
  return
}

// -----

// CHECK:       'tosa.add' op cannot be computed from stored values: '!quant.uniform<i8:f32, 5.000000e-01>' may overflow; expected 32-bit storage
func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %0 = tosa.add %x, %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// CHECK:       'tosa.add' op cannot be computed from stored values: expected zero point 0, got '!quant.uniform<i32:f32, 5.000000e-01:3>'
func.func @f(%x: tensor<4x!quant.uniform<i32:f32, 0.5:3>>) {
  %0 = tosa.add %x, %x : (tensor<4x!quant.uniform<i32:f32, 0.5:3>>, tensor<4x!quant.uniform<i32:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i32:f32, 0.5:3>>
  return
}

// -----

// CHECK:       'tosa.negate' op cannot be computed from stored values: zero point 0 is not that of '!quant.uniform<i8:f32, 5.000000e-01:3>'
func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.negate %x, %z, %z : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<1xi8>, tensor<1xi8>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  return
}

// -----

// CHECK:       'tosa.clamp' op cannot be computed from stored values: '!quant.uniform<u8:f32, 5.000000e-01>' has unsigned storage
func.func @f(%x: tensor<4x!quant.uniform<u8:f32, 0.5>>) {
  %0 = tosa.clamp %x {max_val = 200 : ui8, min_val = 0 : ui8} : (tensor<4x!quant.uniform<u8:f32, 0.5>>) -> tensor<4x!quant.uniform<u8:f32, 0.5>>
  return
}

// -----

// CHECK:       'tosa.rescale' op cannot be computed from stored values: the op reads '!quant.uniform<u8:f32, 5.000000e-01>' as signed values
func.func @f(%x: tensor<4x!quant.uniform<u8:f32, 0.5>>, %m: tensor<1xi32>, %s: tensor<1xi8>) {
  %0 = tosa.rescale %x, %m, %s, %s, %m {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<4x!quant.uniform<u8:f32, 0.5>>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<4xi32>
  return
}

// -----

// CHECK:       'tosa.concat' op cannot be computed from stored values: operands and results have different types '!quant.uniform<i8:f32, 5.000000e-01>' and '!quant.uniform<i8:f32, 2.500000e-01>'
func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>, %y: tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  %0 = tosa.concat %x, %y {axis = 0 : i32} : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<8x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// CHECK:       'tosa.reduce_max' op cannot be computed from stored values: '!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>' has several scales
func.func @f(%x: tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>) {
  %0 = tosa.reduce_max %x {axis = 0 : i32} : (tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>) -> tensor<1x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>
  return
}

// -----

// CHECK:       'func.func' op cannot be stripped: '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no storage type; convert it to '!quant.uniform' first
func.func private @f(tensor<2x!quant.calibrated<f32<-1.0:1.0>>>)
