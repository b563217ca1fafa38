// RUN: xdsl-opt %s -p tfl-variables-to-arguments --allow-unregistered-dialect --verify-diagnostics --split-input-file | filecheck %s

// CHECK: 'tfl.read_variable' op reads variable 'h' before it is assigned, expected an initial value from 'tfl.call_once'
func.func @main() -> tensor<i32> {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  "tfl.assign_variable"(%h, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return %0 : tensor<i32>
}

// -----

// It may be assigned, or not.
// CHECK: 'tfl.read_variable' op reads variable 'h' before it is assigned, expected an initial value from 'tfl.call_once'
func.func @main(%c: tensor<i1>, %x: tensor<i32>) -> tensor<i32> {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  "tfl.if"(%c) ({
    "tfl.assign_variable"(%h, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
    "tfl.yield"() : () -> ()
  }, {
    "tfl.yield"() : () -> ()
  }) : (tensor<i1>) -> ()
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

// A loop may have no step.
// CHECK: 'tfl.read_variable' op reads variable 'h' before it is assigned, expected an initial value from 'tfl.call_once'
func.func @main(%x: tensor<i32>, %c: tensor<i1>) -> tensor<i32> {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  "tfl.while"() ({
    "tfl.yield"(%c) : (tensor<i1>) -> ()
  }, {
    "tfl.assign_variable"(%h, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
    "tfl.yield"() : () -> ()
  }) : () -> ()
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

// CHECK: 'tfl.read_variable' op has type 'tensor<3xi32>' for variable 'h', expected 'tensor<2xi32>' as elsewhere
func.func @main(%x: tensor<2xi32>) -> tensor<3xi32> {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  "tfl.assign_variable"(%h, %x) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// -----

// CHECK: 'tfl.read_variable' op has a handle that is not the result of 'tfl.var_handle'
func.func @main(%h: tensor<*x!tf_type.resource>) -> tensor<i32> {
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

// CHECK: 'tfl.hashtable_find' op has the handle of variable 'h' as an operand, expected 'tfl.read_variable' or 'tfl.assign_variable'
func.func @main() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  "tfl.hashtable_find"(%h) : (tensor<*x!tf_type.resource>) -> ()
  return
}

// -----

// CHECK: 'tfl.call_once' op is in a region or after the use of a variable, expected it at the start of a function
func.func @main(%x: tensor<i32>) {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  "tfl.assign_variable"(%h, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  return
}
func.func private @init() {
  return
}

// -----

// CHECK: 'tfl.call_once' op is in a region or after the use of a variable, expected it at the start of a function
func.func @main(%c: tensor<i1>) {
  "tfl.if"(%c) ({
    "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
    "tfl.yield"() : () -> ()
  }, {
  }) : (tensor<i1>) -> ()
  return
}
func.func private @init() {
  return
}

// -----

// CHECK: 'tfl.call_once' op calls '@nothing', expected a function of the module that has one block
func.func @main() {
  "tfl.call_once"() <{session_init_function = "nothing"}> : () -> ()
  return
}

// -----

// CHECK: 'tfl.neg' op is in '@init', which 'tfl.call_once' calls, expected only assignments of constants to variables
func.func @main() {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  return
}
func.func private @init() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  %1 = "tfl.neg"(%0) : (tensor<i32>) -> tensor<i32>
  "tfl.assign_variable"(%h, %1) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return
}

// -----

// CHECK: 'tfl.assign_variable' op changes state in the condition of 'tfl.while', expected it in the body
func.func @main(%x: tensor<i32>, %c: tensor<i1>) {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  "tfl.while"() ({
    "tfl.assign_variable"(%h, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
    "tfl.yield"(%c) : (tensor<i1>) -> ()
  }, {
    "tfl.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

// CHECK: 'tfl.assign_variable' op uses a variable in a region of 'test.region'; only regions of 'tfl.if' and 'tfl.while' may have state
func.func @main(%x: tensor<i32>) {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  "test.region"() ({
    "tfl.assign_variable"(%h, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  }) : () -> ()
  return
}

// -----

// CHECK: 'tfl.svdf' op has a state that is not a constant
func.func @main(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>, %s: tensor<1x6xf32>) {
  %none = "tfl.no_value"() <{value}> : () -> none
  %0 = "tfl.svdf"(%x, %f, %t, %none, %s) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> tensor<1x2xf32>
  return
}

// -----

// CHECK: 'func.call' op recursively calls '@f', which has state
func.func @f() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  func.call @g() : () -> ()
  return
}
func.func private @g() {
  func.call @f() : () -> ()
  return
}

// -----

// CHECK: 'func.constant' op refers to '@f', which has state, expected only calls of it
func.func @f() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %0 = "func.constant"() <{value = @f}> : () -> (() -> ())
  return
}

// -----

// CHECK: 'func.func' op '@f' has state, expected one block that ends with 'func.return'
func.func @f() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  cf.br ^bb1
^bb1:
  return
}

// -----

// CHECK: 'func.call' op calls '@g', expected a function of the module that has one block
func.func @f() {
  func.call @g() : () -> ()
  return
}
func.func private @g() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  cf.br ^bb1
^bb1:
  return
}

// -----

// CHECK: 'tfl.call_once' op is not in a function of the module
builtin.module {
  func.func @f() {
    return
  }
  builtin.module {
    func.func @g() {
      "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
      return
    }
  }
}
