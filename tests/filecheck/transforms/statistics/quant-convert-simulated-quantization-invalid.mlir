// RUN: xdsl-opt %s -p quant-convert-simulated-quantization --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       mismatched per-axis min and max size: 2 vs. 1
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant_per_axis %x {axis = 0, num_bits = 8, min = [0.0 : f32, 0.0 : f32], max = [1.0 : f32]} : tensor<2xf32>
  return
}

// -----

// CHECK:       unsupported FakeQuant number of bits: 33
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <0.0:1.0> bits 33 : f32
  return
}

// -----

// MLIR makes 8 bits of none.

// CHECK:       unsupported FakeQuant number of bits: 0
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <0.0:1.0> bits 0 : f32
  return
}

// -----

// CHECK:       unsupported FakeQuant number of bits: -8
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <0.0:1.0> bits -8 : f32
  return
}

// -----

// MLIR speaks of the scale, which nobody has written.

// CHECK:       'quant.const_fake_quant' op cannot be converted: range 1.0 to 0.0 is reversed
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <1.0:0.0> bits 8 : f32
  return
}

// -----

// CHECK:       'quant.const_fake_quant' op cannot be converted: range nan to 0.0 is not finite
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <0x7FC00000:0.0> bits 8 : f32
  return
}

// -----

// CHECK:       'quant.const_fake_quant' op cannot be converted: range 0.0 to inf is not finite
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <0.0:0x7F800000> bits 8 : f32
  return
}

// -----

// CHECK:       'quant.const_fake_quant_per_axis' op cannot be converted: range 3.0 to 2.0 of channel 1 is reversed
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant_per_axis %x axis 0 [<0.0:1.0>, <3.0:2.0>] bits 8 : tensor<2xf32>
  return
}

// -----

// MLIR makes types of these that do not fit their tensors.

// CHECK:       'quant.const_fake_quant_per_axis' op cannot be converted: quantized dimension size does not match number of scales
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant_per_axis %x axis 0 [<0.0:1.0>] bits 8 : tensor<2xf32>
  return
}

// -----

// CHECK:       'quant.const_fake_quant_per_axis' op cannot be converted: quantized dimension must be less than tensor rank
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant_per_axis %x axis 1 [<0.0:1.0>] bits 8 : tensor<2xf32>
  return
}

// -----

// CHECK:       'quant.const_fake_quant_per_axis' op cannot be converted: expected a quantized dimension of at least 0, found -1
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant_per_axis %x axis -1 [<0.0:1.0>, <0.0:1.0>] bits 8 : tensor<2xf32>
  return
}

// -----

// CHECK:       'quant.const_fake_quant_per_axis' op cannot be converted: expected at least one scale, found shape (0,)
func.func @f(%x: tensor<?xf32>) {
  %0 = quant.const_fake_quant_per_axis %x axis 0 [] bits 8 : tensor<?xf32>
  return
}

// -----

// CHECK:       'quant.const_fake_quant' op cannot be converted: scale 3.921569e+35 out of expressed type range [5.960464e-08, 6.550400e+04]
func.func @f(%x: f16) {
  %0 = quant.const_fake_quant %x <0.0:1.0e38> bits 8 : f16
  return
}
