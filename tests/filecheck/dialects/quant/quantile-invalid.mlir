// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// The place and the message of each mistake are those of MLIR 24.

// CHECK:       .mlir:{{[0-9]+}}:23
// CHECK:       illegal storage type minimum: -449
func.func private @f(
  !quant.any<f8E4M3FN<-449:448>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:26
// CHECK:       illegal storage type maximum: 7
func.func private @f(
  !quant.any<f4E2M1FN<-6:7>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       illegal storage min and storage max: (5:5)
func.func private @f(
  !quant.any<f4E2M1FN<5:5>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:24
// CHECK:       expected integer value
func.func private @f(
  !quant.any<f4E2M1FN<-6.0:5.0>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<!quant.any<i8>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type size: 33
func.func private @f(
  !quant.any<!quant.quantile<i33:f16, {0.0,1.0}, <0:1>>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:51
// CHECK:       illegal storage type maximum: 2
func.func private @f(
  !quant.any<!quant.quantile<i1:f16, {0.0,1.0}><0:2>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:17
// CHECK:       invalid kind of type specified
func.func private @f(
  !quant.any<i8:!quant.quantile<i1:f16, {0.0,1.0}>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       storage type must be an integer or float type
func.func private @f(
  !quant.quantile<index:f16, {0.0,1.0}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       quantile type must be a float or integer type
func.func private @f(
  !quant.quantile<i1:index, {0.0,1.0}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:19
// CHECK:       expected non-function type
func.func private @f(
  !quant.quantile<u1:f16, {0.0,1.0}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       quantile values must not be empty
func.func private @f(
  !quant.quantile<i1:f16, {}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       quantile LUT size (3) must equal the number of representable storage values (2)
func.func private @f(
  !quant.quantile<i1:f16, {0.0,1.0,2.0}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       quantile LUT size (1) must equal the number of representable storage values (18446744073709551616)
func.func private @f(
  !quant.quantile<i64:f16, {0.0}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       storage min must be less than storage max
func.func private @f(
  !quant.quantile<i1:f16, {0.0}, <1:1>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       quantile values must be finite (no NaN or infinity)
func.func private @f(
  !quant.quantile<i1:f16, {0.0,1.0e400}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:28
// CHECK:       unexpected decimal integer literal for a floating point value; write 8.0
func.func private @f(
  !quant.quantile<i1:i8, {-8,1.0}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:31
// CHECK:       expected '}'
func.func private @f(
  !quant.quantile<i1:f16, {0.0:1,1.0}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:28
// CHECK:       expected floating point literal
func.func private @f(
  !quant.quantile<i1:f16, {{0.0,1.0}}>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:36
// CHECK:       expected '>'
func.func private @f(
  !quant.quantile<i1:f16, {0.0,1.0} <0:1>>)

// -----

// CHECK:       .mlir:{{[0-9]+}}:18
// CHECK:       unbalanced '<' character in pretty dialect name
func.func private @f(
  !quant.quantile<i1:f16, {0.0,1.0})

// -----

// CHECK:       .mlir:{{[0-9]+}}:10
// CHECK:       storage type of fixed-point scales must be an integer type, but got 'f8E4M3FN'
func.func private @f(
  !quant.fixed_point<f8E4M3FN:f32, 1073741824p-31>)

// -----

// CHECK:       storage type 'f8E4M3FN' in quantized type expected to match float type, but got 'i8'
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to !quant.any<f8E4M3FN>
  return
}

// -----

// CHECK:       storage type 'f8E4M3FN' in quantized type expected to match float type, but got 'f8E4M3'
func.func @f(%x: f8E4M3) {
  %0 = quant.scast %x : f8E4M3 to !quant.any<f8E4M3FN>
  return
}

// -----

// CHECK:       storage type 'f8E4M3FN' in quantized type expected to match float type, but got 'f8E5M2'
func.func @f(%x: tensor<4x8x!quant.uniform<f8E4M3FN:f32, 0.5>>) {
  %0 = quant.scast %x : tensor<4x8x!quant.uniform<f8E4M3FN:f32, 0.5>> to tensor<4x8xf8E5M2>
  return
}

// -----

// CHECK:       'quant.scast' op operand #0 must be scalar or tensor of signless integer or quantized type, but got 'f8E5M2'
func.func @f(%x: f8E5M2) {
  %0 = quant.scast %x : f8E5M2 to !quant.any<i8>
  return
}
