// RUN: xdsl-opt %s -p quant-calibrated-to-uniform --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'quant-calibrated-to-uniform{bits=4 signed=false symmetric=true per-axis=never}' --split-input-file | filecheck %s --check-prefix=U4 --match-full-lines
// RUN: xdsl-opt %s -p 'quant-calibrated-to-uniform{symmetric=true narrow-range=true}' --split-input-file | filecheck %s --check-prefix=NARROW --match-full-lines

// Ranges on both sides of 0, on one side, and without it: those are widened.

!both = !quant.calibrated<f32<-1.0:0.9921875>>
!above = !quant.calibrated<f32<63.75:127.5>>
!below = !quant.calibrated<f32<-127.5:-63.75>>

func.func @pairs(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!both>
  %1 = quant.dcast %0 : tensor<2x!both> to tensor<2xf32>
  %2 = quant.qcast %x : tensor<2xf32> to tensor<2x!above>
  %3 = quant.dcast %2 : tensor<2x!above> to tensor<2xf32>
  %4 = quant.qcast %x : tensor<2xf32> to tensor<2x!below>
  %5 = quant.dcast %4 : tensor<2x!below> to tensor<2xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @pairs(%x: tensor<2xf32>) {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 7.812500e-03>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.uniform<i8:f32, 7.812500e-03>> to tensor<2xf32>
// CHECK-NEXT:      %2 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:-128>>
// CHECK-NEXT:      %3 = quant.dcast %2 : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:-128>> to tensor<2xf32>
// CHECK-NEXT:      %4 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:127>>
// CHECK-NEXT:      %5 = quant.dcast %4 : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:127>> to tensor<2xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// U4:       builtin.module {
// U4-NEXT:    func.func @pairs(%x: tensor<2xf32>) {
// U4-NEXT:      %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u4:f32, 0.14285714285714285:8>>
// U4-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.uniform<u4:f32, 0.14285714285714285:8>> to tensor<2xf32>
// U4-NEXT:      %2 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u4:f32, 18.214285714285715:8>>
// U4-NEXT:      %3 = quant.dcast %2 : tensor<2x!quant.uniform<u4:f32, 18.214285714285715:8>> to tensor<2xf32>
// U4-NEXT:      %4 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u4:f32, 18.214285714285715:8>>
// U4-NEXT:      %5 = quant.dcast %4 : tensor<2x!quant.uniform<u4:f32, 18.214285714285715:8>> to tensor<2xf32>
// U4-NEXT:      func.return
// U4-NEXT:    }
// U4-NEXT:  }

// NARROW:       builtin.module {
// NARROW-NEXT:    func.func @pairs(%x: tensor<2xf32>) {
// NARROW-NEXT:      %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8<-127:127>:f32, 0.0078740157480314959>>
// NARROW-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.uniform<i8<-127:127>:f32, 0.0078740157480314959>> to tensor<2xf32>
// NARROW-NEXT:      %2 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8<-127:127>:f32, 1.0039370078740157>>
// NARROW-NEXT:      %3 = quant.dcast %2 : tensor<2x!quant.uniform<i8<-127:127>:f32, 1.0039370078740157>> to tensor<2xf32>
// NARROW-NEXT:      %4 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8<-127:127>:f32, 1.0039370078740157>>
// NARROW-NEXT:      %5 = quant.dcast %4 : tensor<2x!quant.uniform<i8<-127:127>:f32, 1.0039370078740157>> to tensor<2xf32>
// NARROW-NEXT:      func.return
// NARROW-NEXT:    }
// NARROW-NEXT:  }

// -----

// Ranges for each index, also of zeros, are used if only a dequantization sees the type.

!t = tensor<2x3x!quant.calibrated<f32<-1.0:2.0>>>

func.func @axis(%x: tensor<2x3xf32>) -> !t {
  %0 = quant.qcast %x {quant.axis = 1 : i64, quant.axis_stats = dense<[[-0.25, 1.0], [0.5, 2.0], [0.0, 0.0]]> : tensor<3x2xf64>, other} : tensor<2x3xf32> to !t
  %1 = quant.dcast %0 : !t to tensor<2x3xf32>
  %2 = quant.qcast %x {quant.axis = 1 : i64, quant.axis_stats = dense<[[-0.25, 1.0], [0.5, 2.0], [0.0, 0.0]]> : tensor<3x2xf64>} : tensor<2x3xf32> to !t
  return %2 : !t
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @axis(%x: tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 0.011764705882352941:-43>> {
// CHECK-NEXT:      %0 = quant.qcast %x {other} : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32:1, {0.0049019607843137254:-77,0.0078431372549019607:-128,1.000000e+00:-128}>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x3x!quant.uniform<i8:f32:1, {0.0049019607843137254:-77,0.0078431372549019607:-128,1.000000e+00:-128}>> to tensor<2x3xf32>
// CHECK-NEXT:      %2 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32, 0.011764705882352941:-43>>
// CHECK-NEXT:      func.return %2 : tensor<2x3x!quant.uniform<i8:f32, 0.011764705882352941:-43>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// U4:       builtin.module {
// U4-NEXT:    func.func @axis(%x: tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<u4:f32, 0.2857142857142857:8>> {
// U4-NEXT:      %0 = quant.qcast %x {other} : tensor<2x3xf32> to tensor<2x3x!quant.uniform<u4:f32, 0.2857142857142857:8>>
// U4-NEXT:      %1 = quant.dcast %0 : tensor<2x3x!quant.uniform<u4:f32, 0.2857142857142857:8>> to tensor<2x3xf32>
// U4-NEXT:      %2 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!quant.uniform<u4:f32, 0.2857142857142857:8>>
// U4-NEXT:      func.return %2 : tensor<2x3x!quant.uniform<u4:f32, 0.2857142857142857:8>>
// U4-NEXT:    }
// U4-NEXT:  }

// NARROW:       builtin.module {
// NARROW-NEXT:    func.func @axis(%x: tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8<-127:127>:f32, 0.015748031496062992>> {
// NARROW-NEXT:      %0 = quant.qcast %x {other} : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8<-127:127>:f32:1, {0.0078740157480314959,0.015748031496062992,1.000000e+00}>>
// NARROW-NEXT:      %1 = quant.dcast %0 : tensor<2x3x!quant.uniform<i8<-127:127>:f32:1, {0.0078740157480314959,0.015748031496062992,1.000000e+00}>> to tensor<2x3xf32>
// NARROW-NEXT:      %2 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8<-127:127>:f32, 0.015748031496062992>>
// NARROW-NEXT:      func.return %2 : tensor<2x3x!quant.uniform<i8<-127:127>:f32, 0.015748031496062992>>
// NARROW-NEXT:    }
// NARROW-NEXT:  }

// -----

// Wherever values have calibrated types; other types stay.

!c = !quant.calibrated<f16<-1.0:1.0>>

func.func private @g(!c, tensor<*x!c>) -> tensor<?x!c>

func.func @f(%s: !c, %u: tensor<*x!c>, %a: !quant.any<i8:f32>) -> tensor<?x!c> {
  %0 = func.call @g(%s, %u) : (!c, tensor<*x!c>) -> tensor<?x!c>
  cf.br ^bb1(%0 : tensor<?x!c>)
^bb1(%1: tensor<?x!c>):
  return %1 : tensor<?x!c>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @g(!quant.uniform<i8:f16, 0.0078431372549019607:-1>, tensor<*x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>) -> tensor<?x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>
// CHECK-NEXT:    func.func @f(%s: !quant.uniform<i8:f16, 0.0078431372549019607:-1>, %u: tensor<*x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>, %a: !quant.any<i8:f32>) -> tensor<?x!quant.uniform<i8:f16, 0.0078431372549019607:-1>> {
// CHECK-NEXT:      %0 = func.call @g(%s, %u) : (!quant.uniform<i8:f16, 0.0078431372549019607:-1>, tensor<*x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>) -> tensor<?x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>
// CHECK-NEXT:      cf.br ^bb1(%0 : tensor<?x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>)
// CHECK-NEXT:    ^bb1(%1: tensor<?x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>):
// CHECK-NEXT:      func.return %1 : tensor<?x!quant.uniform<i8:f16, 0.0078431372549019607:-1>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// U4:       builtin.module {
// U4-NEXT:    func.func private @g(!quant.uniform<u4:f16, 0.14285714285714285:8>, tensor<*x!quant.uniform<u4:f16, 0.14285714285714285:8>>) -> tensor<?x!quant.uniform<u4:f16, 0.14285714285714285:8>>
// U4-NEXT:    func.func @f(%s: !quant.uniform<u4:f16, 0.14285714285714285:8>, %u: tensor<*x!quant.uniform<u4:f16, 0.14285714285714285:8>>, %a: !quant.any<i8:f32>) -> tensor<?x!quant.uniform<u4:f16, 0.14285714285714285:8>> {
// U4-NEXT:      %0 = func.call @g(%s, %u) : (!quant.uniform<u4:f16, 0.14285714285714285:8>, tensor<*x!quant.uniform<u4:f16, 0.14285714285714285:8>>) -> tensor<?x!quant.uniform<u4:f16, 0.14285714285714285:8>>
// U4-NEXT:      cf.br ^bb1(%0 : tensor<?x!quant.uniform<u4:f16, 0.14285714285714285:8>>)
// U4-NEXT:    ^bb1(%1: tensor<?x!quant.uniform<u4:f16, 0.14285714285714285:8>>):
// U4-NEXT:      func.return %1 : tensor<?x!quant.uniform<u4:f16, 0.14285714285714285:8>>
// U4-NEXT:    }
// U4-NEXT:  }

// NARROW:       builtin.module {
// NARROW-NEXT:    func.func private @g(!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>, tensor<*x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>) -> tensor<?x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>
// NARROW-NEXT:    func.func @f(%s: !quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>, %u: tensor<*x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>, %a: !quant.any<i8:f32>) -> tensor<?x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>> {
// NARROW-NEXT:      %0 = func.call @g(%s, %u) : (!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>, tensor<*x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>) -> tensor<?x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>
// NARROW-NEXT:      cf.br ^bb1(%0 : tensor<?x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>)
// NARROW-NEXT:    ^bb1(%1: tensor<?x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>):
// NARROW-NEXT:      func.return %1 : tensor<?x!quant.uniform<i8<-127:127>:f16, 0.0078740157480314959>>
// NARROW-NEXT:    }
// NARROW-NEXT:  }
