// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @missing_property(%x: tensor<2xf32>) {
  %0 = "tfl.softmax"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: 'tfl.softmax' op requires attribute 'beta'

// -----

func.func @enumeration(%x: tensor<2xf32>) {
  %0 = tfl.add %x, %x {fused_activation_function = "X"} : tensor<2xf32>
  func.return
}
// CHECK: 'tfl.add' op attribute 'fused_activation_function' failed to satisfy constraint: string attribute whose value is NONE, or RELU, or RELU_N1_TO_1, or RELU6, or TANH, or SIGN_BIT

// -----

func.func @no_tensor(%x: memref<2xf32>) {
  %0 = "tfl.relu"(%x) : (memref<2xf32>) -> tensor<2xf32>
  func.return
}
// CHECK: 'tfl.relu' op operand #0 must be tensor of 32-bit float or QUI8 type or QI8 type or QI16 type values, but got 'memref<2xf32>'

// -----

func.func @element_types(%x: tensor<2xf32>) {
  %0 = "tfl.relu"(%x) : (tensor<2xf32>) -> tensor<2xi32>
  func.return
}
// CHECK: 'tfl.relu' op failed to verify that x and y must have same element type

// -----

func.func @scales(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>, %s: tensor<1xi32>) {
  %0 = "tfl.reshape"(%x, %s) : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<1xi32>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  func.return
}
// CHECK: 'tfl.reshape' op quantization parameters violate the same scale constraint: !quant.uniform<i8:f32, 5.000000e-01> vs. !quant.uniform<i8:f32, 2.500000e-01>

// -----

func.func @broadcast(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  %0 = tfl.mul(%x, %y) <{fused_activation_function = "NONE"}> : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}
// CHECK: 'tfl.mul' op operands don't have broadcast-compatible shapes

// -----

func.func @inferred(%x: tensor<1x4x4x2xf32>, %f: tensor<3x2x2x2xf32>, %n: none) {
  %0 = "tfl.conv_2d"(%x, %f, %n) <{dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, fused_activation_function = "NONE", padding = "VALID", stride_h = 1 : i32, stride_w = 1 : i32}> : (tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, none) -> tensor<1x4x4x3xf32>
  func.return
}
// CHECK: 'tfl.conv_2d' op inferred type(s) 'tensor<1x3x3x3xf32>' are incompatible with return type(s) of operation 'tensor<1x4x4x3xf32>'

// -----

func.func @next_state(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>, %n: none, %s: tensor<1x6xf32>) {
  %0:2 = "tfl.svdf"(%x, %f, %t, %n, %s) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
  func.return
}
// CHECK: 'tfl.svdf' op requires the next state to have the type of the state

// -----

func.func @no_result(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>, %n: none, %s: tensor<1x6xf32>) {
  "tfl.svdf"(%x, %f, %t, %n, %s) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> ()
  func.return
}
// CHECK: 'tfl.svdf' op requires one result
