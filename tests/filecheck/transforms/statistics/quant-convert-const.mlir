// RUN: xdsl-opt %s -p quant-convert-const --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'quant-convert-const{rounding-mode=nearest-away}' --split-input-file | filecheck %s --check-prefix=AWAY --match-full-lines

// Halves, infinities, NaN; the constant that something else uses stays.

func.func @dense() -> (tensor<2x4x!quant.uniform<i8:f32, 5.0e-01>>, tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.0e-01:3>>, tensor<2xf32>) {
  %c = arith.constant dense<[[0.25, 0.75, -0.25, 1000.0], [0x7F800000, 0xFF800000, 0x7FC00000, -0.0]]> : tensor<2x4xf32>
  %0 = quant.qcast %c : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32, 5.0e-01>>
  %1 = quant.qcast %c : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.0e-01:3>>
  %d = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %2 = quant.qcast %d : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 5.0e-01>>
  return %0, %1, %d : tensor<2x4x!quant.uniform<i8:f32, 5.0e-01>>, tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.0e-01:3>>, tensor<2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @dense() -> (tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.000000e-01:3>>, tensor<2xf32>) {
// CHECK-NEXT:      %c = arith.constant dense<[[0, 2, 0, 127], [127, -128, -128, 0]]> : tensor<2x4xi8>
// CHECK-NEXT:      %0 = quant.scast %c : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      %c_1 = arith.constant dense<[[4, 4, 2, -56], [-56, 1, 1, 3]]> : tensor<2x4xi8>
// CHECK-NEXT:      %1 = quant.scast %c_1 : tensor<2x4xi8> to tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %d = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:      %d_1 = arith.constant dense<[2, 4]> : tensor<2xi8>
// CHECK-NEXT:      %2 = quant.scast %d_1 : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      func.return %0, %1, %d : tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.000000e-01:3>>, tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// AWAY:       builtin.module {
// AWAY-NEXT:    func.func @dense() -> (tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.000000e-01:3>>, tensor<2xf32>) {
// AWAY-NEXT:      %c = arith.constant dense<[[1, 2, -1, 127], [127, -128, -128, 0]]> : tensor<2x4xi8>
// AWAY-NEXT:      %0 = quant.scast %c : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// AWAY-NEXT:      %c_1 = arith.constant dense<[[4, 5, 3, -56], [-56, 1, 1, 3]]> : tensor<2x4xi8>
// AWAY-NEXT:      %1 = quant.scast %c_1 : tensor<2x4xi8> to tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.000000e-01:3>>
// AWAY-NEXT:      %d = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// AWAY-NEXT:      %d_1 = arith.constant dense<[2, 4]> : tensor<2xi8>
// AWAY-NEXT:      %2 = quant.scast %d_1 : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// AWAY-NEXT:      func.return %0, %1, %d : tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x4x!quant.uniform<u8<1:200>:f32, 5.000000e-01:3>>, tensor<2xf32>
// AWAY-NEXT:    }
// AWAY-NEXT:  }

// -----

// A splat is one in MLIR 14 even if its scales differ, all from the first of them.

func.func @splat() {
  %c = arith.constant dense<1.0> : tensor<2x2xf32>
  %0 = quant.qcast %c : tensor<2x2xf32> to tensor<2x2x!quant.uniform<u8:f32, 0.25:4>>
  %1 = quant.qcast %c : tensor<2x2xf32> to tensor<2x2x!quant.uniform<u8:f32:1, {0.5:4, 1.0}>>
  %e = arith.constant dense<> : tensor<0xf32>
  %2 = quant.qcast %e : tensor<0xf32> to tensor<0x!quant.uniform<u8:f32, 0.25>>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @splat() {
// CHECK-NEXT:      %c = arith.constant dense<8> : tensor<2x2xi8>
// CHECK-NEXT:      %0 = quant.scast %c : tensor<2x2xi8> to tensor<2x2x!quant.uniform<u8:f32, 2.500000e-01:4>>
// CHECK-NEXT:      %c_1 = arith.constant dense<[[6, 1], [6, 1]]> : tensor<2x2xi8>
// CHECK-NEXT:      %1 = quant.scast %c_1 : tensor<2x2xi8> to tensor<2x2x!quant.uniform<u8:f32:1, {5.000000e-01:4,1.000000e+00}>>
// CHECK-NEXT:      %e = arith.constant dense<> : tensor<0xi8>
// CHECK-NEXT:      %2 = quant.scast %e : tensor<0xi8> to tensor<0x!quant.uniform<u8:f32, 2.500000e-01>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// AWAY:       builtin.module {
// AWAY-NEXT:    func.func @splat() {
// AWAY-NEXT:      %c = arith.constant dense<8> : tensor<2x2xi8>
// AWAY-NEXT:      %0 = quant.scast %c : tensor<2x2xi8> to tensor<2x2x!quant.uniform<u8:f32, 2.500000e-01:4>>
// AWAY-NEXT:      %c_1 = arith.constant dense<[[6, 1], [6, 1]]> : tensor<2x2xi8>
// AWAY-NEXT:      %1 = quant.scast %c_1 : tensor<2x2xi8> to tensor<2x2x!quant.uniform<u8:f32:1, {5.000000e-01:4,1.000000e+00}>>
// AWAY-NEXT:      %e = arith.constant dense<> : tensor<0xi8>
// AWAY-NEXT:      %2 = quant.scast %e : tensor<0xi8> to tensor<0x!quant.uniform<u8:f32, 2.500000e-01>>
// AWAY-NEXT:      func.return
// AWAY-NEXT:    }
// AWAY-NEXT:  }

// -----

func.func @layouts() {
  %c = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]> : tensor<2x4xf32>
  %0 = quant.qcast %c : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:0, {0.5:1, 1.0:-1}>>
  %1 = quant.qcast %c : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 0.5}, {0.25:3, 2.0}}>>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @layouts() {
// CHECK-NEXT:      %c = arith.constant dense<[[3, 5, 7, 9], [4, 5, 6, 7]]> : tensor<2x4xi8>
// CHECK-NEXT:      %0 = quant.scast %c : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01:1,1.000000e+00:-1}>>
// CHECK-NEXT:      %c_1 = arith.constant dense<[[1, 2, 6, 8], [23, 27, 4, 4]]> : tensor<2x4xi8>
// CHECK-NEXT:      %1 = quant.scast %c_1 : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{{{}}1.000000e+00, 5.000000e-01}, {2.500000e-01:3, 2.000000e+00}}>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// AWAY:       builtin.module {
// AWAY-NEXT:    func.func @layouts() {
// AWAY-NEXT:      %c = arith.constant dense<[[3, 5, 7, 9], [4, 5, 6, 7]]> : tensor<2x4xi8>
// AWAY-NEXT:      %0 = quant.scast %c : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01:1,1.000000e+00:-1}>>
// AWAY-NEXT:      %c_1 = arith.constant dense<[[1, 2, 6, 8], [23, 27, 4, 4]]> : tensor<2x4xi8>
// AWAY-NEXT:      %1 = quant.scast %c_1 : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{{{}}1.000000e+00, 5.000000e-01}, {2.500000e-01:3, 2.000000e+00}}>>
// AWAY-NEXT:      func.return
// AWAY-NEXT:    }
// AWAY-NEXT:  }

// -----

// Scalars, and numbers of any width with the bits of an unsigned one.

func.func @scalars() {
  %a = arith.constant 100.25 : f32
  %0 = quant.qcast %a : f32 to !quant.uniform<u8:f32, 0.5>
  %b = arith.constant 1.0 : f16
  %1 = quant.qcast %b : f16 to !quant.uniform<u4:f16, 0.1>
  %c = arith.constant -1.0 : f64
  %2 = quant.qcast %c : f64 to !quant.uniform<i1:f64, 1.0>
  %d = arith.constant dense<[0.0, 1.0, 1.5, 3.0]> : tensor<4xbf16>
  %3 = quant.qcast %d : tensor<4xbf16> to tensor<4x!quant.uniform<u3<0:6>:bf16, 0.5>>
  %e = arith.constant dense<[4294967040.0, -1.0]> : tensor<2xf32>
  %4 = quant.qcast %e : tensor<2xf32> to tensor<2x!quant.uniform<u32:f32, 1.0>>
  %f = arith.constant dense<7.0> : tensor<f32>
  %5 = quant.qcast %f : tensor<f32> to tensor<!quant.uniform<i12:f32, 0.5>>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @scalars() {
// CHECK-NEXT:      %a = arith.constant -56 : i8
// CHECK-NEXT:      %0 = quant.scast %a : i8 to !quant.uniform<u8:f32, 5.000000e-01>
// CHECK-NEXT:      %b = arith.constant -6 : i4
// CHECK-NEXT:      %1 = quant.scast %b : i4 to !quant.uniform<u4:f16, 1.000000e-01>
// CHECK-NEXT:      %c = arith.constant true
// CHECK-NEXT:      %2 = quant.scast %c : i1 to !quant.uniform<i1:f64, 1.000000e+00>
// CHECK-NEXT:      %d = arith.constant dense<[0, 2, 3, -2]> : tensor<4xi3>
// CHECK-NEXT:      %3 = quant.scast %d : tensor<4xi3> to tensor<4x!quant.uniform<u3<0:6>:bf16, 5.000000e-01>>
// CHECK-NEXT:      %e = arith.constant dense<[-256, 0]> : tensor<2xi32>
// CHECK-NEXT:      %4 = quant.scast %e : tensor<2xi32> to tensor<2x!quant.uniform<u32:f32, 1.000000e+00>>
// CHECK-NEXT:      %f = arith.constant dense<14> : tensor<i12>
// CHECK-NEXT:      %5 = quant.scast %f : tensor<i12> to tensor<!quant.uniform<i12:f32, 5.000000e-01>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// AWAY:       builtin.module {
// AWAY-NEXT:    func.func @scalars() {
// AWAY-NEXT:      %a = arith.constant -55 : i8
// AWAY-NEXT:      %0 = quant.scast %a : i8 to !quant.uniform<u8:f32, 5.000000e-01>
// AWAY-NEXT:      %b = arith.constant -6 : i4
// AWAY-NEXT:      %1 = quant.scast %b : i4 to !quant.uniform<u4:f16, 1.000000e-01>
// AWAY-NEXT:      %c = arith.constant true
// AWAY-NEXT:      %2 = quant.scast %c : i1 to !quant.uniform<i1:f64, 1.000000e+00>
// AWAY-NEXT:      %d = arith.constant dense<[0, 2, 3, -2]> : tensor<4xi3>
// AWAY-NEXT:      %3 = quant.scast %d : tensor<4xi3> to tensor<4x!quant.uniform<u3<0:6>:bf16, 5.000000e-01>>
// AWAY-NEXT:      %e = arith.constant dense<[-256, 0]> : tensor<2xi32>
// AWAY-NEXT:      %4 = quant.scast %e : tensor<2xi32> to tensor<2x!quant.uniform<u32:f32, 1.000000e+00>>
// AWAY-NEXT:      %f = arith.constant dense<14> : tensor<i12>
// AWAY-NEXT:      %5 = quant.scast %f : tensor<i12> to tensor<!quant.uniform<i12:f32, 5.000000e-01>>
// AWAY-NEXT:      func.return
// AWAY-NEXT:    }
// AWAY-NEXT:  }

// -----

// Types that do not say how, and values that are not known.

func.func @kept(%x: f32) {
  %c = arith.constant 1.0 : f32
  %0 = quant.qcast %c : f32 to !quant.any<i8:f32>
  %1 = quant.qcast %c : f32 to !quant.calibrated<f32<-1.0:1.0>>
  %2 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @kept(%x: f32) {
// CHECK-NEXT:      %c = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %0 = quant.qcast %c : f32 to !quant.any<i8:f32>
// CHECK-NEXT:      %1 = quant.qcast %c : f32 to !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>
// CHECK-NEXT:      %2 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.000000e+00>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// AWAY:       builtin.module {
// AWAY-NEXT:    func.func @kept(%x: f32) {
// AWAY-NEXT:      %c = arith.constant 1.000000e+00 : f32
// AWAY-NEXT:      %0 = quant.qcast %c : f32 to !quant.any<i8:f32>
// AWAY-NEXT:      %1 = quant.qcast %c : f32 to !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>
// AWAY-NEXT:      %2 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.000000e+00>
// AWAY-NEXT:      func.return
// AWAY-NEXT:    }
// AWAY-NEXT:  }

// -----

func.func @resources() {
  %c = arith.constant dense_resource<weights> : tensor<2x1xf32>
  %0 = quant.qcast %c : tensor<2x1xf32> to tensor<2x1x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.qcast %c : tensor<2x1xf32> to tensor<2x1x!quant.uniform<u16:f32:0, {0.5, 1.0:3}>>
  %2 = quant.qcast %c : tensor<2x1xf32> to tensor<2x1x!quant.uniform<i4:f32, 0.5>>
  return
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000A0BF00000040"
    }
  }
#-}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @resources() {
// CHECK-NEXT:      %c = arith.constant dense_resource<weights_quantized> : tensor<2x1xi8>
// CHECK-NEXT:      %0 = quant.scast %c : tensor<2x1xi8> to tensor<2x1x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      %c_1 = arith.constant dense_resource<weights_quantized_0> : tensor<2x1xi16>
// CHECK-NEXT:      %1 = quant.scast %c_1 : tensor<2x1xi16> to tensor<2x1x!quant.uniform<u16:f32:0, {5.000000e-01,1.000000e+00:3}>>
// CHECK-NEXT:      %c_2 = arith.constant dense<[[-2], [4]]> : tensor<2x1xi4>
// CHECK-NEXT:      %2 = quant.scast %c_2 : tensor<2x1xi4> to tensor<2x1x!quant.uniform<i4:f32, 5.000000e-01>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// CHECK-EMPTY:
// CHECK-NEXT:  {-#
// CHECK-NEXT:    dialect_resources: {
// CHECK-NEXT:      builtin: {
// CHECK-NEXT:        weights_quantized: "0x01000000fe04",weights_quantized_0: "0x0200000000000500"
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:  #-}

// AWAY:       builtin.module {
// AWAY-NEXT:    func.func @resources() {
// AWAY-NEXT:      %c = arith.constant dense_resource<weights_quantized> : tensor<2x1xi8>
// AWAY-NEXT:      %0 = quant.scast %c : tensor<2x1xi8> to tensor<2x1x!quant.uniform<i8:f32, 5.000000e-01>>
// AWAY-NEXT:      %c_1 = arith.constant dense_resource<weights_quantized_0> : tensor<2x1xi16>
// AWAY-NEXT:      %1 = quant.scast %c_1 : tensor<2x1xi16> to tensor<2x1x!quant.uniform<u16:f32:0, {5.000000e-01,1.000000e+00:3}>>
// AWAY-NEXT:      %c_2 = arith.constant dense<[[-3], [4]]> : tensor<2x1xi4>
// AWAY-NEXT:      %2 = quant.scast %c_2 : tensor<2x1xi4> to tensor<2x1x!quant.uniform<i4:f32, 5.000000e-01>>
// AWAY-NEXT:      func.return
// AWAY-NEXT:    }
// AWAY-NEXT:  }
// AWAY-EMPTY:
// AWAY-NEXT:  {-#
// AWAY-NEXT:    dialect_resources: {
// AWAY-NEXT:      builtin: {
// AWAY-NEXT:        weights_quantized: "0x01000000fd04",weights_quantized_0: "0x0200000000000500"
// AWAY-NEXT:      }
// AWAY-NEXT:    }
// AWAY-NEXT:  #-}

// -----

// Constants of StableHLO: quantized ones, where StableHLO has them.

func.func @stablehlo() {
  %c = stablehlo.constant dense<[0.25, 0.75, 100.0, -9.0]> : tensor<4xf32>
  %0 = stablehlo.uniform_quantize %c : (tensor<4xf32>) -> tensor<4x!quant.uniform<ui8:f32, 0.5:3>>
  %1 = quant.qcast %c : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32:0, {0.5:3, 0.5, 0.5:1, 2.0:9}>>
  %2 = quant.qcast %c : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32:{0:2}, {0.5, 1.0}>>
  %3 = quant.qcast %c : tensor<4xf32> to tensor<4x!quant.uniform<ui7:f32, 1.0>>
  %a = arith.constant dense<2.0> : tensor<2xf32>
  %4 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<ui8:f32, 0.01>>
  %r = stablehlo.constant dense_resource<kernel> : tensor<2xf32>
  %5 = stablehlo.uniform_quantize %r : (tensor<2xf32>) -> tensor<2x!quant.uniform<ui16:f32, 0.5>>
  %6 = stablehlo.uniform_quantize %5 : (tensor<2x!quant.uniform<ui16:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

{-#
  dialect_resources: {
    builtin: {
      kernel: "0x040000000000004000000040"
    }
  }
#-}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @stablehlo() {
// CHECK-NEXT:      %c = stablehlo.constant() <{value = dense<[4, 4, 203, 0]> : tensor<4xui8>}> : () -> tensor<4x!quant.uniform<ui8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %c_1 = stablehlo.constant() <{value = dense<[4, 2, -55, 4]> : tensor<4xi8>}> : () -> tensor<4x!quant.uniform<u8:f32:0, {5.000000e-01:3,5.000000e-01,5.000000e-01:1,2.000000e+00:9}>>
// CHECK-NEXT:      %c_2 = arith.constant dense<[0, 2, 100, -9]> : tensor<4xi8>
// CHECK-NEXT:      %0 = quant.scast %c_2 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32:{0:2}, {5.000000e-01, 1.000000e+00}>>
// CHECK-NEXT:      %c_3 = arith.constant dense<[0, 1, -28, 0]> : tensor<4xi7>
// CHECK-NEXT:      %1 = quant.scast %c_3 : tensor<4xi7> to tensor<4x!quant.uniform<ui7:f32, 1.000000e+00>>
// CHECK-NEXT:      %a = arith.constant dense<-56> : tensor<2xi8>
// CHECK-NEXT:      %2 = quant.scast %a : tensor<2xi8> to tensor<2x!quant.uniform<ui8:f32, 1.000000e-02>>
// CHECK-NEXT:      %r = stablehlo.constant() <{value = dense_resource<kernel_quantized> : tensor<2xui16>}> : () -> tensor<2x!quant.uniform<ui16:f32, 5.000000e-01>>
// CHECK-NEXT:      %3 = stablehlo.uniform_quantize %r : (tensor<2x!quant.uniform<ui16:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// uniform_quantize rounds as it does; quant.qcast rounds as it is told to.

// AWAY:       builtin.module {
// AWAY-NEXT:    func.func @stablehlo() {
// AWAY-NEXT:      %c = stablehlo.constant() <{value = dense<[4, 4, 203, 0]> : tensor<4xui8>}> : () -> tensor<4x!quant.uniform<ui8:f32, 5.000000e-01:3>>
// AWAY-NEXT:      %c_1 = stablehlo.constant() <{value = dense<[4, 2, -55, 5]> : tensor<4xi8>}> : () -> tensor<4x!quant.uniform<u8:f32:0, {5.000000e-01:3,5.000000e-01,5.000000e-01:1,2.000000e+00:9}>>
