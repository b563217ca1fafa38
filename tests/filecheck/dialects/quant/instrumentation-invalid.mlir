// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'quant.const_fake_quant' op requires attribute 'min'
func.func @f(%x: tensor<2xf32>) {
  %0 = "quant.const_fake_quant"(%x) {max = 1.0 : f32, num_bits = 8} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.const_fake_quant' op attribute 'max' failed to satisfy constraint: 32-bit float attribute
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant %x {min = 0.0 : f32, max = 1.0 : f64, num_bits = 8} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.const_fake_quant' op attribute 'narrow_range' failed to satisfy constraint: bool attribute
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant %x <0.0:1.0> bits 8 {narrow_range} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.const_fake_quant' op operand #0 must be floating-point or tensor of floating-point values, but got 'tensor<2xi8>'
func.func @f(%x: tensor<2xi8>) {
  %0 = quant.const_fake_quant %x <0.0:1.0> bits 8 : tensor<2xi8>
  return
}

// -----

// CHECK: 'quant.const_fake_quant' op requires the same type for all operands and results
func.func @f(%x: tensor<2xf32>) {
  %0 = "quant.const_fake_quant"(%x) {min = 0.0 : f32, max = 1.0 : f32, num_bits = 8} : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// CHECK: 'quant.const_fake_quant_per_axis' op operand #0 must be tensor of floating-point values, but got 'f32'
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant_per_axis %x axis 0 [<0.0:1.0>] bits 8 : f32
  return
}

// -----

// CHECK: 'quant.const_fake_quant_per_axis' op attribute 'min' failed to satisfy constraint: 32-bit float array attribute
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant_per_axis %x {min = [0.0 : f64], max = [1.0 : f32], axis = 0, num_bits = 8} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.stats' op operand #0 must be primitive/tensor/vector of real valued primitive (float or quantized type), but got 'tensor<2xi8>'
func.func @f(%x: tensor<2xi8>) {
  %0 = quant.stats %x <0.0:1.0> : tensor<2xi8>
  return
}

// -----

// CHECK: 'quant.stats' op attribute 'layerStats' failed to satisfy constraint: constant vector/tensor attribute
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.stats %x {layerStats = [1.0]} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.stats' op layerStats must have a floating point element type
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.stats %x {layerStats = dense<[-1, 1]> : tensor<2xi8>} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.stats' op layerStats must have shape [2]
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.stats %x {layerStats = dense<1.0> : tensor<3xf32>} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.stats' op axis must be specified for axisStats
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.stats %x <-1.0:1.0> {axisStats = dense<1.0> : tensor<2x2xf32>} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.stats' op axisStats must have a floating point element type
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.stats %x <-1.0:1.0> {axis = 0, axisStats = dense<1> : tensor<2x2xi32>} : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.stats' op axisStats must have shape [N,2] where N = the slice size defined by the axis dim
func.func @f(%x: tensor<8x4x3xf32>) {
  %0 = quant.stats %x <-1.0:1.0> axis 2 [<-1.0:1.0>] : tensor<8x4x3xf32>
  return
}

// -----

// MLIR crashes.

// CHECK: 'quant.stats' op axisStats must have shape [N,2] where N = the slice size defined by the axis dim
func.func @f(%x: tensor<2xf32>) {
  %0 = quant.stats %x <-1.0:1.0> axis 5 [<-1.0:1.0>] : tensor<2xf32>
  return
}

// -----

// CHECK: 'quant.stats' op arg needs to be tensor type.
func.func @f(%x: f32) {
  %0 = quant.stats %x <-1.0:1.0> axis 0 [<-1.0:1.0>] : f32
  return
}

// -----

// CHECK: 'quant.stats_ref' op requires attribute 'statsKey'
func.func @f(%x: f32) {
  %0 = quant.stats_ref %x : f32
  return
}

// -----

// CHECK: 'quant.coupled_ref' op attribute 'coupledKey' failed to satisfy constraint: string attribute
func.func @f(%x: f32) {
  %0 = quant.coupled_ref %x {coupledKey = 1 : i64} : f32
  return
}

// -----

// CHECK: bound of a range needs a decimal point; write -1.0e-17
func.func @f(%x: f32) {
  %0 = quant.stats %x <-1e-17:2.0> : f32
  return
}

// -----

// CHECK: bound of a range is out of range for f32
func.func @f(%x: f32) {
  %0 = quant.stats %x <0.0:1.0e39> : f32
  return
}

// -----

// CHECK: hexadecimal float constant out of range for type
func.func @f(%x: f32) {
  %0 = quant.stats %x <0x123456789:1.0> : f32
  return
}

// -----

// CHECK: attribute 'layerStats' occurs twice
func.func @f(%x: f32) {
  %0 = quant.stats %x <0.0:1.0> {layerStats = dense<0.0> : tensor<2xf32>} : f32
  return
}

// -----

// CHECK: Expected 'bits'
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <0.0:1.0> : f32
  return
}

// -----

// CHECK: integer or float literal expected in a range
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <:1.0> : f32
  return
}

// -----

// CHECK: expected range
func.func @f(%x: tensor<1xf32>) {
  %0 = quant.const_fake_quant_per_axis %x axis 0 [1.0] bits 8 : tensor<1xf32>
  return
}
