// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// The number after the line is the column.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       multiplier 3 is out of the range 1073741824 to 2147483647; write '3p-4' as '1610612736p-33'
func.func private @f(
  !quant.fixed_point<i8:f32, 3p-4>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       shift 63 is out of the range 2 to 62
func.func private @f(
  !quant.fixed_point<i8:f32, 1073741824p-63>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       zero point 128 is not representable in 'i8'; expected -128 to 127
func.func private @f(
  !quant.fixed_point<i8:f32:0, {1073741824p-30:128}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       scale 1.048576e+06 out of expressed type range [5.960464e-08, 6.550400e+04]
func.func private @f(
  !quant.fixed_point<i8:f16, 1073741824p-10>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       expected an integer times a power of two, e.g. '1610612736p-38', but got '0.5'
func.func private @f(
  !quant.fixed_point<i8:f32, 0.5>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:40
// CHECK:       expected 'p-' and a shift after the multiplier, e.g. '1610612736p-38'
func.func private @f(
  !quant.fixed_point<i8:f32, 1073741824:3>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       expected integer value
func.func private @f(
  !quant.fixed_point<i8:f32:0, {}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:21
// CHECK:       unbalanced '{' character in pretty dialect name
func.func private @f(
  !quant.fixed_point<i8:f32:0, {1073741824p-30>)

// -----

// CHECK:       quantized dimension size does not match number of scales
func.func @f(%x: tensor<3xf32>) {
  %0 = quant.qcast %x : tensor<3xf32> to tensor<3x!quant.fixed_point<i8:f32:0, {1073741824p-30,1073741824p-30}>>
  return
}

// -----

// CHECK:       scalar types may not use per-axis quantization
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to !quant.fixed_point<i8:f32:0, {1073741824p-30}>
  return
}

// -----

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: f16) {
  %0 = quant.qcast %x : f16 to !quant.fixed_point<i8:f32, 1073741824p-30>
  return
}
