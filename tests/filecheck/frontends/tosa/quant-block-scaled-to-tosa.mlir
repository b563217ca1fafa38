// RUN: xdsl-opt %s -p quant-block-scaled-to-tosa | filecheck %s
// RUN: xdsl-opt %s -p quant-block-scaled-to-tosa,strip-func-quant-types,canonicalize | mlir-opt | xdsl-opt | filecheck %s --check-prefix=STRIP

!mxfp4 = !quant.block_scaled<f4E2M1FN:f32:{0:1, 1:32}, scales = dense<[[0.5, 1.0], [2.0, 4.0]]> : tensor<2x2xf8E8M0FNU>>
!mxint8 = !quant.block_scaled<i8:f32:{0:1, 1:32}, scales = dense<[[0.5], [2.0]]> : tensor<2x1xf8E8M0FNU> as !quant.block_scaled<f8E8M0FNU:f32:{}, scales = dense<0.015625> : tensor<f32>>>
!wide = !quant.block_scaled<f8E4M3FN:bf16:{1:64}, scales = dense<[0.125, 8.0]> : tensor<2xf16>>
!uniform = !quant.uniform<i8:f32, 0.5>

// Stored values of an argument.

func.func @argument(%q: tensor<2x64x!mxfp4>) -> tensor<2x64xf32> {
  %x = quant.dcast %q : tensor<2x64x!mxfp4> to tensor<2x64xf32>
  return %x : tensor<2x64xf32>
}

// CHECK:       func.func @argument(%q: tensor<2x64x!quant.block_scaled<{{.*}}>>) -> tensor<2x64xf32> {
// CHECK-NEXT:    %0 = quant.scast %q : tensor<2x64x!quant.block_scaled<{{.*}}>> to tensor<2x64xf4E2M1FN>
// CHECK-NEXT:    %1 = "tosa.const"() <{values = dense<[[5.000000e-01, 1.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf8E8M0FNU>}> : () -> tensor<2x2xf8E8M0FNU>
// CHECK-NEXT:    %x = tosa.cast_from_block_scaled %0, %1 {block_size = BLOCK_SIZE_32} : (tensor<2x64xf4E2M1FN>, tensor<2x2xf8E8M0FNU>) -> tensor<2x64xf32>
// CHECK-NEXT:    func.return %x : tensor<2x64xf32>

// STRIP:       func.func @argument(%{{.*}}: tensor<2x64xf4E2M1FN>) -> tensor<2x64xf32> {
// STRIP-NEXT:    %{{.*}} = "tosa.const"() <{values = dense<[[5.000000e-01, 1.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf8E8M0FNU>}> : () -> tensor<2x2xf8E8M0FNU>
// STRIP-NEXT:    %{{.*}} = tosa.cast_from_block_scaled %{{.*}}, %{{.*}} {block_size = BLOCK_SIZE_32} : (tensor<2x64xf4E2M1FN>, tensor<2x2xf8E8M0FNU>) -> tensor<2x64xf32>
// STRIP-NEXT:    func.return

// Elements of MXINT8 are a resource of a type of TOSA.

func.func @constants() -> (tensor<2x64xf32>, tensor<2x32xf32>) {
  %a = arith.constant dense<1.5> : tensor<2x64xf4E2M1FN>
  %p = quant.scast %a : tensor<2x64xf4E2M1FN> to tensor<2x64x!mxfp4>
  %x = quant.dcast %p : tensor<2x64x!mxfp4> to tensor<2x64xf32>
  %b = "tosa.const"() <{values = dense<-3> : tensor<2x32xi8>}> : () -> tensor<2x32xi8>
  %q = quant.scast %b : tensor<2x32xi8> to tensor<2x32x!mxint8>
  %y = quant.dcast %q : tensor<2x32x!mxint8> to tensor<2x32xf32>
  return %x, %y : tensor<2x64xf32>, tensor<2x32xf32>
}

// CHECK:       func.func @constants
// CHECK-NEXT:    %0 = "tosa.const"() <{values = dense<1.500000e+00> : tensor<2x64xf4E2M1FN>}> : () -> tensor<2x64xf4E2M1FN>
// CHECK-NEXT:    %1 = "tosa.const"() <{values = dense<[[5.000000e-01, 1.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf8E8M0FNU>}> : () -> tensor<2x2xf8E8M0FNU>
// CHECK-NEXT:    %x = tosa.cast_from_block_scaled %0, %1 {block_size = BLOCK_SIZE_32} : (tensor<2x64xf4E2M1FN>, tensor<2x2xf8E8M0FNU>) -> tensor<2x64xf32>
// CHECK-NEXT:    %2 = "tosa.const"() <{values = dense_resource<[[ELEMENTS:elements.*]]> : tensor<2x32x!tosa.mxint8>}> : () -> tensor<2x32x!tosa.mxint8>
// CHECK-NEXT:    %3 = "tosa.const"() <{values = dense<{{\[\[}}5.000000e-01], [2.000000e+00]]> : tensor<2x1xf8E8M0FNU>}> : () -> tensor<2x1xf8E8M0FNU>
// CHECK-NEXT:    %y = tosa.cast_from_block_scaled %2, %3 {block_size = BLOCK_SIZE_32} : (tensor<2x32x!tosa.mxint8>, tensor<2x1xf8E8M0FNU>) -> tensor<2x32xf32>
// CHECK-NEXT:    func.return

// STRIP:       func.func @constants
// STRIP:         tosa.cast_from_block_scaled %{{.*}}, %{{.*}} {block_size = BLOCK_SIZE_32} : (tensor<2x32x!tosa.mxint8>, tensor<2x1xf8E8M0FNU>) -> tensor<2x32xf32>

// Rows share their scales, which are stored in another type, and blocks are two of TOSA's.

func.func @wide(%q: tensor<2x128x!wide>) -> tensor<2x128xbf16> {
  %x = quant.dcast %q : tensor<2x128x!wide> to tensor<2x128xbf16>
  return %x : tensor<2x128xbf16>
}

// CHECK:       func.func @wide
// CHECK:         %1 = "tosa.const"() <{values = dense<[[1.250000e-01, 1.250000e-01, 8.000000e+00, 8.000000e+00], [1.250000e-01, 1.250000e-01, 8.000000e+00, 8.000000e+00]]> : tensor<2x4xf8E8M0FNU>}> : () -> tensor<2x4xf8E8M0FNU>
// CHECK-NEXT:    %x = tosa.cast_from_block_scaled %0, %1 {block_size = BLOCK_SIZE_32} : (tensor<2x128xf8E4M3FN>, tensor<2x4xf8E8M0FNU>) -> tensor<2x128xbf16>

// Other types stay.

func.func @uniform(%q: tensor<4x!uniform>) -> tensor<4xf32> {
  %x = quant.dcast %q : tensor<4x!uniform> to tensor<4xf32>
  return %x : tensor<4xf32>
}

// CHECK:       func.func @uniform
// CHECK-NEXT:    %x = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<4xf32>

// Stored values are the bits of elements.

// CHECK:       [[ELEMENTS]]: "0x01000000fdfdfd{{(fd)*}}"
// STRIP:       elements{{.*}}: "0x01000000FDFDFD{{(FD)*}}"
