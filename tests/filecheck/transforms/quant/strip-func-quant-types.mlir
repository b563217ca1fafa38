// RUN: xdsl-opt %s -p strip-func-quant-types --allow-unregistered-dialect --split-input-file | filecheck %s

// The example of the design document of the pass, with a dialect that nobody has. Casts of
// arguments come out in the order that MLIR has them in; the document shows them in the
// order of the arguments.

!qalias = !quant.uniform<i8:f32, 1.0>

func.func @predict(%arg0: tensor<3x!qalias>, %arg1: tensor<3x!qalias>) -> tensor<3x!qalias> {
  %sum = "hypothetical.add"(%arg0, %arg1) : (tensor<3x!qalias>, tensor<3x!qalias>) -> tensor<3x!qalias>
  return %sum : tensor<3x!qalias>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @predict(%arg0: tensor<3xi8>, %arg1: tensor<3xi8>) -> tensor<3xi8> {
// CHECK-NEXT:      %arg1_1 = quant.scast %arg1 : tensor<3xi8> to tensor<3x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT:      %arg0_1 = quant.scast %arg0 : tensor<3xi8> to tensor<3x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT:      %sum = "hypothetical.add"(%arg0_1, %arg1_1) : (tensor<3x!quant.uniform<i8:f32, 1.000000e+00>>, tensor<3x!quant.uniform<i8:f32, 1.000000e+00>>) -> tensor<3x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT:      %sum_stripped = quant.scast %sum : tensor<3x!quant.uniform<i8:f32, 1.000000e+00>> to tensor<3xi8>
// CHECK-NEXT:      func.return %sum_stripped : tensor<3xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// The step of the workflow of the same document that this pass is.

!qalias = !quant.uniform<i8:f32:0, {2.0, 3.0, 4.0}>

func.func private @dequantize(%arg0: tensor<3xi8>) -> tensor<3xf32>
func.func private @quantize(%arg0: tensor<3xf32>) -> tensor<3xi8>

func.func @multiply_add(%arg0: tensor<3x!qalias>, %arg1: tensor<3x!qalias>, %arg2: tensor<3x!qalias>) -> tensor<3x!qalias> {
  %arg0_i8 = "quant.scast"(%arg0) : (tensor<3x!qalias>) -> tensor<3xi8>
  %arg0_f32 = func.call @dequantize(%arg0_i8) : (tensor<3xi8>) -> tensor<3xf32>
  %arg1_i8 = "quant.scast"(%arg1) : (tensor<3x!qalias>) -> tensor<3xi8>
  %arg1_f32 = func.call @dequantize(%arg1_i8) : (tensor<3xi8>) -> tensor<3xf32>
  %product_f32 = arith.mulf %arg0_f32, %arg1_f32 : tensor<3xf32>
  %arg2_i8 = "quant.scast"(%arg2) : (tensor<3x!qalias>) -> tensor<3xi8>
  %arg2_f32 = func.call @dequantize(%arg2_i8) : (tensor<3xi8>) -> tensor<3xf32>
  %sum_f32 = arith.addf %product_f32, %arg2_f32 : tensor<3xf32>
  %sum_i8 = func.call @quantize(%sum_f32) : (tensor<3xf32>) -> tensor<3xi8>
  %sum = "quant.scast"(%sum_i8) : (tensor<3xi8>) -> tensor<3x!qalias>
  return %sum : tensor<3x!qalias>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @dequantize(tensor<3xi8>) -> tensor<3xf32>
// CHECK-NEXT:    func.func private @quantize(tensor<3xf32>) -> tensor<3xi8>
// CHECK-NEXT:    func.func @multiply_add(%arg0: tensor<3xi8>, %arg1: tensor<3xi8>, %arg2: tensor<3xi8>) -> tensor<3xi8> {
// CHECK-NEXT:      %arg2_1 = quant.scast %arg2 : tensor<3xi8> to tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>
// CHECK-NEXT:      %arg1_1 = quant.scast %arg1 : tensor<3xi8> to tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>
// CHECK-NEXT:      %arg0_1 = quant.scast %arg0 : tensor<3xi8> to tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>
// CHECK-NEXT:      %arg0_i8 = quant.scast %arg0_1 : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> to tensor<3xi8>
// CHECK-NEXT:      %arg0_f32 = func.call @dequantize(%arg0_i8) : (tensor<3xi8>) -> tensor<3xf32>
// CHECK-NEXT:      %arg1_i8 = quant.scast %arg1_1 : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> to tensor<3xi8>
// CHECK-NEXT:      %arg1_f32 = func.call @dequantize(%arg1_i8) : (tensor<3xi8>) -> tensor<3xf32>
// CHECK-NEXT:      %product_f32 = arith.mulf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CHECK-NEXT:      %arg2_i8 = quant.scast %arg2_1 : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> to tensor<3xi8>
// CHECK-NEXT:      %arg2_f32 = func.call @dequantize(%arg2_i8) : (tensor<3xi8>) -> tensor<3xf32>
// CHECK-NEXT:      %sum_f32 = arith.addf %product_f32, %arg2_f32 : tensor<3xf32>
// CHECK-NEXT:      %sum_i8 = func.call @quantize(%sum_f32) : (tensor<3xf32>) -> tensor<3xi8>
// CHECK-NEXT:      %sum = quant.scast %sum_i8 : tensor<3xi8> to tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>>
// CHECK-NEXT:      %sum_stripped = quant.scast %sum : tensor<3x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00,4.000000e+00}>> to tensor<3xi8>
// CHECK-NEXT:      func.return %sum_stripped : tensor<3xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Every quantized type with a storage type, in every kind of value. Attributes and
// encodings stay, and so do types that are no quantized scalars or tensors.

!any = !quant.any<u4>
!layer = !quant.uniform<i8:f32, 1.0>
!axis = !quant.uniform<u16:f32:1, {1.0, 2.0}>
!block = !quant.uniform<i8:f32:{0:1}, {{1.0}, {2.0}}>

func.func private @declaration(!any, tensor<4x!layer, "dense"> {test.a = !any}, tensor<?x2x!axis>, tensor<2x4x!block>) -> (tensor<*x!layer>, tensor<f32>, tuple<!layer>, vector<4xi8>)

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @declaration(i4, tensor<4xi8, "dense"> {test.a = !quant.any<u4>}, tensor<?x2xi16>, tensor<2x4xi8>) -> (tensor<*xi8>, tensor<f32>, tuple<!quant.uniform<i8:f32, 1.000000e+00>>, vector<4xi8>)

func.func @attributes(%a: !layer {test.a = !layer}, %b: f32) -> (!layer {test.b = 1 : i32}) attributes {test.c = !layer} {
  return %a : !layer
}

// CHECK-NEXT:    func.func @attributes(%a: i8 {test.a = !quant.uniform<i8:f32, 1.000000e+00>}, %b: f32) -> (i8 {test.b = 1 : i32}) attributes {test.c = !quant.uniform<i8:f32, 1.000000e+00>} {
// CHECK-NEXT:      func.return %a : i8
// CHECK-NEXT:    }

module {
  func.func private @in_module(!layer)
  "test.region"() ({
    func.func private @in_region(!layer)
  }) : () -> ()
}

// CHECK-NEXT:    builtin.module {
// CHECK-NEXT:      func.func private @in_module(i8)
// CHECK-NEXT:      "test.region"() ({
// CHECK-NEXT:        func.func private @in_region(i8)
// CHECK-NEXT:      }) : () -> ()
// CHECK-NEXT:    }

"test.func"() <{function_type = (!layer) -> !layer}> ({
^bb0(%a: !layer):
  "test.return"(%a) : (!layer) -> ()
}) : () -> ()

// CHECK-NEXT:    "test.func"() <{function_type = (!quant.uniform<i8:f32, 1.000000e+00>) -> !quant.uniform<i8:f32, 1.000000e+00>}> ({
// CHECK-NEXT:    ^bb0(%a: !quant.uniform<i8:f32, 1.000000e+00>):
// CHECK-NEXT:      "test.return"(%a) : (!quant.uniform<i8:f32, 1.000000e+00>) -> ()
// CHECK-NEXT:    }) : () -> ()
// CHECK-NEXT:  }

// -----

// A value has one cast, whatever number of uses. Casts stand behind definitions.

!q = !quant.any<i8>

func.func private @pair(!q, !q) -> (!q, !q)

func.func @calls(%a: !q, %b: !q) -> (!q, !q, !q) {
  %x, %y = "test.op"() : () -> (!q, !q)
  "test.op"() : () -> ()
  %r, %s = func.call @pair(%y, %x) : (!q, !q) -> (!q, !q)
  %t, %u = func.call @pair(%r, %y) : (!q, !q) -> (!q, !q)
  "test.op"(%t) : (!q) -> ()
  "test.op"(%u, %t, %b) : (!q, !q, !q) -> ()
  return %a, %s, %x : !q, !q, !q
}

// CHECK:         func.func @calls(%a: i8, %b: i8) -> (i8, i8, i8) {
// CHECK-NEXT:      %b_1 = quant.scast %b : i8 to !quant.any<i8>
// CHECK-NEXT:      %x, %y = "test.op"() : () -> (!quant.any<i8>, !quant.any<i8>)
// CHECK-NEXT:      %x_stripped = quant.scast %x : !quant.any<i8> to i8
// CHECK-NEXT:      %y_stripped = quant.scast %y : !quant.any<i8> to i8
// CHECK-NEXT:      "test.op"() : () -> ()
// CHECK-NEXT:      %r, %s = func.call @pair(%y_stripped, %x_stripped) : (i8, i8) -> (i8, i8)
// CHECK-NEXT:      %t, %u = func.call @pair(%r, %y_stripped) : (i8, i8) -> (i8, i8)
// CHECK-NEXT:      %u_1 = quant.scast %u : i8 to !quant.any<i8>
// CHECK-NEXT:      %t_1 = quant.scast %t : i8 to !quant.any<i8>
// CHECK-NEXT:      "test.op"(%t_1) : (!quant.any<i8>) -> ()
// CHECK-NEXT:      "test.op"(%u_1, %t_1, %b_1) : (!quant.any<i8>, !quant.any<i8>, !quant.any<i8>) -> ()
// CHECK-NEXT:      func.return %a, %s, %x_stripped : i8, i8, i8
// CHECK-NEXT:    }

func.func @cast_of_cast(%a: !q) -> !q {
  %i = quant.scast %a : !q to i8
  %b = quant.scast %i : i8 to !q
  "test.op"(%b) : (!q) -> ()
  return %b : !q
}

// CHECK-NEXT:    func.func @cast_of_cast(%a: i8) -> i8 {
// CHECK-NEXT:      %a_1 = quant.scast %a : i8 to !quant.any<i8>
// CHECK-NEXT:      %i = quant.scast %a_1 : !quant.any<i8> to i8
// CHECK-NEXT:      "test.op"(%a_1) : (!quant.any<i8>) -> ()
// CHECK-NEXT:      func.return %a : i8
// CHECK-NEXT:    }

// -----

// Structured control flow is like any other op: it keeps its quantized types.

!q = !quant.any<i8>

func.func @structured(%a: !q, %c: i1, %i: index) -> !q {
  %r = "scf.if"(%c) ({
    %x = func.call @structured(%a, %c, %i) : (!q, i1, index) -> !q
    scf.yield %x : !q
  }, {
    scf.yield %a : !q
  }) : (i1) -> !q
  %s = "scf.for"(%i, %i, %i, %r) ({
  ^bb0(%n: index, %p: !q):
    %x = func.call @structured(%p, %c, %n) : (!q, i1, index) -> !q
    scf.yield %x : !q
  }) : (index, index, index, !q) -> !q
  return %s : !q
}

// CHECK:         func.func @structured(%a: i8, %c: i1, %i: index) -> i8 {
// CHECK-NEXT:      %a_1 = quant.scast %a : i8 to !quant.any<i8>
// CHECK-NEXT:      %r = scf.if %c -> (!quant.any<i8>) {
// CHECK-NEXT:        %x = func.call @structured(%a, %c, %i) : (i8, i1, index) -> i8
// CHECK-NEXT:        %x_1 = quant.scast %x : i8 to !quant.any<i8>
// CHECK-NEXT:        scf.yield %x_1 : !quant.any<i8>
// CHECK-NEXT:      } else {
// CHECK-NEXT:        scf.yield %a_1 : !quant.any<i8>
// CHECK-NEXT:      }
// CHECK-NEXT:      %s = scf.for %n = %i to %i step %i iter_args(%p = %r) -> (!quant.any<i8>) {
// CHECK-NEXT:        %p_stripped = quant.scast %p : !quant.any<i8> to i8
// CHECK-NEXT:        %x_2 = func.call @structured(%p_stripped, %c, %n) : (i8, i1, index) -> i8
// CHECK-NEXT:        %x_3 = quant.scast %x_2 : i8 to !quant.any<i8>
// CHECK-NEXT:        scf.yield %x_3 : !quant.any<i8>
// CHECK-NEXT:      }
// CHECK-NEXT:      %s_stripped = quant.scast %s : !quant.any<i8> to i8
// CHECK-NEXT:      func.return %s_stripped : i8
// CHECK-NEXT:    }

// -----

// Arguments of all blocks and what branches pass to them; MLIR fails here.

!q = !quant.any<i8>

func.func @branches(%a: !q, %c: i1, %n: i32) -> !q {
  %x = "test.op"() : () -> !q
  cf.cond_br %c, ^bb1(%a, %n : !q, i32), ^bb2(%x : !q)
^bb1(%b: !q, %k: i32):
  "test.op"(%b, %k) : (!q, i32) -> ()
  cf.br ^bb2(%b : !q)
^bb2(%d: !q):
  cf.switch %n : i32, [
    default: ^bb3(%d : !q),
    1: ^bb3(%x : !q)
  ]
^bb3(%e: !q):
  "test.branch"(%e, %n, %e) [^bb4] : (!q, i32, !q) -> ()
^bb4(%f: !q):
  return %f : !q
}

// CHECK:         func.func @branches(%a: i8, %c: i1, %n: i32) -> i8 {
// CHECK-NEXT:      %x = "test.op"() : () -> !quant.any<i8>
// CHECK-NEXT:      %x_stripped = quant.scast %x : !quant.any<i8> to i8
// CHECK-NEXT:      cf.cond_br %c, ^bb1(%a, %n : i8, i32), ^bb2(%x_stripped : i8)
// CHECK-NEXT:    ^bb1(%b: i8, %k: i32):
// CHECK-NEXT:      %b_1 = quant.scast %b : i8 to !quant.any<i8>
// CHECK-NEXT:      "test.op"(%b_1, %k) : (!quant.any<i8>, i32) -> ()
// CHECK-NEXT:      cf.br ^bb2(%b : i8)
// CHECK-NEXT:    ^bb2(%d: i8):
// CHECK-NEXT:      cf.switch %n : i32, [
// CHECK-NEXT:        default: ^bb3(%d : i8),
// CHECK-NEXT:        1: ^bb3(%x_stripped : i8)
// CHECK-NEXT:      ]
// CHECK-NEXT:    ^bb3(%e: i8):
// CHECK-NEXT:      %e_1 = quant.scast %e : i8 to !quant.any<i8>
// CHECK-NEXT:      "test.branch"(%e_1, %n, %e) [^bb4] : (!quant.any<i8>, i32, i8) -> ()
// CHECK-NEXT:    ^bb4(%f: i8):
// CHECK-NEXT:      func.return %f : i8
// CHECK-NEXT:    }

func.func @blocks_of_a_region(%a: !q) {
  "test.region"() ({
    cf.br ^bb1(%a : !q)
  ^bb1(%b: !q):
    "test.yield"() : () -> ()
  }) : () -> ()
  return
}

// CHECK-NEXT:    func.func @blocks_of_a_region(%a: i8) {
// CHECK-NEXT:      %a_1 = quant.scast %a : i8 to !quant.any<i8>
// CHECK-NEXT:      "test.region"() ({
// CHECK-NEXT:        cf.br ^bb1(%a_1 : !quant.any<i8>)
// CHECK-NEXT:      ^bb1(%b: !quant.any<i8>):
// CHECK-NEXT:        "test.yield"() : () -> ()
// CHECK-NEXT:      }) : () -> ()
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }

// -----

// Functions as values; MLIR fails here.

!q = !quant.any<i8>

func.func private @callee(tensor<2x!q>) -> !q

func.func @indirect(%g: (() -> !q) -> !q, %a: tensor<2x!q>, %c: i1) -> ((tensor<2x!q>) -> !q, !q) {
  %f = "func.constant"() <{value = @callee}> : () -> ((tensor<2x!q>) -> !q)
  %h = "test.op"(%f) : ((tensor<2x!q>) -> !q) -> ((tensor<2x!q>) -> !q)
  %r = "func.call_indirect"(%h, %a) : ((tensor<2x!q>) -> !q, tensor<2x!q>) -> !q
  "test.op"(%r) : (!q) -> ()
  cf.br ^bb1(%h, %r : (tensor<2x!q>) -> !q, !q)
^bb1(%j: (tensor<2x!q>) -> !q, %s: !q):
  return %j, %s : (tensor<2x!q>) -> !q, !q
}

// CHECK:         func.func private @callee(tensor<2xi8>) -> i8
// CHECK-NEXT:    func.func @indirect(%g: (() -> i8) -> i8, %a: tensor<2xi8>, %c: i1) -> ((tensor<2xi8>) -> i8, i8) {
// CHECK-NEXT:      %f = "func.constant"() <{value = @callee}> : () -> ((tensor<2xi8>) -> i8)
// CHECK-NEXT:      %h = "test.op"(%f) : ((tensor<2xi8>) -> i8) -> ((tensor<2xi8>) -> i8)
// CHECK-NEXT:      %r = "func.call_indirect"(%h, %a) : ((tensor<2xi8>) -> i8, tensor<2xi8>) -> i8
// CHECK-NEXT:      %r_1 = quant.scast %r : i8 to !quant.any<i8>
// CHECK-NEXT:      "test.op"(%r_1) : (!quant.any<i8>) -> ()
// CHECK-NEXT:      cf.br ^bb1(%h, %r : (tensor<2xi8>) -> i8, i8)
// CHECK-NEXT:    ^bb1(%j: (tensor<2xi8>) -> i8, %s: i8):
// CHECK-NEXT:      func.return %j, %s : (tensor<2xi8>) -> i8, i8
// CHECK-NEXT:    }

// -----

// Storage with a sign, and types that do not fit their tensor: all is well
// where no cast is needed.

func.func @no_cast(%a: !quant.any<si8>, %b: tensor<4x!quant.uniform<i8:f32:0, {1.0}>>) -> !quant.any<si8> {
  return %a : !quant.any<si8>
}

// CHECK:         func.func @no_cast(%a: i8, %b: tensor<4xi8>) -> i8 {
// CHECK-NEXT:      func.return %a : i8
// CHECK-NEXT:    }
