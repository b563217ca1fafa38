// RUN: MLIR_ROUNDTRIP --match-full-lines
// RUN: MLIR_GENERIC_ROUNDTRIP --match-full-lines

// What this package prints is what MLIR reads, and prints again.

!any = !quant.any<i8<-8:7>:f32>
!narrow = !quant.any<u4<1:9>>
!calibrated = !quant.calibrated<f32<-0.998:1.2321>>
!layer = !quant.uniform<u16<0:1023>:f32, 1.23:512>
!axis = !quant.uniform<i8:f32:1, {0.1, 931.097:5, 1234567.0}>
!channel = !quant.uniform<i8:f16:{0:1, 1:2}, {{0.1:1, 2.0}, {3.0, 4.0:5}}>

func.func @casts(%x: f32, %a: tensor<?x3xf32>, %c: tensor<2x4xf16>, %u: tensor<*xf32>, %i: i16) {
  %0 = quant.qcast %x : f32 to !any
  %1 = quant.dcast %0 : !any to f32
  %2 = quant.qcast %x : f32 to !calibrated
  %3 = quant.qcast %x {quant.nan = "stored-zero"} : f32 to !layer
  %4 = quant.scast %3 : !layer to i16
  %5 = quant.scast %i : i16 to !layer
  %6 = quant.qcast %a : tensor<?x3xf32> to tensor<?x3x!axis>
  %7 = quant.dcast %6 : tensor<?x3x!axis> to tensor<?x3xf32>
  %8 = quant.scast %6 {a = "b"} : tensor<?x3x!axis> to tensor<?x3xi8>
  %9 = quant.qcast %c : tensor<2x4xf16> to tensor<2x4x!channel>
  %10 = quant.qcast %u : tensor<*xf32> to tensor<*x!axis>
  return
}

func.func private @types(!narrow, tensor<4x!layer>, tuple<!any, f32>, tensor<4x!layer, "encoding">)

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @casts(%arg0: f32, %arg1: tensor<?x3xf32>, %arg2: tensor<2x4xf16>, %arg3: tensor<*xf32>, %arg4: i16) {
// CHECK-NEXT:      %0 = quant.qcast %arg0 : f32 to !quant.any<i8<-8:7>:f32>
// CHECK-NEXT:      %1 = quant.dcast %0 : !quant.any<i8<-8:7>:f32> to f32
// CHECK-NEXT:      %2 = quant.qcast %arg0 : f32 to !quant.calibrated<f32<-0.998:1.232100e+00>>
// CHECK-NEXT:      %3 = quant.qcast %arg0 {quant.nan = "stored-zero"} : f32 to !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>
// CHECK-NEXT:      %4 = quant.scast %3 : !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512> to i16
// CHECK-NEXT:      %5 = quant.scast %arg4 : i16 to !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>
// CHECK-NEXT:      %6 = quant.qcast %arg1 : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32:1, {1.000000e-01,931.09699999999998:5,0x4132D68700000000}>>
// CHECK-NEXT:      %7 = quant.dcast %6 : tensor<?x3x!quant.uniform<i8:f32:1, {1.000000e-01,931.09699999999998:5,0x4132D68700000000}>> to tensor<?x3xf32>
// CHECK-NEXT:      %8 = quant.scast %6 {a = "b"} : tensor<?x3x!quant.uniform<i8:f32:1, {1.000000e-01,931.09699999999998:5,0x4132D68700000000}>> to tensor<?x3xi8>
// CHECK-NEXT:      %9 = quant.qcast %arg2 : tensor<2x4xf16> to tensor<2x4x!quant.uniform<i8:f16:{0:1, 1:2}, {{{{}}9.997550e-02:1, 2.000000e+00}, {3.000000e+00, 4.000000e+00:5}}>>
// CHECK-NEXT:      %10 = quant.qcast %arg3 : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:1, {1.000000e-01,931.09699999999998:5,0x4132D68700000000}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func private @types(!quant.any<u4<1:9>>, tensor<4x!quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>>, tuple<!quant.any<i8<-8:7>:f32>, f32>, tensor<4x!quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>, "encoding">) -> ()
// CHECK-NEXT:  }

// -----

// Text of scales that is not the usual one.

func.func private @scales(
  !quant.uniform<i8:f32:0, {0.1, 0.998, 931.097, 5.9604644775390625e-08, 123456789.0}>,
  !quant.uniform<i8:f64, 5.0e-324>,
  !quant.uniform<i8:bf16:{}, {0.1}>,
  !quant.uniform<i8:f8E4M3FN:{}, {0.1}>,
  !quant.uniform<i8:f32:{}, {0.99872}>)

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @scales(!quant.uniform<i8:f32:0, {1.000000e-01,0.998,931.09699999999998,5.9604644775390625E-8,0x419D6F3454000000}>, !quant.uniform<i8:f64, 4.940660e-324>, !quant.uniform<i8:bf16:{}, {1.000980e-01}>, !quant.uniform<i8:f8E4M3FN:{}, {1.015630e-01}>, !quant.uniform<i8:f32:{}, {0.99871999}>) -> ()
// CHECK-NEXT:  }
