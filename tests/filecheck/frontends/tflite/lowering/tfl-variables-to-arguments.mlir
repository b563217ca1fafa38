// RUN: xdsl-opt %s -p tfl-variables-to-arguments --split-input-file | filecheck %s

// Variables become arguments and results after those that are there, in the order in which
// they are needed; the function that sets them is needed no more.

func.func @main(%x: tensor<2xi32> {test.kept}) -> tensor<2xi32> {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %h = "tfl.var_handle"() <{container = "", shared_name = "sum"}> : () -> tensor<*x!tf_type.resource>
  %k = "tfl.var_handle"() <{container = "", shared_name = "a/last"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.read_variable"(%k) : (tensor<*x!tf_type.resource>) -> tensor<2xi32>
  "tfl.assign_variable"(%k, %x) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  %1 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<2xi32>
  %2 = tfl.sub %1, %0 {fused_activation_function = "NONE"} : tensor<2xi32>
  "tfl.assign_variable"(%h, %2) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  %3 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<2xi32>
  %4 = tfl.add %3, %x {fused_activation_function = "NONE"} : tensor<2xi32>
  "tfl.assign_variable"(%h, %4) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  return %2 : tensor<2xi32>
}
func.func private @init() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "sum"}> : () -> tensor<*x!tf_type.resource>
  %k = "tfl.var_handle"() <{container = "", shared_name = "a/last"}> : () -> tensor<*x!tf_type.resource>
  %u = "tfl.var_handle"() <{container = "", shared_name = "unused"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<[10, 20]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %1 = "tfl.pseudo_const"() <{value = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
  "tfl.assign_variable"(%h, %0) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  "tfl.assign_variable"(%k, %1) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  "tfl.assign_variable"(%u, %1) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<2xi32> {test.kept}, %a_last: tensor<2xi32> {tfl.initial_value = dense<0> : tensor<2xi32>, tfl.next_state = 1 : i32}, %sum: tensor<2xi32> {tfl.initial_value = dense<[10, 20]> : tensor<2xi32>, tfl.next_state = 2 : i32}) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) {
// CHECK-NEXT:      %0 = tfl.sub %sum, %a_last {fused_activation_function = "NONE"} : tensor<2xi32>
// CHECK-NEXT:      %1 = tfl.add %0, %x {fused_activation_function = "NONE"} : tensor<2xi32>
// CHECK-NEXT:      func.return %0, %x, %1 : tensor<2xi32>, tensor<2xi32>, tensor<2xi32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A variable that is only read or only assigned is state if it has an initial value. One
// without is none if it is assigned before it is read. Of two initial values the last one
// counts.

func.func @main(%x: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  "tfl.call_once"() <{session_init_function = "again"}> : () -> ()
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %r = "tfl.var_handle"() <{container = "", shared_name = "read"}> : () -> tensor<*x!tf_type.resource>
  %w = "tfl.var_handle"() <{container = "c", shared_name = "written"}> : () -> tensor<*x!tf_type.resource>
  %t = "tfl.var_handle"() <{container = "", shared_name = "temporary"}> : () -> tensor<*x!tf_type.resource>
  "tfl.assign_variable"(%t, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  "tfl.assign_variable"(%w, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  %0 = "tfl.read_variable"(%r) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  %1 = "tfl.read_variable"(%t) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  return %0, %1 : tensor<i32>, tensor<i32>
}
func.func private @init() {
  %r = "tfl.var_handle"() <{container = "", shared_name = "read"}> : () -> tensor<*x!tf_type.resource>
  %w = "tfl.var_handle"() <{container = "c", shared_name = "written"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  "tfl.assign_variable"(%r, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  "tfl.assign_variable"(%w, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return
}
func.func private @again() {
  %r = "tfl.var_handle"() <{container = "", shared_name = "read"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
  "tfl.assign_variable"(%r, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<i32>, %read: tensor<i32> {tfl.initial_value = dense<2> : tensor<i32>, tfl.next_state = 2 : i32}, %written: tensor<i32> {tfl.initial_value = dense<1> : tensor<i32>, tfl.next_state = 3 : i32}) -> (tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) {
// CHECK-NEXT:      func.return %read, %x, %read, %x : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// In both branches of a condition, or in one of them, which may be absent.

func.func @main(%c: tensor<i1>, %x: tensor<i32>) -> tensor<i32> {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.if"(%c) ({
    %1 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
    %2 = tfl.add %1, %x {fused_activation_function = "NONE"} : tensor<i32>
    "tfl.assign_variable"(%h, %2) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
    "tfl.yield"(%1) : (tensor<i32>) -> ()
  }, {
    "tfl.yield"(%x) : (tensor<i32>) -> ()
  }) : (tensor<i1>) -> tensor<i32>
  "tfl.if"(%c) ({
    "tfl.assign_variable"(%h, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
    "tfl.yield"() : () -> ()
  }, {
  }) : (tensor<i1>) -> ()
  return %0 : tensor<i32>
}
func.func private @init() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  "tfl.assign_variable"(%h, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%c: tensor<i1>, %x: tensor<i32>, %h: tensor<i32> {tfl.initial_value = dense<1> : tensor<i32>, tfl.next_state = 1 : i32}) -> (tensor<i32>, tensor<i32>) {
// CHECK-NEXT:      %0, %1 = "tfl.if"(%c) ({
// CHECK-NEXT:        %2 = tfl.add %h, %x {fused_activation_function = "NONE"} : tensor<i32>
// CHECK-NEXT:        "tfl.yield"(%h, %2) : (tensor<i32>, tensor<i32>) -> ()
// CHECK-NEXT:      }, {
// CHECK-NEXT:        "tfl.yield"(%x, %h) : (tensor<i32>, tensor<i32>) -> ()
// CHECK-NEXT:      }) : (tensor<i1>) -> (tensor<i32>, tensor<i32>)
// CHECK-NEXT:      %3 = "tfl.if"(%c) ({
// CHECK-NEXT:        "tfl.yield"(%x) : (tensor<i32>) -> ()
// CHECK-NEXT:      }, {
// CHECK-NEXT:        "tfl.yield"(%1) : (tensor<i32>) -> ()
// CHECK-NEXT:      }) : (tensor<i1>) -> tensor<i32>
// CHECK-NEXT:      func.return %0, %3 : tensor<i32>, tensor<i32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// In a loop, what is assigned is carried around, and what is only read is not.

func.func @main(%x: tensor<i32>) -> tensor<i32> {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %l = "tfl.var_handle"() <{container = "", shared_name = "limit"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.while"(%x) ({
  ^bb0(%a: tensor<i32>):
    %1 = "tfl.read_variable"(%l) : (tensor<*x!tf_type.resource>) -> tensor<i32>
    %2 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
    %3 = tfl.less(%2, %1) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "tfl.yield"(%3) : (tensor<i1>) -> ()
  }, {
  ^bb0(%a: tensor<i32>):
    %1 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
    %2 = tfl.add %1, %a {fused_activation_function = "NONE"} : tensor<i32>
    "tfl.assign_variable"(%h, %2) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
    "tfl.yield"(%a) : (tensor<i32>) -> ()
  }) : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}
func.func private @init() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %l = "tfl.var_handle"() <{container = "", shared_name = "limit"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  "tfl.assign_variable"(%h, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  "tfl.assign_variable"(%l, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<i32>, %h: tensor<i32> {tfl.initial_value = dense<1> : tensor<i32>, tfl.next_state = 1 : i32}, %limit: tensor<i32> {tfl.initial_value = dense<1> : tensor<i32>, tfl.next_state = 2 : i32}) -> (tensor<i32>, tensor<i32>, tensor<i32>) {
// CHECK-NEXT:      %0, %1 = "tfl.while"(%x, %h) ({
// CHECK-NEXT:      ^bb0(%a: tensor<i32>, %2: tensor<i32>):
// CHECK-NEXT:        %3 = tfl.less(%2, %limit) : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK-NEXT:        "tfl.yield"(%3) : (tensor<i1>) -> ()
// CHECK-NEXT:      }, {
// CHECK-NEXT:      ^bb0(%a_1: tensor<i32>, %4: tensor<i32>):
// CHECK-NEXT:        %5 = tfl.add %4, %a_1 {fused_activation_function = "NONE"} : tensor<i32>
// CHECK-NEXT:        "tfl.yield"(%a_1, %5) : (tensor<i32>, tensor<i32>) -> ()
// CHECK-NEXT:      }) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
// CHECK-NEXT:      func.return %0, %1, %limit : tensor<i32>, tensor<i32>, tensor<i32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Functions that have state are inlined, others are not. The state of an op is shared by
// the calls of its function.

func.func @main(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>) -> tensor<1x2xf32> {
  %0 = call @filter(%x, %f, %t) : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
  %1 = call @filter(%0, %f, %t) : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
  return %1 : tensor<1x2xf32>
}
func.func private @filter(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>) -> tensor<1x2xf32> {
  %none = "tfl.no_value"() <{value}> : () -> none
  %s = "tfl.pseudo_const"() <{value = dense<0.5> : tensor<1x6xf32>}> : () -> tensor<1x6xf32>
  %0 = "tfl.svdf"(%x, %f, %t, %none, %s) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> tensor<1x2xf32>
  %1 = call @plain(%0) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  return %1 : tensor<1x2xf32>
}
func.func private @plain(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  return %x : tensor<1x2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>, %state: tensor<1x6xf32> {tfl.initial_value = dense<5.000000e-01> : tensor<1x6xf32>, tfl.next_state = 1 : i32}) -> (tensor<1x2xf32>, tensor<1x6xf32>) {
// CHECK-NEXT:      %none = "tfl.no_value"() <{value}> : () -> none
// CHECK-NEXT:      %0, %1 = "tfl.svdf"(%x, %f, %t, %none, %state) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x6xf32>)
// CHECK-NEXT:      %x_1 = func.call @plain(%0) : (tensor<1x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:      %none_1 = "tfl.no_value"() <{value}> : () -> none
// CHECK-NEXT:      %2, %3 = "tfl.svdf"(%x_1, %f, %t, %none_1, %1) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x6xf32>)
// CHECK-NEXT:      %4 = func.call @plain(%2) : (tensor<1x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:      func.return %4, %3 : tensor<1x2xf32>, tensor<1x6xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func private @plain(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
// CHECK-NEXT:      func.return %x : tensor<1x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// The names of a signature.

func.func @main(%x: tensor<i32> {tf_saved_model.index_path = ["x"]}) -> (tensor<i32> {tf_saved_model.index_path = ["y"]}) attributes {tf.entry_function = {inputs = "in", outputs = "out"}, tf_saved_model.exported_names = ["serving_default"]} {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %a = "tfl.var_handle"() <{container = "a", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %b = "tfl.var_handle"() <{container = "b", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.read_variable"(%a) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  "tfl.assign_variable"(%b, %x) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return %0 : tensor<i32>
}
func.func private @init() {
  %a = "tfl.var_handle"() <{container = "a", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %b = "tfl.var_handle"() <{container = "b", shared_name = "h"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  "tfl.assign_variable"(%a, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  "tfl.assign_variable"(%b, %0) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<i32> {tf_saved_model.index_path = ["x"]}, %h: tensor<i32> {tf_saved_model.index_path = ["h"], tfl.initial_value = dense<1> : tensor<i32>, tfl.next_state = 1 : i32}, %h_1: tensor<i32> {tf_saved_model.index_path = ["h_1"], tfl.initial_value = dense<1> : tensor<i32>, tfl.next_state = 2 : i32}) -> (tensor<i32> {tf_saved_model.index_path = ["y"]}, tensor<i32> {tf_saved_model.index_path = ["h_next"]}, tensor<i32> {tf_saved_model.index_path = ["h_1_next"]}) attributes {tf.entry_function = {inputs = "in,h,h_1", outputs = "out,h_next,h_1_next"}, tf_saved_model.exported_names = ["serving_default"]} {
// CHECK-NEXT:      func.return %h, %h, %x : tensor<i32>, tensor<i32>, tensor<i32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Without state nothing changes, and what has become an argument is none any more.

func.func @main(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>, %s: tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x6xf32>) {
  %none = "tfl.no_value"() <{value}> : () -> none
  %0, %1 = "tfl.svdf"(%x, %f, %t, %none, %s) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x6xf32>)
  return %0, %1 : tensor<1x2xf32>, tensor<1x6xf32>
}
func.func private @unused() {
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>, %s: tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x6xf32>) {
// CHECK-NEXT:      %none = "tfl.no_value"() <{value}> : () -> none
// CHECK-NEXT:      %0, %1 = "tfl.svdf"(%x, %f, %t, %none, %s) <{fused_activation_function = "NONE", rank = 1 : i32}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x6xf32>)
// CHECK-NEXT:      func.return %0, %1 : tensor<1x2xf32>, tensor<1x6xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func private @unused() {
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }
