// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'quant.region' op requires attribute 'output_specs'
func.func @f() {
  "quant.region"() ({
    "quant.return"() : () -> ()
  }) {input_specs = [], logical_kernel = "k"} : () -> ()
  return
}

// -----

// CHECK: 'quant.region' op attribute 'input_specs' failed to satisfy constraint: type array attribute
func.func @f() {
  "quant.region"() ({
    "quant.return"() : () -> ()
  }) {input_specs = [1], logical_kernel = "k", output_specs = []} : () -> ()
  return
}

// -----

// CHECK: 'quant.region' op has unmatched operands/results number and spec attributes number
func.func @f(%x: tensor<4xf32>) {
  "quant.region"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    "quant.return"() : () -> ()
  }) {input_specs = [], logical_kernel = "k", output_specs = []} : (tensor<4xf32>) -> ()
  return
}

// -----

// CHECK: 'quant.region' op has incompatible specification !quant.any<i8:f16> and input type 'tensor<4xf32>'
func.func @f(%x: tensor<4xf32>) {
  quant.region "k" (%a = %x : tensor<4xf32> as !quant.any<i8:f16>) {
  }
  return
}

// -----

// CHECK: 'quant.region' op has incompatible specification f16 and output type 'f32'
func.func @f(%x: f32) {
  %0 = quant.region "k" (%a = %x : f32) -> (f32 as f16) {
    quant.return %a : f32
  }
  return
}

// -----

// CHECK: 'quant.region' op has incompatible specification !quant.uniform<i8:f32:1, {5.000000e-01}> and input type 'tensor<4xf32>'
func.func @f(%x: tensor<4xf32>) {
  quant.region "k" (%a = %x : tensor<4xf32> as !quant.uniform<i8:f32:1, {0.5}>) {
  }
  return
}

// -----

// CHECK: 'quant.region' op expected arguments of types 'f16' like its operands, but got 'f32'
func.func @f(%x: f16) {
  "quant.region"(%x) ({
  ^bb0(%a: f32):
    "quant.return"() : () -> ()
  }) {input_specs = [f16], logical_kernel = "k", output_specs = []} : (f16) -> ()
  return
}

// -----

// CHECK: 'quant.region' op expected returned values of types 'f32' like its results, but got none
func.func @f(%x: f32) {
  %0 = quant.region "k" (%a = %x : f32) -> (f32) {
  }
  return
}

// -----

// CHECK: 'quant.region' op expected returned values of types 'f32' like its results, but got 'f32', 'f32'
func.func @f(%x: f32) {
  %0 = quant.region "k" (%a = %x : f32) -> (f32) {
    quant.return %a, %a : f32, f32
  }
  return
}

// -----

// CHECK: 'quant.region' op must not be nested in another 'quant.region' op
func.func @f() {
  quant.region "k" () {
    quant.region "l" () {
    }
  }
  return
}

// -----

// CHECK: 'quant.return' expects parent op 'quant.region'
func.func @f(%x: f32) {
  quant.return %x : f32
}

// -----

// CHECK: regions-invalid.mlir:113:23
// CHECK: 'quant.region' op uses %x from outside; make it an operand
func.func @f(%x: f32) {
  quant.region "k" () {
    quant.return %x : f32
  }
  return
}

// -----

// CHECK: Operation using value defined out of its IsolatedFromAbove parent
func.func @f(%x: f32) {
  %0 = "quant.region"() ({
    "quant.return"(%x) : (f32) -> ()
  }) {input_specs = [], logical_kernel = "k", output_specs = [f32]} : () -> f32
  return
}

// -----

// CHECK: string literal expected
func.func @f() {
  quant.region @k () {
  }
  return
}

// -----

// CHECK: Expected '='
func.func @f(%x: f32) {
  quant.region "k" (%x : f32) {
  }
  return
}
