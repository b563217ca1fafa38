// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// The number after the line is the column.

// The body.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       expected '<'
func.func private @f(
  !quant.uniform)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:13
// CHECK:       'quant.foo' is not registered
func.func private @f(
  !quant<foo<i8>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:13
// CHECK:       'quant.foo' is not registered
func.func private @f(
  !quant.foo<i8:f32>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:13
// CHECK:       expected '<'
func.func private @f(
  !quant.any)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       expected valid keyword
func.func private @f(
  !quant.any<>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:13
// CHECK:       unbalanced '<' character in pretty dialect name
func.func private @f(
  !quant.any<i8)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       unbalanced '<' character in pretty dialect name
func.func private @f(
  !quant.uniform<i8:f32, 1.0)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       unbalanced '{' character in pretty dialect name
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0>)

// -----

// The storage type.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<x8>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<int8>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<U8>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       expected storage type width
func.func private @f(
  !quant.any<u>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       expected storage type width
func.func private @f(
  !quant.any<u8x>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<i>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       expected valid keyword
func.func private @f(
  !quant.any<8>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       expected valid keyword
func.func private @f(
  !quant.any<"i8">)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type size: 0
func.func private @f(
  !quant.any<i0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type size: 33
func.func private @f(
  !quant.any<i33>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type size: 33
func.func private @f(
  !quant.any<u33>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type size: 0
func.func private @f(
  !quant.any<u0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type size: 33
func.func private @f(
  !quant.any<si33>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       integer bitwidth is limited to 16777215 bits
func.func private @f(
  !quant.any<i16777216>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       expected storage type width
func.func private @f(
  !quant.any<u99999999999>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       invalid integer width
func.func private @f(
  !quant.any<i99999999999>)

// -----

// Storage types that are neither integers nor floats of 8 or 4 bits. MLIR 22 reports a
// random size.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<f32>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<index>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:18
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.uniform<f8E4M3:f32, 1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<tensor<4xi8>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:14
// CHECK:       illegal storage type prefix
func.func private @f(
  !quant.any<!quant.any<i8>>)

// -----

// The storage range.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       illegal storage type minimum: -9
func.func private @f(
  !quant.any<i4<-9:1>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:19
// CHECK:       illegal storage type maximum: 8
func.func private @f(
  !quant.any<i4<0:8>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       illegal storage type minimum: -9
func.func private @f(
  !quant.any<i4<-9:8>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       illegal storage type minimum: -1
func.func private @f(
  !quant.any<u4<-1:1>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:19
// CHECK:       illegal storage type maximum: 256
func.func private @f(
  !quant.any<u8<0:256>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal storage min and storage max: (2:1)
func.func private @f(
  !quant.any<i8<2:1>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal storage min and storage max: (1:1)
func.func private @f(
  !quant.any<i8<1:1>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:18
// CHECK:       expected ':'
func.func private @f(
  !quant.any<i8<1>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:19
// CHECK:       expected integer value
func.func private @f(
  !quant.any<i8<1:>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       expected integer value
func.func private @f(
  !quant.any<i8<:1>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:18
// CHECK:       expected integer value
func.func private @f(
  !quant.any<i8<-:1>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       expected integer value
func.func private @f(
  !quant.any<i8<1.0:2>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:13
// CHECK:       unbalanced '<' character in pretty dialect name
func.func private @f(
  !quant.any<i8<1:2:f32>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:20
// CHECK:       integer value too large
func.func private @f(
  !quant.any<i32<0:9223372036854775808>>)

// -----

// The expressed type.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       invalid kind of type specified
func.func private @f(
  !quant.any<i8:i32>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       invalid kind of type specified
func.func private @f(
  !quant.any<i8:index>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       expected non-function type
func.func private @f(
  !quant.any<i8:>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       expected non-function type
func.func private @f(
  !quant.any<i8:f33>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:17
// CHECK:       invalid kind of type specified
func.func private @f(
  !quant.any<i8:complex<f32>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:21
// CHECK:       invalid kind of type specified
func.func private @f(
  !quant.uniform<i8:tensor<2xf32>, 1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:20
// CHECK:       expected ':'
func.func private @f(
  !quant.uniform<i8, 1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:29
// CHECK:       undefined symbol alias id 'nothing'
func.func private @f(
  !quant.uniform<i8:!nothing, 1.0>)

// -----

// Scales.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:24
// CHECK:       expected ','
func.func private @f(
  !quant.uniform<i8:f32>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:25
// CHECK:       expected floating point literal
func.func private @f(
  !quant.uniform<i8:f32,>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       unexpected decimal integer literal for a floating point value; write 1.0
func.func private @f(
  !quant.uniform<i8:f32, 1>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       unexpected decimal integer literal for a floating point value; write 1.0e-3
func.func private @f(
  !quant.uniform<i8:f32, 1e-3>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       Expected three consecutive '.' for an ellipsis
func.func private @f(
  !quant.uniform<i8:f32, .5>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       expected floating point literal
func.func private @f(
  !quant.uniform<i8:f32, +1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       expected floating point literal
func.func private @f(
  !quant.uniform<i8:f32, nan>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       scale -1.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, -1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:29
// CHECK:       scale 0.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, 0.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       scale 1.400000e-45 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, 1.4e-45>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       scale 1.000000e-46 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, 1.0e-46>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:32
// CHECK:       scale 1.000000e+39 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, 1.0e39>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       scale 6.550500e+04 out of expressed type range [5.960464e-08, 6.550400e+04]
func.func private @f(
  !quant.uniform<i8:f16, 65505.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:32
// CHECK:       scale 1.000000e-08 out of expressed type range [5.960464e-08, 6.550400e+04]
func.func private @f(
  !quant.uniform<i8:f16, 1.0e-8>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       scale INF out of expressed type range [4.940656e-324, 1.797693e+308]
func.func private @f(
  !quant.uniform<i8:f64, 1.0e309>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:36
// CHECK:       scale 5.263544e-315 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, 0x3F800000>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:27
// CHECK:       hexadecimal float literal should not have a leading minus
func.func private @f(
  !quant.uniform<i8:f32, -0x3FF0000000000000>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       hexadecimal float constant out of range for type
func.func private @f(
  !quant.uniform<i8:f32, 0x10000000000000000>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:44
// CHECK:       scale INF out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, 0x7FF0000000000000>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:29
// CHECK:       expected '>'
func.func private @f(
  !quant.uniform<i8:f32, 1.0 2>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:34
// CHECK:       scale 7.000000e+00 out of expressed type range [5.000000e-01, 6.000000e+00]
func.func private @f(
  !quant.uniform<i8:f4E2M1FN, 7.0>)

// -----

// A NaN, which MLIR takes for a scale.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:44
// CHECK:       scale nan out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32, 0x7FF8000000000000>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:52
// CHECK:       scale nan out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0, 0x7FF8000000000000}>)

// -----

// Zero points.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       expected integer value
func.func private @f(
  !quant.uniform<i8:f32, 1.0:>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       expected integer value
func.func private @f(
  !quant.uniform<i8:f32, 1.0:x>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       expected integer value
func.func private @f(
  !quant.uniform<i8:f32, 1.0:1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       integer value too large
func.func private @f(
  !quant.uniform<i8:f32, 1.0:9223372036854775808>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       integer value too large
func.func private @f(
  !quant.uniform<i8:f32, 1.0:-9223372036854775809>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       integer value too large
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0:9223372036854775808}>)

// -----

// Lists of scales.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:27
// CHECK:       expected '{'
func.func private @f(
  !quant.uniform<i8:f32:0, 1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:29
// CHECK:       expected floating point literal
func.func private @f(
  !quant.uniform<i8:f32:0, {}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       expected floating point literal
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0,}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:32
// CHECK:       expected '}'
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0 2.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:33
// CHECK:       expected '>'
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0}, {2.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:34
// CHECK:       unexpected decimal integer literal for a floating point value; write 2.0
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0, 2}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:38
// CHECK:       scale -2.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32:0, {1.0, -2.0, 3.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:46
// CHECK:       tensor literal is invalid; ranks are not consistent between elements
func.func private @f(
  !quant.uniform<i8:f32:0, {{1.0, 2.0}, {3.0}}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:44
// CHECK:       tensor literal is invalid; ranks are not consistent between elements
func.func private @f(
  !quant.uniform<i8:f32:0, {{1.0, 2.0}, 3.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:55
// CHECK:       tensor literal is invalid; ranks are not consistent between elements
func.func private @f(
  !quant.uniform<i8:f32:{0:1, 1:1}, {{1.0}, {2.0, 3.0}}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:43
// CHECK:       tensor literal is invalid; ranks are not consistent between elements
func.func private @f(
  !quant.uniform<i8:f32:{0:1}, {1.0, {2.0}}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:36
// CHECK:       scale 0.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]
func.func private @f(
  !quant.uniform<i8:f32:{0:1}, {0.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:31
// CHECK:       expected '{'
func.func private @f(
  !quant.uniform<i8:f32:{0:1}, 1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       expected floating point literal
func.func private @f(
  !quant.uniform<i8:f32:{}, {}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       expected floating point literal
func.func private @f(
  !quant.uniform<i8:f32, {1.0}>)

// -----

// The quantized dimension, and blocks.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal quantized dimension: -1
func.func private @f(
  !quant.uniform<i8:f32:-1, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:25
// CHECK:       integer value too large
func.func private @f(
  !quant.uniform<i8:f32:2147483648, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:25
// CHECK:       expected integer value
func.func private @f(
  !quant.uniform<i8:f32:, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:25
// CHECK:       expected integer value
func.func private @f(
  !quant.uniform<i8:f32:x, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal quantized dimension: -1
func.func private @f(
  !quant.uniform<i8:f32:{-1:2}, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal block size: 0
func.func private @f(
  !quant.uniform<i8:f32:{0:0}, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal block size: -2
func.func private @f(
  !quant.uniform<i8:f32:{0:-2}, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:27
// CHECK:       expected ':'
func.func private @f(
  !quant.uniform<i8:f32:{0}, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:30
// CHECK:       expected integer value
func.func private @f(
  !quant.uniform<i8:f32:{0:1,}, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:29
// CHECK:       expected '}'
func.func private @f(
  !quant.uniform<i8:f32:{0:1 1:2}, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:26
// CHECK:       integer value too large
func.func private @f(
  !quant.uniform<i8:f32:{2147483648:1}, {1.0}>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:28
// CHECK:       integer value too large
func.func private @f(
  !quant.uniform<i8:f32:{0:9223372036854775808}, {1.0}>)

// -----

// Calibrated types.

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal min and max: (1.000000e+00:-1.000000e+00)
func.func private @f(
  !quant.calibrated<f32<1.0:-1.0>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal min and max: (1.000000e+00:1.000000e+00)
func.func private @f(
  !quant.calibrated<f32<1.0:1.0>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:21
// CHECK:       invalid kind of type specified
func.func private @f(
  !quant.calibrated<i8<-1.0:1.0>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:24
// CHECK:       expected '<'
func.func private @f(
  !quant.calibrated<f32>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:29
// CHECK:       expected ':'
func.func private @f(
  !quant.calibrated<f32<-1.0>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:20
// CHECK:       unbalanced '<' character in pretty dialect name
func.func private @f(
  !quant.calibrated<f32<-1.0:1.0>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:25
// CHECK:       unexpected decimal integer literal for a floating point value; write 1.0
func.func private @f(
  !quant.calibrated<f32<1:2>>)

// -----

// CHECK:       {{.*}}.mlir:{{[0-9]+}}:10
// CHECK:       illegal min and max: (nan:1.000000e+00)
func.func private @f(
  !quant.calibrated<f32<0x7FF8000000000000:1.0>>)
