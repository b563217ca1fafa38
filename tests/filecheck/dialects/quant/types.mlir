// RUN: XDSL_ROUNDTRIP --match-full-lines
// RUN: XDSL_GENERIC_ROUNDTRIP

// Any type: with and without range and expressed type.

// CHECK-LABEL:  func.func private @any(!quant.any<i8<-8:7>:f32>, !quant.any<i8<-8:7>>, !quant.any<i8>, !quant.any<i8:f32>, !quant.any<u8:f64>) -> ()
func.func private @any(
  !quant.any<i8<-8:7>:f32>,
  !quant.any<i8<-8:7>>,
  !quant.any<i8>,
  !quant.any<i8:f32>,
  !quant.any<u8:f64>)

// Any range that is all there is in the storage type is elided.

// CHECK-LABEL:  func.func private @elided_range(!quant.any<i8>, !quant.any<u8>, !quant.any<i1>, !quant.any<u1>, !quant.any<i4>, !quant.any<u4>, !quant.any<i16>, !quant.any<u16>, !quant.any<i32>, !quant.any<u32>) -> ()
func.func private @elided_range(
  !quant.any<i8<-128:127>>,
  !quant.any<u8<0:255>>,
  !quant.any<i1<-1:0>>,
  !quant.any<u1<0:1>>,
  !quant.any<i4<-8:7>>,
  !quant.any<u4<0:15>>,
  !quant.any<i16<-32768:32767>>,
  !quant.any<u16<0:65535>>,
  !quant.any<i32<-2147483648:2147483647>>,
  !quant.any<u32<0:4294967295>>)

// CHECK-LABEL:  func.func private @kept_range(!quant.any<i8<-127:127>>, !quant.any<i8<-128:126>>, !quant.any<u8<1:255>>, !quant.any<u8<0:254>>, !quant.any<u8<0:127>>, !quant.any<i8<-16:31>>) -> ()
func.func private @kept_range(
  !quant.any<i8<-127:127>>,
  !quant.any<i8<-128:126>>,
  !quant.any<u8<1:255>>,
  !quant.any<u8<0:254>>,
  !quant.any<u8<0:127>>,
  !quant.any<i8<-0x10:0x1F>>)

// Widths are numbers: leading zeros do not count.

// CHECK-LABEL:  func.func private @widths(!quant.any<i3>, !quant.any<u8>, !quant.any<u31>, !quant.any<i8>) -> ()
func.func private @widths(!quant.any<i3>, !quant.any<u08>, !quant.any<u31>, !quant.any<i08>)

// `si8` and `ui8` are other types than `i8` and `u8`, and printed as they are spelled.

// CHECK-LABEL:  func.func private @signedness(!quant.any<si8>, !quant.any<ui8>, !quant.uniform<si8<-8:7>:f32, 2.000000e+00>, !quant.uniform<ui4:f32, 2.000000e+00:3>) -> ()
func.func private @signedness(
  !quant.any<si8<-128:127>>,
  !quant.any<ui8<0:255>>,
  !quant.uniform<si8<-8:7>:f32, 2.0>,
  !quant.uniform<ui4:f32, 2.0:3>)

// CHECK-LABEL:  func.func private @per_layer(!quant.uniform<i8:f32, 3.000000e+00>, !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>, !quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>, !quant.uniform<i8:f32, 5.000000e-01>, !quant.uniform<u8:f32, 5.000000e-01:-3>, !quant.uniform<i8:f32, 5.000000e-01:300>, !quant.uniform<i8:f32, 5.000000e-01:-9223372036854775808>) -> ()
func.func private @per_layer(
  !quant.uniform<i8:f32, 3.0>,
  !quant.uniform<u16<0:1023>:f32, 1.23:512>,
  !quant.uniform<i8<-8:7>:f32, 2.0:10>,
  !quant.uniform<i8:f32, 0.5:0>,
  !quant.uniform<u8:f32, 0.5:-3>,
  !quant.uniform<i8:f32, 0.5:300>,
  !quant.uniform<i8:f32, 0.5:-0x8000000000000000>)

// Per-axis lists have no space after commas. Nested lists are flattened.

// CHECK-LABEL:  func.func private @per_axis(!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00:5}>, !quant.uniform<u8<1:9>:f32:0, {2.000000e+00:10,3.000000e+00:20}>, !quant.uniform<i8:f32:2147483647, {2.000000e+00}>, !quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00:-1,3.000000e+00,4.000000e+00}>) -> ()
func.func private @per_axis(
  !quant.uniform<i8:f32:1, {2.0, 3.0:5}>,
  !quant.uniform<u8<1:9>:f32:0, {2.0:10,3.0:20}>,
  !quant.uniform<i8:f32:2147483647, {2.0}>,
  !quant.uniform<i8:f32:0, {{1.0, 2.0:-1}, {3.0:0, 4.0}}>)

// Sub-channel lists have a space after commas. Blocks keep their order, even if an axis
// occurs twice, and there may be none.

// CHECK-LABEL:  func.func private @sub_channel(!quant.uniform<i8:f32:{0:1, 1:2}, {{{{}}1.000000e+00:1, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>, !quant.uniform<i8:f32:{1:2, 0:1}, {{{{}}1.000000e+00}}>, !quant.uniform<i8:f32:{0:1, 0:2}, {1.000000e+00}>, !quant.uniform<u8<1:9>:f32:{}, {{{{}}{1.000000e+00:7}}}>, !quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>) -> ()
func.func private @sub_channel(
  !quant.uniform<i8:f32:{0:1, 1:2}, {{1.0:1,2.0},{3.0,4.0:0}}>,
  !quant.uniform<i8:f32:{1:2, 0:1}, {{1.0}}>,
  !quant.uniform<i8:f32:{0:1, 0:2}, {1.0}>,
  !quant.uniform<u8<1:9>:f32:{}, {{{1.0:7}}}>,
  !quant.uniform<i8:f32:{1:2, 3:2}, {{{{1.0:1, 2.0:2}}, {{3.0:3, 4.0:4}}}}>)

// CHECK-LABEL:  func.func private @calibrated(!quant.calibrated<f32<-0.998:1.232100e+00>>, !quant.calibrated<f64<-1.000000e+00:0.000000e+00>>, !quant.calibrated<f16<-0.000000e+00:1.000000e+00>>) -> ()
func.func private @calibrated(
  !quant.calibrated<f32<-0.998:1.2321>>,
  !quant.calibrated<f64<-1.0:0.0>>,
  !quant.calibrated<f16<-0.0:0x3FF0000000000000>>)

// Space does not matter, nor do comments. Literals: digits before the point, a fraction
// that may be empty, an exponent of either case.

// CHECK-LABEL:  func.func private @space(!quant.any<i8<-8:7>:f32>, !quant.uniform<i8<-8:7>:f32, 1.000000e+00:2>, !quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00:-3}>, !quant.uniform<i8:f32:{0:1}, {{{{}}1.000000e+00}, {2.000000e+00:3}}>) -> ()
func.func private @space(
  !quant.any< i8 < - 8 : 7 > : f32 >,
  !quant.uniform<i8<-8:7>
    : f32, // The scale is next.
    1.0:2>,
  !quant.uniform<i8:f32:1,{1.0,2.0 : - 3}>,
  !quant.uniform<i8 : f32 : { 0 : 1 } , { { 1.0 } , { 2.0 : 3 } } >)

// CHECK-LABEL:  func.func private @literals(!quant.uniform<i8:f32:0, {1.000000e+00,1.000000e+03,1.000000e+03,1.000000e-03,7.000000e+00,1.000000e+00,2.000000e-01}>) -> ()
func.func private @literals(
  !quant.uniform<i8:f32:0, {1., 1.0e3, 1.0E+3, 1.e-3, 007.0, 0x3FF0000000000000, 0x3FC999999999999a}>)

// Text of scales. Per-layer and per-axis scales are doubles whatever the expressed type;
// what six digits do not tell is printed with seventeen, and what has no point then in
// hexadecimal.

// CHECK-LABEL:  func.func private @doubles(!quant.uniform<i8:f32:0, {1.000000e-01,0.998,931.09699999999998,0.33333333333333331,5.9604644775390625E-8,0x4132D68700000000,0x419D6F3454000000,1.000000e+10,1.4012984643248171E-45,3.4028234663852886E+38}>, !quant.uniform<i8:f16, 1.000000e-01>, !quant.uniform<i8:bf16:0, {1.000000e-01}>, !quant.uniform<i8:f64, 4.940660e-324>) -> ()
func.func private @doubles(
  !quant.uniform<i8:f32:0, {0.1, 0.998, 931.097, 0.33333333333333331, 5.9604644775390625e-08,
                            1234567.0, 123456789.0, 10000000000.0, 1.4012984643248171e-45,
                            3.4028234663852886e+38}>,
  !quant.uniform<i8:f16, 0.1>,
  !quant.uniform<i8:bf16:0, {0.1}>,
  !quant.uniform<i8:f64, 5.0e-324>)

// Sub-channel scales are numbers of the expressed type. The bits are those of a double
// here: MLIR prints the bits of the f32 number, 0x4CEB79A3, which it does not read again.
// Both are read.

// CHECK-LABEL:  func.func private @rounded(!quant.uniform<i8:f16:{}, {9.997550e-02}>, !quant.uniform<i8:bf16:{}, {1.000980e-01}>, !quant.uniform<i8:f8E4M3FN:{}, {1.015630e-01}>, !quant.uniform<i8:f32:{}, {0.99871999}>, !quant.uniform<i8:f32:{}, {1.000000e-01}>, !quant.uniform<i8:f64:{}, {9.987200e-01}>, !quant.uniform<i8:f32:{}, {0x419D6F3460000000, 0x419D6F3460000000}>) -> ()
func.func private @rounded(
  !quant.uniform<i8:f16:{}, {0.1}>,
  !quant.uniform<i8:bf16:{}, {0.1}>,
  !quant.uniform<i8:f8E4M3FN:{}, {0.1}>,
  !quant.uniform<i8:f32:{}, {0.99872}>,
  !quant.uniform<i8:f32:{}, {0.1}>,
  !quant.uniform<i8:f64:{}, {0.99872}>,
  !quant.uniform<i8:f32:{}, {123456789.0, 0x4CEB79A3}>)

// The negative zero points that MLIR prints for large unsigned ones.

// CHECK-LABEL:  func.func private @unsigned_zero_points(!quant.uniform<u8:f32:{}, {1.000000e+00:200, 1.000000e+00:200, 1.000000e+00:-200}>, !quant.uniform<u8:f32:0, {1.000000e+00:200,1.000000e+00:-56}>) -> ()
func.func private @unsigned_zero_points(
  !quant.uniform<u8:f32:{}, {1.0:200, 1.0:-56, 1.0:-200}>,
  !quant.uniform<u8:f32:0, {1.0:200, 1.0:-56}>)

// Every float type of MLIR is an expressed type.

// CHECK-LABEL:  func.func private @expressed_types(!quant.any<i8:f16>, !quant.any<i8:bf16>, !quant.any<i8:tf32>, !quant.any<i8:f32>, !quant.any<i8:f64>, !quant.any<i8:f80>, !quant.any<i8:f128>, !quant.any<i8:f8E5M2>, !quant.any<i8:f8E4M3>, !quant.any<i8:f8E4M3FN>, !quant.any<i8:f8E5M2FNUZ>, !quant.any<i8:f8E4M3FNUZ>, !quant.any<i8:f8E4M3B11FNUZ>, !quant.any<i8:f8E3M4>, !quant.any<i8:f8E8M0FNU>, !quant.any<i8:f6E2M3FN>, !quant.any<i8:f6E3M2FN>, !quant.any<i8:f4E2M1FN>) -> ()
func.func private @expressed_types(
  !quant.any<i8:f16>, !quant.any<i8:bf16>, !quant.any<i8:tf32>, !quant.any<i8:f32>,
  !quant.any<i8:f64>, !quant.any<i8:f80>, !quant.any<i8:f128>, !quant.any<i8:f8E5M2>,
  !quant.any<i8:f8E4M3>, !quant.any<i8:f8E4M3FN>, !quant.any<i8:f8E5M2FNUZ>,
  !quant.any<i8:f8E4M3FNUZ>, !quant.any<i8:f8E4M3B11FNUZ>, !quant.any<i8:f8E3M4>,
  !quant.any<i8:f8E8M0FNU>, !quant.any<i8:f6E2M3FN>, !quant.any<i8:f6E3M2FN>,
  !quant.any<i8:f4E2M1FN>)

// The second way to write a dialect's type.

// CHECK-LABEL:  func.func private @angle_brackets(!quant.any<i8:f32>, !quant.uniform<u8:f32, 2.000000e+00:3>, !quant.uniform<i8:f32:{0:1}, {{{{}}1.000000e+00}, {2.000000e+00}}>, !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>, tensor<2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>>) -> ()
func.func private @angle_brackets(
  !quant<any<i8:f32>>,
  !quant<uniform<u8:f32, 2.0:3>>,
  !quant<uniform<i8:f32:{0:1}, {{1.0}, {2.0}}>>,
  !quant<calibrated<f32<-1.0:1.0>>>,
  tensor<2x!quant<uniform<i8:f32:0, {1.0, 2.0}>>>)

// Containers. The rules about axes and blocks are those of the quant ops, not of types.

// CHECK-LABEL:  func.func private @containers(tensor<4x!quant.any<i8>>, tensor<?x3x!quant.uniform<i8:f32:7, {1.000000e+00}>>, tensor<*x!quant.uniform<i8:f32, 1.000000e+00>>, tensor<!quant.uniform<i8:f32, 1.000000e+00>>, tensor<4x!quant.uniform<i8:f32, 1.000000e+00>, "sparse">, tuple<!quant.any<i8>, f32>) -> ()
func.func private @containers(
  tensor<4x!quant.any<i8>>,
  tensor<?x3x!quant.uniform<i8:f32:7, {1.0}>>,
  tensor<*x!quant.uniform<i8:f32, 1.0>>,
  tensor<!quant.uniform<i8:f32, 1.0>>,
  tensor<4x!quant.uniform<i8:f32, 1.0>, "sparse">,
  tuple<!quant.any<i8>, f32>)

// CHECK-LABEL:  func.func private @attribute() -> () attributes {a = !quant.uniform<i8:f32, 1.000000e+00>, b = [tensor<2x!quant.any<i4>>]}
func.func private @attribute()
  attributes {a = !quant.uniform<i8:f32, 1.0>, b = [tensor<2x!quant.any<i4>>]}

// Aliases, of the type itself and of the types within it, are not printed.

!storage = i8
!expressed = f32
!alias = !quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{1.0:1, 2.0:2}}}>
!unsigned = ui4

// CHECK-LABEL:  func.func private @aliases(!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{1.000000e+00:1, 2.000000e+00:2}}}>, tensor<?x!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{1.000000e+00:1, 2.000000e+00:2}}}>>, !quant.any<i8:f32>, !quant.uniform<ui4:f32, 1.000000e+00>) -> ()
func.func private @aliases(
  !alias,
  tensor<?x!alias>,
  !quant.any<!storage:!expressed>,
  !quant.uniform<!unsigned:!expressed, 1.0>)

// CHECK-GENERIC:      "func.func"() <{sym_name = "any", function_type = (!quant.any<i8<-8:7>:f32>, !quant.any<i8<-8:7>>, !quant.any<i8>, !quant.any<i8:f32>, !quant.any<u8:f64>) -> (), sym_visibility = "private"}> ({
// CHECK-GENERIC:      "func.func"() <{sym_name = "aliases", function_type = (!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{1.000000e+00:1, 2.000000e+00:2}}}>, tensor<?x!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{1.000000e+00:1, 2.000000e+00:2}}}>>, !quant.any<i8:f32>, !quant.uniform<ui4:f32, 1.000000e+00>) -> (), sym_visibility = "private"}> ({
