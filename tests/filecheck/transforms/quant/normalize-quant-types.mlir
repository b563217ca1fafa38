// RUN: xdsl-opt %s -p normalize-quant-types --allow-unregistered-dialect --split-input-file | filecheck %s

// A single scale: per-tensor, whatever the blocks. Scales are numbers of the expressed type,
// and printed as the doubles that they are.

func.func private @per_layer(
  tensor<3x5x!quant.uniform<i8:f32:{0:3, 1:5}, {{2.0:7}}>>,
  tensor<3x5x!quant.uniform<i8<-8:7>:f32:{}, {{2.0}}>>,
  tensor<1x!quant.uniform<u8:f16:{0:1}, {0.1:200}>>,
  tensor<?x?x!quant.uniform<i8:f32:{1:5}, {{2.0}}>>,
  tensor<*x!quant.uniform<i8:f32:{1:5}, {2.0:-1}>>,
  tensor<4x!quant.uniform<i8:f32:{0:4}, {2.0}>, "dense">)

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @per_layer(tensor<3x5x!quant.uniform<i8:f32, 2.000000e+00:7>>, tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00>>, tensor<1x!quant.uniform<u8:f16, 0.0999755859375:200>>, tensor<?x?x!quant.uniform<i8:f32, 2.000000e+00>>, tensor<*x!quant.uniform<i8:f32, 2.000000e+00:-1>>, tensor<4x!quant.uniform<i8:f32, 2.000000e+00>, "dense">)
// CHECK-NEXT:  }

// -----

// One dimension with several scales, and one for each of its indices: per-axis.

func.func private @per_axis(
  tensor<2x3x!quant.uniform<i8:f32:{0:1}, {{2.0:1}, {3.0}}>>,
  tensor<4x2x!quant.uniform<u8:f16:{0:4, 1:1}, {{0.1:200, 3.0}}>>,
  tensor<?x?x!quant.uniform<i8<-8:7>:f32:{1:1, 0:4}, {{2.0, 3.0}}>>,
  tensor<2x!quant.uniform<i8:f32:{0:1}, {2.0, 2.0}>>,
  tensor<2x!quant.uniform<i8:f32:{0:2, 0:1}, {2.0, 3.0}>>)

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @per_axis(tensor<2x3x!quant.uniform<i8:f32:0, {2.000000e+00:1,3.000000e+00}>>, tensor<4x2x!quant.uniform<u8:f16:1, {0.0999755859375:200,3.000000e+00}>>, tensor<?x?x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00}>>, tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,2.000000e+00}>>, tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>)
// CHECK-NEXT:  }

// -----

// On unranked tensors scales have a dimension for each one of the tensor, or for each one
// with a block size only, in the order of the dimensions.

func.func private @unranked(
  tensor<*x!quant.uniform<i8:f32:{1:1}, {{2.0, 3.0}}>>,
  tensor<*x!quant.uniform<i8:f32:{2:1}, {2.0, 3.0}>>,
  tensor<*x!quant.uniform<i8:f32:{3:1, 1:4}, {{2.0, 3.0}}>>,
  tensor<*x!quant.uniform<i8:f32:{1:1, 0:4}, {{2.0}, {3.0}}>>)

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @unranked(tensor<*x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00}>>, tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00,3.000000e+00}>>, tensor<*x!quant.uniform<i8:f32:3, {2.000000e+00,3.000000e+00}>>, tensor<*x!quant.uniform<i8:f32:{1:1, 0:4}, {{{{}}2.000000e+00}, {3.000000e+00}}>>)
// CHECK-NEXT:  }

// -----

// What stays: several scales along two dimensions; blocks of several indices, which MLIR
// takes for per-axis; a scale dimension without block size; scalars, tuples and attributes.

!block = !quant.uniform<i8:f32:{0:1}, {{2.0}, {3.0}}>

func.func private @unchanged(
  tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{1.0, 2.0}, {3.0, 4.0}}>>,
  tensor<8x!quant.uniform<i8:f32:{0:4}, {1.0, 10.0}>>,
  tensor<?x!quant.uniform<i8:f32:{0:4}, {1.0, 10.0}>>,
  tensor<1x2x!quant.uniform<i8:f32:{0:1}, {{1.0, 2.0}}>>,
  !block {test.a = tensor<2x3x!block>},
  tuple<tensor<2x3x!block>>,
  tensor<1x!quant.uniform<i8:f32:0, {2.0}>>)

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func private @unchanged(tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{{{}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>>, tensor<8x!quant.uniform<i8:f32:{0:4}, {1.000000e+00, 1.000000e+01}>>, tensor<?x!quant.uniform<i8:f32:{0:4}, {1.000000e+00, 1.000000e+01}>>, tensor<1x2x!quant.uniform<i8:f32:{0:1}, {{{{}}1.000000e+00, 2.000000e+00}}>>, !quant.uniform<i8:f32:{0:1}, {{{{}}2.000000e+00}, {3.000000e+00}}> {test.a = tensor<2x3x!quant.uniform<i8:f32:{0:1}, {{{{}}2.000000e+00}, {3.000000e+00}}>>}, tuple<tensor<2x3x!quant.uniform<i8:f32:{0:1}, {{{{}}2.000000e+00}, {3.000000e+00}}>>>, tensor<1x!quant.uniform<i8:f32:0, {2.000000e+00}>>)
// CHECK-NEXT:  }

// -----

// All values of functions: of any op, in regions and blocks, and functions themselves.

!t = tensor<2x!quant.uniform<i8:f32:{0:1}, {2.0, 3.0}>>

func.func @ops(%f: tensor<2xf32>, %i: tensor<2xi8>, %c: i1, %g: (!t) -> !t) -> !t {
  %a = quant.qcast %f : tensor<2xf32> to !t
  %b = quant.dcast %a : !t to tensor<2xf32>
  %d = quant.scast %i : tensor<2xi8> to !t
  %e = "test.op"(%a) {test.a = !t} : (!t) -> !t
  %h = func.call @ops(%b, %i, %c, %g) : (tensor<2xf32>, tensor<2xi8>, i1, (!t) -> !t) -> !t
  %j = "func.call_indirect"(%g, %h) : ((!t) -> !t, !t) -> !t
  "test.region"(%d) ({
  ^bb0(%k: !t):
    %l = "scf.if"(%c) ({
      scf.yield %k : !t
    }, {
      scf.yield %e : !t
    }) : (i1) -> !t
  }) : (!t) -> ()
  cf.cond_br %c, ^bb1(%j : !t), ^bb1(%e : !t)
^bb1(%m: !t):
  return %m : !t
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @ops(%f: tensor<2xf32>, %i: tensor<2xi8>, %c: i1, %g: (tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>> {
// CHECK-NEXT:      %a = quant.qcast %f : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:      %b = quant.dcast %a : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>> to tensor<2xf32>
// CHECK-NEXT:      %d = quant.scast %i : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:      %e = "test.op"(%a) {test.a = tensor<2x!quant.uniform<i8:f32:{0:1}, {2.000000e+00, 3.000000e+00}>>} : (tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:      %h = func.call @ops(%b, %i, %c, %g) : (tensor<2xf32>, tensor<2xi8>, i1, (tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:      %j = "func.call_indirect"(%g, %h) : ((tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>, tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:      "test.region"(%d) ({
// CHECK-NEXT:      ^bb0(%k: tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>):
// CHECK-NEXT:        %l = scf.if %c -> (tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) {
// CHECK-NEXT:          scf.yield %k : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:        } else {
// CHECK-NEXT:          scf.yield %e : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:        }
// CHECK-NEXT:      }) : (tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> ()
// CHECK-NEXT:      cf.cond_br %c, ^bb1(%j : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>), ^bb1(%e : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>)
// CHECK-NEXT:    ^bb1(%m: tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>):
// CHECK-NEXT:      func.return %m : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Functions anywhere, but no other op outside of a function.

!t = tensor<2x!quant.uniform<i8:f32:{0:1}, {2.0, 3.0}>>

module {
  func.func private @in_module(!t)
}
"test.func"() <{function_type = (!t) -> ()}> ({
^bb0(%a: !t):
  func.func private @nested(!t)
}) : () -> ()

// CHECK:       builtin.module {
// CHECK-NEXT:    builtin.module {
// CHECK-NEXT:      func.func private @in_module(tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>)
// CHECK-NEXT:    }
// CHECK-NEXT:    "test.func"() <{function_type = (tensor<2x!quant.uniform<i8:f32:{0:1}, {2.000000e+00, 3.000000e+00}>>) -> ()}> ({
// CHECK-NEXT:    ^bb0(%a: tensor<2x!quant.uniform<i8:f32:{0:1}, {2.000000e+00, 3.000000e+00}>>):
// CHECK-NEXT:      func.func private @nested(tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>)
// CHECK-NEXT:    }) : () -> ()
// CHECK-NEXT:  }
