// RUN: xdsl-opt %s -p quant-casts-to-dynamic | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p quant-casts-to-dynamic,canonicalize | filecheck %s --check-prefix=BACK --match-full-lines
// RUN: xdsl-opt %s -p quant-casts-to-dynamic,quant-casts-from-dynamic,canonicalize | filecheck %s --check-prefix=BACK --match-full-lines

// CHECK:       builtin.module {
// BACK:        builtin.module {

// CHECK-NEXT:    func.func @per_tensor(%x: tensor<?xf32>) -> tensor<?x!quant.uniform<i8:f32, 1.000000e-01:3>> {
// CHECK-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// CHECK-NEXT:      %1 = arith.constant 3 : i8
// CHECK-NEXT:      %2 = quant.dynamic_qcast %x, %0, %1 as <i8> {quant.nan = "stored-zero"} : tensor<?xf32>, f32, i8 to tensor<?xi8>
// CHECK-NEXT:      %3 = quant.scast %2 : tensor<?xi8> to tensor<?x!quant.uniform<i8:f32, 1.000000e-01:3>>
// CHECK-NEXT:      func.return %3 : tensor<?x!quant.uniform<i8:f32, 1.000000e-01:3>>
// CHECK-NEXT:    }
// BACK-NEXT:    func.func @per_tensor(%x: tensor<?xf32>) -> tensor<?x!quant.uniform<i8:f32, 1.000000e-01:3>> {
// BACK-NEXT:      %0 = quant.qcast %x {quant.nan = "stored-zero"} : tensor<?xf32> to tensor<?x!quant.uniform<i8:f32, 1.000000e-01:3>>
// BACK-NEXT:      func.return %0 : tensor<?x!quant.uniform<i8:f32, 1.000000e-01:3>>
// BACK-NEXT:    }
func.func @per_tensor(%x: tensor<?xf32>) -> tensor<?x!quant.uniform<i8:f32, 0.1:3>> {
  %0 = quant.qcast %x {quant.nan = "stored-zero"} : tensor<?xf32> to tensor<?x!quant.uniform<i8:f32, 0.1:3>>
  return %0 : tensor<?x!quant.uniform<i8:f32, 0.1:3>>
}

// CHECK-NEXT:    func.func @per_axis(%q: tensor<?x2x!quant.uniform<u8<1:255>:f32:1, {1.000000e-01:200,2.000000e-01}>>) -> tensor<?x2xf32> {
// CHECK-NEXT:      %0 = arith.constant dense<[1.000000e-01, 2.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:      %1 = arith.constant dense<[-56, 0]> : tensor<2xi8>
// CHECK-NEXT:      %2 = quant.scast %q : tensor<?x2x!quant.uniform<u8<1:255>:f32:1, {1.000000e-01:200,2.000000e-01}>> to tensor<?x2xi8>
// CHECK-NEXT:      %3 = quant.dynamic_dcast %2, %0, %1 {1:1} as <u8<1:255>> : tensor<?x2xi8>, tensor<2xf32>, tensor<2xi8> to tensor<?x2xf32>
// CHECK-NEXT:      func.return %3 : tensor<?x2xf32>
// CHECK-NEXT:    }
// BACK-NEXT:    func.func @per_axis(%q: tensor<?x2x!quant.uniform<u8<1:255>:f32:1, {1.000000e-01:200,2.000000e-01}>>) -> tensor<?x2xf32> {
// BACK-NEXT:      %0 = quant.dcast %q : tensor<?x2x!quant.uniform<u8<1:255>:f32:1, {1.000000e-01:200,2.000000e-01}>> to tensor<?x2xf32>
// BACK-NEXT:      func.return %0 : tensor<?x2xf32>
// BACK-NEXT:    }
func.func @per_axis(%q: tensor<?x2x!quant.uniform<u8<1:255>:f32:1, {0.1:200, 0.2}>>) -> tensor<?x2xf32> {
  %0 = quant.dcast %q : tensor<?x2x!quant.uniform<u8<1:255>:f32:1, {0.1:200, 0.2}>> to tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}

// CHECK-NEXT:    func.func @blocks(%x: tensor<4x3xf32>) -> tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{[{][{]}}5.000000e-01}, {2.500000e-01}}>> {
// CHECK-NEXT:      %0 = arith.constant dense<{{\[\[}}5.000000e-01], [2.500000e-01]]> : tensor<2x1xf32>
// CHECK-NEXT:      %1 = quant.dynamic_qcast %x, %0 {0:2} as <i4> : tensor<4x3xf32>, tensor<2x1xf32> to tensor<4x3xi4>
// CHECK-NEXT:      %2 = quant.scast %1 : tensor<4x3xi4> to tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{[{][{]}}5.000000e-01}, {2.500000e-01}}>>
// BACK-NEXT:    func.func @blocks(%x: tensor<4x3xf32>) -> tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{[{][{]}}5.000000e-01}, {2.500000e-01}}>> {
// BACK-NEXT:      %0 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{[{][{]}}5.000000e-01}, {2.500000e-01}}>>
func.func @blocks(%x: tensor<4x3xf32>) -> tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{0.5}, {0.25}}>> {
  %0 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{0.5}, {0.25}}>>
  return %0 : tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{0.5}, {0.25}}>>
}
