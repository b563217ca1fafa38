// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s

!super = !quant.block_scaled<u6:f32:{0:8}, scales = dense<0.5> : tensor<2xf16>>

// CHECK-LABEL: func.func @types
func.func @types(
  // CHECK-SAME: tensor<8x64x!quant.block_scaled<i4:f32:{0:1, 1:32}, scales = dense<5.000000e-01> : tensor<8x2xf16>>>
  %a: tensor<8x64x!quant.block_scaled<i4:f32:{0:1,1:32}, scales = dense<0.5> : tensor<8x2xf16>>>,
  // CHECK-SAME: tensor<?x?x!quant.block_scaled<u4<1:15>:bf16:{1:32}, scales = dense<[1.000000e+00, -2.000000e+00]> : tensor<2xbf16>, zero_points = dense<[7, -8]> : tensor<2xi4>, offsets = dense<2.500000e-01> : tensor<2xf8E4M3FN>>>
  %b: tensor<?x?x!quant.block_scaled<u4<1:15>:bf16:{1:32}, scales = dense<[1.0, -2.0]> : tensor<2xbf16>,
    zero_points = dense<[7, -8]> : tensor<2xi4>, offsets = dense<0.25> : tensor<2xf8E4M3FN>>>,
  // CHECK-SAME: tensor<*x!quant.block_scaled<u4:f32:{0:32}, scales = dense<3> : tensor<16xi6> as !quant.block_scaled<u6:f32:{0:8}, scales = dense<5.000000e-01> : tensor<2xf16>>>>
  %c: tensor<*x!quant.block_scaled<u4:f32:{0:32}, scales = dense<3> : tensor<16xi6> as !super>>,
  // CHECK-SAME: tensor<8x!quant.block_scaled<i8:f32:{0:4}, scales = dense_resource<block_scales> : tensor<2xf16>>>
  %d: tensor<8x!quant.block_scaled<i8:f32:{0:4}, scales = dense_resource<block_scales> : tensor<2xf16>>>,
  // CHECK-SAME: !quant.block_scaled<i8:f32:{}, scales = dense<1.000000e+00> : tensor<f16>, zero_points = dense<2> : tensor<i8>, offsets = dense<3.000000e+00> : tensor<f16>>
  %e: !quant.block_scaled<i8:f32:{}, scales = dense<1.0> : tensor<f16>, offsets = dense<3.0> : tensor<f16>, zero_points = dense<2> : tensor<i8>>
) {
  return
}

// CHECK-LABEL: func.func @casts
func.func @casts(%x: tensor<70xf32>) -> tensor<70xf32> {
  // CHECK: quant.qcast %{{.*}} : tensor<70xf32> to tensor<70x!quant.block_scaled<i4:f32:{0:32}, scales = dense<5.000000e-01> : tensor<3xf16>>>
  %q = quant.qcast %x : tensor<70xf32> to tensor<70x!quant.block_scaled<i4:f32:{0:32}, scales = dense<0.5> : tensor<3xf16>>>
  // CHECK: quant.scast %{{.*}} : tensor<70x!quant.block_scaled<i4:f32:{0:32}, scales = dense<5.000000e-01> : tensor<3xf16>>> to tensor<70xi4>
  %i = quant.scast %q : tensor<70x!quant.block_scaled<i4:f32:{0:32}, scales = dense<0.5> : tensor<3xf16>>> to tensor<70xi4>
  // CHECK: quant.dcast
  %y = quant.dcast %q : tensor<70x!quant.block_scaled<i4:f32:{0:32}, scales = dense<0.5> : tensor<3xf16>>> to tensor<70xf32>
  return %y : tensor<70xf32>
}

// CHECK: block_scales: "0x020000000038003c"
{-# dialect_resources: { builtin: { block_scales: "0x020000000038003c" } } #-}
