// RUN: xdsl-opt %s -p 'quant-block-scaled-to-tosa{scales=type}' | xdsl-opt | filecheck %s

// Scales of a constant are in its type. Elements of 4 bits are packed.

!mxfp4 = !quant.block_scaled<f4E2M1FN:f32:{0:1, 1:32}, scales = dense<0.5> : tensor<1x1xf8E8M0FNU>>

func.func @weights() -> tensor<1x32xf32> {
  %c = arith.constant dense<"0x000102030405060708090A0B0C0D0E0F000102030405060708090A0B0C0D0E0F"> : tensor<1x32xf4E2M1FN>
  %q = quant.scast %c : tensor<1x32xf4E2M1FN> to tensor<1x32x!mxfp4>
  %x = quant.dcast %q : tensor<1x32x!mxfp4> to tensor<1x32xf32>
  return %x : tensor<1x32xf32>
}

// CHECK:       func.func @weights
// CHECK-NEXT:     %0 = "tosa.const"() <{values = dense_resource<elements{{.*}}> : tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {5.000000e-01}>>}> : () -> tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>
// CHECK-NEXT:     %{{.*}} = tosa.cast %0 : (tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>) -> tensor<1x32xf32>
// CHECK:       elements{{.*}}: "0x0100000010325476
