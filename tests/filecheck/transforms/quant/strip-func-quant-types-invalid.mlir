// RUN: xdsl-opt %s -p strip-func-quant-types --allow-unregistered-dialect --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'func.func' op argument #1 cannot be stripped: '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no storage type; convert it to '!quant.uniform' first
func.func private @argument(f32, !quant.calibrated<f32<-1.0:1.0>>)

// -----

// CHECK: 'func.func' op result #0 cannot be stripped: '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no storage type; convert it to '!quant.uniform' first
func.func private @result() -> tensor<4x!quant.calibrated<f32<-1.0:1.0>>>

// -----

// CHECK: 'func.func' op block argument #0 cannot be stripped: '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no storage type; convert it to '!quant.uniform' first
func.func @block_argument() {
  %a = "test.op"() : () -> !quant.calibrated<f32<-1.0:1.0>>
  cf.br ^bb1(%a : !quant.calibrated<f32<-1.0:1.0>>)
^bb1(%b: !quant.calibrated<f32<-1.0:1.0>>):
  return
}

// -----

// CHECK: 'func.call_indirect' op operand #1 cannot be stripped: '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no storage type; convert it to '!quant.uniform' first
func.func @operand() {
  %f, %a = "test.op"() : () -> (f32, !quant.calibrated<f32<-1.0:1.0>>)
  "func.call_indirect"(%f, %a) : (f32, !quant.calibrated<f32<-1.0:1.0>>) -> ()
  return
}

// -----

// CHECK: 'test.op' op function value cannot be stripped: '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no storage type; convert it to '!quant.uniform' first
func.func @function_value() {
  %f = "test.op"() : () -> (() -> !quant.calibrated<f32<-1.0:1.0>>)
  return
}

// -----

// CHECK: 'func.call' op result #0 cannot be stripped: scalar types may not use per-axis quantization
func.func private @callee() -> !quant.uniform<i8:f32:0, {1.0}>
func.func @no_cast() {
  %a = func.call @callee() : () -> !quant.uniform<i8:f32:0, {1.0}>
  "test.op"(%a) : (!quant.uniform<i8:f32:0, {1.0}>) -> ()
  return
}

// -----

// CHECK: 'test.branch' op has successors with quantized arguments, but its last operands do not have the types of these arguments
func.func @branch(%a: !quant.any<i8>, %b: i8) {
  "test.branch"(%a, %b) [^bb1] : (!quant.any<i8>, i8) -> ()
^bb1(%c: !quant.any<i8>):
  return
}
