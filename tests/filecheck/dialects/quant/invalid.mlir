// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// What the operand and the result are.

// CHECK:       'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'i8'
func.func @f(%x: i8) {
  %0 = quant.qcast %x : i8 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got '!quant.uniform<i8:f32, 2.000000e+00>'
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.qcast %x : !quant.uniform<i8:f32, 2.0> to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.qcast' op result #0 must be scalar or tensor of quantized type, but got 'i8'
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to i8
  return
}

// -----

// CHECK:       'quant.qcast' op result #0 must be scalar or tensor of quantized type, but got 'f32'
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to f32
  return
}

// -----

// CHECK:       'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'index'
func.func @f(%x: index) {
  %0 = quant.qcast %x : index to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'tensor<2xi8>'
func.func @f(%x: tensor<2xi8>) {
  %0 = quant.qcast %x : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.qcast' op result #0 must be scalar or tensor of quantized type, but got 'tensor<*xi8>'
func.func @f(%x: tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*xi8>
  return
}

// -----

// CHECK:       'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'vector<2xf32>'
func.func @f(%x: vector<2xf32>) {
  %0 = quant.qcast %x : vector<2xf32> to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'i8'
func.func @f(%x: i8) {
  %0 = quant.qcast %x : i8 to i8
  return
}

// -----

// CHECK:       'quant.dcast' op operand #0 must be scalar or tensor of quantized type, but got 'f32'
func.func @f(%x: f32) {
  %0 = quant.dcast %x : f32 to f32
  return
}

// -----

// CHECK:       'quant.dcast' op operand #0 must be scalar or tensor of quantized type, but got 'i8'
func.func @f(%x: i8) {
  %0 = quant.dcast %x : i8 to f32
  return
}

// -----

// CHECK:       'quant.dcast' op result #0 must be scalar or tensor of floating-point, but got 'i8'
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32, 2.0> to i8
  return
}

// -----

// CHECK:       'quant.dcast' op result #0 must be scalar or tensor of floating-point, but got '!quant.uniform<i8:f32, 2.000000e+00>'
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32, 2.0> to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.dcast' op result #0 must be scalar or tensor of floating-point, but got 'tensor<2xi8>'
func.func @f(%x: tensor<2x!quant.uniform<i8:f32, 2.0>>) {
  %0 = quant.dcast %x : tensor<2x!quant.uniform<i8:f32, 2.0>> to tensor<2xi8>
  return
}

// -----

// CHECK:       'quant.dcast' op operand #0 must be scalar or tensor of quantized type, but got 'tuple<f32>'
func.func @f(%x: tuple<f32>) {
  %0 = quant.dcast %x : tuple<f32> to f32
  return
}

// -----

// CHECK:       'quant.scast' op operand #0 must be scalar or tensor of signless integer or quantized type, but got 'f32'
func.func @f(%x: f32) {
  %0 = quant.scast %x : f32 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.scast' op result #0 must be scalar or tensor of signless integer or quantized type, but got 'f32'
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.scast %x : !quant.uniform<i8:f32, 2.0> to f32
  return
}

// -----

// CHECK:       'quant.scast' op operand #0 must be scalar or tensor of signless integer or quantized type, but got 'si8'
func.func @f(%x: si8) {
  %0 = quant.scast %x : si8 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.scast' op result #0 must be scalar or tensor of signless integer or quantized type, but got 'ui8'
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.scast %x : !quant.uniform<i8:f32, 2.0> to ui8
  return
}

// -----

// CHECK:       'quant.scast' op operand #0 must be scalar or tensor of signless integer or quantized type, but got 'index'
func.func @f(%x: index) {
  %0 = quant.scast %x : index to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.scast' op operand #0 must be scalar or tensor of signless integer or quantized type, but got 'tensor<2xf32>'
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.scast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// Kinds come before shapes.

// CHECK:       'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'tensor<2xi8>'
func.func @f(%x: tensor<2xi8>) {
  %0 = quant.qcast %x : tensor<2xi8> to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.dcast' op result #0 must be scalar or tensor of floating-point, but got 'tensor<2xi8>'
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32, 2.0> to tensor<2xi8>
  return
}

// -----

// Shapes.

// CHECK:       'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to tensor<1x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<f32>) {
  %0 = quant.qcast %x : tensor<f32> to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<3x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<?x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<2x3xf32>) {
  %0 = quant.qcast %x : tensor<2x3xf32> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<*x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.dcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<?x!quant.uniform<i8:f32, 2.0>>) {
  %0 = quant.dcast %x : tensor<?x!quant.uniform<i8:f32, 2.0>> to tensor<*xf32>
  return
}

// -----

// CHECK:       'quant.dcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32, 2.0> to tensor<f32>
  return
}

// -----

// CHECK:       'quant.scast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<2xi8>) {
  %0 = quant.scast %x : tensor<2xi8> to tensor<1x2x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.scast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<2x!quant.uniform<i8:f32, 2.0>>) {
  %0 = quant.scast %x : tensor<2x!quant.uniform<i8:f32, 2.0>> to i8
  return
}

// -----

// Shapes come before element types, and for storage casts before directions.

// CHECK:       'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: f64) {
  %0 = quant.qcast %x : f64 to tensor<1x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       'quant.scast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to tensor<1xi8>
  return
}

// -----

// CHECK:       'quant.scast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.scast %x : !quant.uniform<i8:f32, 2.0> to tensor<1x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// Storage casts have one quantized and one integer side.

// CHECK:       'quant.scast' op failed to verify that input must be integer and result must be quantized, or vice versa
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to i8
  return
}

// -----

// CHECK:       'quant.scast' op failed to verify that input must be integer and result must be quantized, or vice versa
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.scast %x : !quant.uniform<i8:f32, 2.0> to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       'quant.scast' op failed to verify that input must be integer and result must be quantized, or vice versa
func.func @f(%x: tensor<2xi8>) {
  %0 = quant.scast %x : tensor<2xi8> to tensor<2xi8>
  return
}

// -----

// CHECK:       'quant.scast' op failed to verify that input must be integer and result must be quantized, or vice versa
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.scast %x : !quant.uniform<i8:f32, 2.0> to !quant.uniform<i8:f32, 2.0:1>
  return
}

// -----

// Element types.

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: f64) {
  %0 = quant.qcast %x : f64 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: tensor<2xf16>) {
  %0 = quant.qcast %x : tensor<2xf16> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32, 2.0> to f64
  return
}

// -----

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.any<i8>
  return
}

// -----

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.any<i8:f64>
  return
}

// -----

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.calibrated<f64<-1.0:1.0>>
  return
}

// -----

// CHECK:       storage type in quantized type expected to match integer type
func.func @f(%x: i4) {
  %0 = quant.scast %x : i4 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// CHECK:       storage type in quantized type expected to match integer type
func.func @f(%x: !quant.uniform<i8:f32, 2.0>) {
  %0 = quant.scast %x : !quant.uniform<i8:f32, 2.0> to i16
  return
}

// -----

// CHECK:       storage type in quantized type expected to match integer type
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to !quant.any<u4>
  return
}

// -----

// CHECK:       storage type in quantized type expected to match integer type
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to !quant.calibrated<f32<-1.0:1.0>>
  return
}

// -----

// CHECK:       storage type in quantized type expected to match integer type
func.func @f(%x: i16) {
  %0 = quant.scast %x : i16 to !quant.uniform<si8:f32, 1.0>
  return
}

// -----

// CHECK:       storage type in quantized type expected to match integer type
func.func @f(%x: !quant.uniform<ui8:f32, 1.0>) {
  %0 = quant.scast %x : !quant.uniform<ui8:f32, 1.0> to i7
  return
}

// -----

// Per-axis integrity.

// CHECK:       scalar types may not use per-axis quantization
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32:1, {1.0, 2.0}>
  return
}

// -----

// CHECK:       scalar types may not use per-axis quantization
func.func @f(%x: !quant.uniform<i8:f32:1, {1.0, 2.0}>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32:1, {1.0, 2.0}> to f32
  return
}

// -----

// CHECK:       scalar types may not use per-axis quantization
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to !quant.uniform<i8:f32:1, {1.0, 2.0}>
  return
}

// -----

// CHECK:       quantized dimension must be less than tensor rank
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  return
}

// -----

// CHECK:       quantized dimension must be less than tensor rank
func.func @f(%x: tensor<f32>) {
  %0 = quant.qcast %x : tensor<f32> to tensor<!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  return
}

// -----

// CHECK:       quantized dimension must be less than tensor rank
func.func @f(%x: tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) {
  %0 = quant.dcast %x : tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>> to tensor<2xf32>
  return
}

// -----

// CHECK:       quantized dimension must be less than tensor rank
func.func @f(%x: tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) {
  %0 = quant.scast %x : tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>> to tensor<2xi8>
  return
}

// -----

// CHECK:       quantized dimension size does not match number of scales
func.func @f(%x: tensor<2x3xf32>) {
  %0 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  return
}

// -----

// CHECK:       quantized dimension size does not match number of scales
func.func @f(%x: tensor<?x0xf32>) {
  %0 = quant.qcast %x : tensor<?x0xf32> to tensor<?x0x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  return
}

// -----

// CHECK:       quantized dimension size does not match number of scales
func.func @f(%x: tensor<?x1x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) {
  %0 = quant.dcast %x : tensor<?x1x!quant.uniform<i8:f32:1, {1.0, 2.0}>> to tensor<?x1xf32>
  return
}

// -----

// CHECK:       quantized dimension size does not match number of scales
func.func @f(%x: tensor<?x3xi8>) {
  %0 = quant.scast %x : tensor<?x3xi8> to tensor<?x3x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  return
}

// -----

// Element types come before integrity.

// CHECK:       expressed type in quantized type expected to match float type
func.func @f(%x: f64) {
  %0 = quant.qcast %x : f64 to !quant.uniform<i8:f32:1, {1.0, 2.0}>
  return
}

// -----

// CHECK:       storage type in quantized type expected to match integer type
func.func @f(%x: i4) {
  %0 = quant.scast %x : i4 to !quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
  return
}

// -----

// Sub-channel integrity.

// CHECK:       scalar types may not use sub-channel quantization
func.func @f(%x: f32) {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
  return
}

// -----

// CHECK:       scalar types may not use sub-channel quantization
func.func @f(%x: !quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>) {
  %0 = quant.dcast %x : !quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}> to f32
  return
}

// -----

// CHECK:       scalar types may not use sub-channel quantization
func.func @f(%x: i8) {
  %0 = quant.scast %x : i8 to !quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
  return
}

// -----

// CHECK:       quantized dimension 1 must be less than tensor rank 1
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       quantized dimension 3 must be less than tensor rank 2
func.func @f(%x: tensor<2x4xf32>) {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{3:1}, {{1.0}}>>
  return
}

// -----

// CHECK:       tensor dimension size 3 at axis 1 must be divisible by the corresponding block size 2
func.func @f(%x: tensor<2x3xf32>) {
  %0 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       tensor dimension size 5 at axis 1 must be divisible by the corresponding block size 2
func.func @f(%x: tensor<2x5x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>) {
  %0 = quant.dcast %x : tensor<2x5x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>> to tensor<2x5xf32>
  return
}

// -----

// CHECK:       tensor dimension size of zero is not allowed with sub-channel quantization
func.func @f(%x: tensor<0x4xi8>) {
  %0 = quant.scast %x : tensor<0x4xi8> to tensor<0x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       tensor dimension size of zero is not allowed with sub-channel quantization
func.func @f(%x: tensor<2x4x0xf32>) {
  %0 = quant.qcast %x : tensor<2x4x0xf32> to tensor<2x4x0x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       Rank of scales 2 must match the rank of the tensor 3
func.func @f(%x: tensor<2x4x2xf32>) {
  %0 = quant.qcast %x : tensor<2x4x2xf32> to tensor<2x4x2x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       Rank of scales 1 must match the rank of the tensor 2
func.func @f(%x: tensor<2x4xf32>) {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{}, {1.0}>>
  return
}

// -----

// CHECK:       Rank of scales 1 must match the rank of the tensor 2
func.func @f(%x: tensor<?x?xf32>) {
  %0 = quant.qcast %x : tensor<?x?xf32> to tensor<?x?x!quant.uniform<i8:f32:{0:1}, {1.0}>>
  return
}

// -----

// CHECK:       dimension size 4 of scales tensor at axis 1 should match (tensor dimension at axis / block sizes at axis) = 4
func.func @f(%x: tensor<2x8xf32>) {
  %0 = quant.qcast %x : tensor<2x8xf32> to tensor<2x8x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       dimension size 4 of scales tensor at axis 0 should match (tensor dimension at axis / block sizes at axis) = 4
func.func @f(%x: tensor<4x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>) {
  %0 = quant.dcast %x : tensor<4x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>> to tensor<4x4xf32>
  return
}

// -----

// CHECK:       dimension size 1 of scales tensor at axis 1 should match (tensor dimension at axis / block sizes at axis) = 1
func.func @f(%x: tensor<?x2xi8>) {
  %0 = quant.scast %x : tensor<?x2xi8> to tensor<?x2x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       dimension size 1 of scales tensor at axis 0 should match (tensor dimension at axis / block sizes at axis) = 1
func.func @f(%x: tensor<?x?xf32>) {
  %0 = quant.qcast %x : tensor<?x?xf32> to tensor<?x?x!quant.uniform<i8:f32:{1:2}, {{1.0, 2.0}, {3.0, 4.0}}>>
  return
}

// -----

// CHECK:       dimension size 1 of scales tensor at axis 1 should match (tensor dimension at axis / block sizes at axis) = 1
func.func @f(%x: tensor<2x4xf32>) {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{1:2, 1:4}, {{1.0, 2.0}}>>
  return
}

// -----

// Sub-channel types on unranked tensors, which MLIR refuses.

// CHECK:       Rank of scales 1 must match the rank of the tensor or the number of quantized dimensions 2
func.func @f(%x: tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {1.0, 2.0}>>
  return
}

// -----

// CHECK:       Rank of scales 3 must match the rank of the tensor or the number of quantized dimensions 2
func.func @f(%x: tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{1.0, 2.0}}}>>) {
  %0 = quant.dcast %x : tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{1.0, 2.0}}}>> to tensor<*xf32>
  return
}

// -----

// CHECK:       Rank of scales 2 must match the rank of the tensor or the number of quantized dimensions 3
func.func @f(%x: tensor<*xi8>) {
  %0 = quant.scast %x : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{0:2, 1:2, 2:2}, {{1.0, 2.0}}>>
  return
}

// -----

// CHECK:       dimension size 2 of scales tensor at axis 0 should be 1, as the axis has no block size
func.func @f(%x: tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{1:2}, {{1.0}, {2.0}}>>
  return
}

// -----

// CHECK:       dimension size 2 of scales tensor at axis 0 should be 1, as the axis has no block size
func.func @f(%x: tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{}, {1.0, 2.0}>>
  return
}
