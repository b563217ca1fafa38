// RUN: xdsl-opt %s --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s --split-input-file --print-op-generic | xdsl-opt --split-input-file | filecheck %s --match-full-lines

// Storage types that are no integers: text and verifier results are those of MLIR 24.

// CHECK:       func.func private @floats(!quant.any<f8E5M2>, !quant.any<f8E4M3FN:f32>, !quant.any<f4E2M1FN:bf16>) -> ()
func.func private @floats(
  !quant.any<f8E5M2<-57344:57344>>, !quant.any<f8E4M3FN<-448:448>:f32>, !quant.any<f4E2M1FN<-6:6>:bf16>)

// CHECK-NEXT:  func.func private @float_ranges(!quant.any<f8E5M2<0:57344>>, !quant.any<f8E4M3FN<-447:448>:f32>, !quant.any<f4E2M1FN<-6:4>>) -> ()
func.func private @float_ranges(
  !quant.any<f8E5M2<0:57344>>, !quant.any<f8E4M3FN<-447:448>:f32>, !quant.any<f4E2M1FN<-6:4>>)

// CHECK-NEXT:  func.func private @float_scales(!quant.uniform<f8E4M3FN:f32, 5.000000e-01:-3>, tensor<?x2x!quant.uniform<f4E2M1FN<-4:4>:f16:1, {5.000000e-01,1.000000e+00:300}>>, tensor<2x4x!quant.uniform<f8E5M2:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01:3, 1.000000e+00}, {1.000000e+00, 2.000000e+00}}>>) -> ()
func.func private @float_scales(
  !quant.uniform<f8E4M3FN:f32, 0.5:-3>,
  tensor<?x2x!quant.uniform<f4E2M1FN<-4:4>:f16:1, {0.5, 1.0:300}>>,
  tensor<2x4x!quant.uniform<f8E5M2:f32:{0:1, 1:2}, {{0.5:3, 1.0}, {1.0, 2.0}}>>)

// CHECK-NEXT:  func.func private @quantiles(!quant.quantile<i1:f16, {-1.000000e+00,0.33333333333333331}>, !quant.quantile<si2:i8, {-8.000000e+00,-0.000000e+00,1.000000e+00,7.000000e+00}>, !quant.quantile<ui4:f32, {0.000000e+00,1.000000e+00,3.000000e+00}, <0:2>>, !quant.quantile<i2:bf16, {0.000000e+00,1.000000e+00}, <-5:-4>>, !quant.quantile<f4E2M1FN:f16, {1.000000e+00,2.000000e+00}, <-1:0>>) -> ()
func.func private @quantiles(
  !quant.quantile<i1:f16, {-1.0, 0x3FD5555555555555}>,
  !quant<quantile<si2:i8, {-8.0, -0.0, 1., 7.0}>>,
  !quant.quantile<ui4:f32, {0.0,1.0,3.0}, <0x0:2>>,
  !quant.quantile<i2:bf16, {0.0,1.0}, <-5:-4>>,
  !quant.quantile<f4E2M1FN:f16, {1.0,2.0}, <-1:0>>)

// An explicit range is printed, also if it is that of all bits.

// CHECK-NEXT:  func.func private @whole_range(!quant.quantile<ui1:f16, {0.000000e+00,1.000000e+00}, <0:1>>) -> ()
func.func private @whole_range(!quant.quantile<ui1:f16, {0.0,1.0}, <0:1>>)

!table = !quant.quantile<ui4:f16, {0.0,0.1,0.3333333333333333}, <0:2>>

// CHECK-NEXT:  func.func private @quantile_storage(!quant.any<!quant.quantile<i1:f16, {0.000000e+00,1.000000e+00}>>, !quant.uniform<!quant.quantile<ui4:f16, {0.000000e+00,1.000000e-01,0.33333333333333331}, <0:2>>:f32, 5.000000e-01:3>, !quant.uniform<!quant.quantile<ui4:f16, {0.000000e+00,1.000000e-01,0.33333333333333331}, <0:2>><0:1>:f32:0, {5.000000e-01,1.000000e+00}>, tensor<2x!quant.uniform<!quant.quantile<ui4:f16, {0.000000e+00,1.000000e-01,0.33333333333333331}, <0:2>>:f32:{0:1}, {5.000000e-01:-2, 1.000000e+00}>>) -> ()
func.func private @quantile_storage(
  !quant.any<!quant.quantile<i1:f16, {0.0,1.0}>>,
  !quant.uniform<!table:f32, 0.5:3>,
  !quant.uniform<!table<0:1>:f32:0, {0.5, 1.0}>,
  tensor<2x!quant.uniform<!table:f32:{0:1}, {0.5:-2, 1.0}>>)

// Stored values of float types are floats, and those of quantile types are integers.

// CHECK-NEXT:  func.func @scasts(%x: tensor<4xf8E4M3FN>, %i: tensor<*xi4>) -> f4E2M1FN {
func.func @scasts(%x: tensor<4xf8E4M3FN>, %i: tensor<*xi4>) -> f4E2M1FN {
  // CHECK-NEXT:  %{{.*}} = quant.scast %x : tensor<4xf8E4M3FN> to tensor<4x!quant.any<f8E4M3FN>>
  %0 = quant.scast %x : tensor<4xf8E4M3FN> to tensor<4x!quant.any<f8E4M3FN>>
  // CHECK-NEXT:  %{{.*}} = quant.scast %i : tensor<*xi4> to tensor<*x!quant.any<!quant.quantile<ui4:f16, {0.000000e+00,1.000000e-01,0.33333333333333331}, <0:2>>>>
  %1 = quant.scast %i : tensor<*xi4> to tensor<*x!quant.any<!table>>
  %2 = "test.op"() : () -> !quant.uniform<f4E2M1FN:f32, 1.0>
  // CHECK:       %{{.*}} = quant.scast %{{.*}} : !quant.uniform<f4E2M1FN:f32, 1.000000e+00> to f4E2M1FN
  %3 = quant.scast %2 : !quant.uniform<f4E2M1FN:f32, 1.0> to f4E2M1FN
  return %3 : f4E2M1FN
}
