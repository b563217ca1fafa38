// RUN: xdsl-opt %s -p quant-insert-stats-refs --allow-unregistered-dialect --split-input-file | filecheck %s --match-full-lines

// Arguments, results, constants; not what is no float tensor or has no values.

func.func @main(%x: tensor<2x2xf32>, %i: tensor<2xi8>, %s: f32, %y: tensor<*xbf16>) -> tensor<2x2xf32> {
  %w = arith.constant dense<1.0> : tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %a, %b = "test.two"(%0, %0) : (tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<?xf64>)
  %1 = linalg.matmul ins(%a, %w : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

func.func private @declared(tensor<2xf32>) -> tensor<2xf32>

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @main(%x: tensor<2x2xf32>, %i: tensor<2xi8>, %s: f32, %y: tensor<*xbf16>) -> tensor<2x2xf32> {
// CHECK-NEXT:      %x_1 = quant.stats_ref %x "main:argument:0" : tensor<2x2xf32>
// CHECK-NEXT:      %y_1 = quant.stats_ref %y "main:argument:3" : tensor<*xbf16>
// CHECK-NEXT:      %w = arith.constant dense<1.000000e+00> : tensor<2x2xf32>
// CHECK-NEXT:      %w_1 = quant.stats_ref %w "main:arith.constant:0" : tensor<2x2xf32>
// CHECK-NEXT:      %e = tensor.empty() : tensor<2x2xf32>
// CHECK-NEXT:      %0 = linalg.matmul ins(%x_1, %w_1 : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      %1 = quant.stats_ref %0 "main:linalg.matmul:0" : tensor<2x2xf32>
// CHECK-NEXT:      %a, %b = "test.two"(%1, %1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<?xf64>)
// CHECK-NEXT:      %a_1 = quant.stats_ref %a "main:test.two:0:0" : tensor<2x2xf32>
// CHECK-NEXT:      %b_1 = quant.stats_ref %b "main:test.two:0:1" : tensor<?xf64>
// CHECK-NEXT:      %2 = linalg.matmul ins(%a_1, %w_1 : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      %3 = quant.stats_ref %2 "main:linalg.matmul:1" : tensor<2x2xf32>
// CHECK-NEXT:      func.return %3 : tensor<2x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func private @declared(tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:  }

// -----

// Regions, blocks, nested modules.

module @inner {
  func.func @loop(%x: tensor<2xf32>, %n: index) -> tensor<2xf32> {
    %zero = arith.constant 0 : index
    %r = scf.for %i = %zero to %n step %n iter_args(%acc = %x) -> (tensor<2xf32>) {
      %next = arith.addf %acc, %x : tensor<2xf32>
      scf.yield %next : tensor<2xf32>
    }
    // Its region is a reducer.
    %z = "mhlo.reduce"(%r) ({
    ^bb0(%p: tensor<f32>):
      "mhlo.return"(%p) : (tensor<f32>) -> ()
    }) : (tensor<2xf32>) -> tensor<f32>
    cf.br ^bb1(%r : tensor<2xf32>)
  ^bb1(%y: tensor<2xf32>):
    return %y : tensor<2xf32>
  }
}

"test.op"() : () -> tensor<2xf32>

// CHECK:       builtin.module {
// CHECK-NEXT:    builtin.module @inner {
// CHECK-NEXT:      func.func @loop(%x: tensor<2xf32>, %n: index) -> tensor<2xf32> {
// CHECK-NEXT:        %x_1 = quant.stats_ref %x "inner:loop:argument:0" : tensor<2xf32>
// CHECK-NEXT:        %zero = arith.constant 0 : index
// CHECK-NEXT:        %r = scf.for %i = %zero to %n step %n iter_args(%acc = %x_1) -> (tensor<2xf32>) {
// CHECK-NEXT:          %acc_1 = quant.stats_ref %acc "inner:loop:scf.for:0:argument:1" : tensor<2xf32>
// CHECK-NEXT:          %next = arith.addf %acc_1, %x_1 : tensor<2xf32>
// CHECK-NEXT:          %next_1 = quant.stats_ref %next "inner:loop:arith.addf:0" : tensor<2xf32>
// CHECK-NEXT:          scf.yield %next_1 : tensor<2xf32>
// CHECK-NEXT:        }
// CHECK-NEXT:        %r_1 = quant.stats_ref %r "inner:loop:scf.for:0" : tensor<2xf32>
// CHECK-NEXT:        %z = "mhlo.reduce"(%r_1) ({
// CHECK-NEXT:        ^bb0(%p: tensor<f32>):
// CHECK-NEXT:          "mhlo.return"(%p) : (tensor<f32>) -> ()
// CHECK-NEXT:        }) : (tensor<2xf32>) -> tensor<f32>
// CHECK-NEXT:        %z_1 = quant.stats_ref %z "inner:loop:mhlo.reduce:0" : tensor<f32>
// CHECK-NEXT:        cf.br ^bb1(%r_1 : tensor<2xf32>)
// CHECK-NEXT:      ^bb1(%y: tensor<2xf32>):
// CHECK-NEXT:        %y_1 = quant.stats_ref %y "inner:loop:block:1:argument:0" : tensor<2xf32>
// CHECK-NEXT:        func.return %y_1 : tensor<2xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    %0 = "test.op"() : () -> tensor<2xf32>
// CHECK-NEXT:    %1 = quant.stats_ref %0 "test.op:0" : tensor<2xf32>
// CHECK-NEXT:  }

// -----

// What is instrumented stays, and a key that is taken is not given again.

func.func @again(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats_ref %x "again:argument:1" : tensor<2xf32>
  %1 = quant.stats %0 <0.0:1.0> : tensor<2xf32>
  %2 = arith.addf %1, %y : tensor<2xf32>
  return %2 : tensor<2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @again(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:      %y_1 = quant.stats_ref %y "again:argument:1#1" : tensor<2xf32>
// CHECK-NEXT:      %0 = quant.stats_ref %x "again:argument:1" : tensor<2xf32>
// CHECK-NEXT:      %1 = quant.stats %0 <0.000000e+00:1.000000e+00> : tensor<2xf32>
// CHECK-NEXT:      %2 = arith.addf %1, %y_1 : tensor<2xf32>
// CHECK-NEXT:      %3 = quant.stats_ref %2 "again:arith.addf:0" : tensor<2xf32>
// CHECK-NEXT:      func.return %3 : tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// What has the range of another value, or none that is of use, is for explicit selections.

func.func @max(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %one = stablehlo.constant dense<1.0> : tensor<2x3xf32>
  %max = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %maxes = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  return %maxes : tensor<2x3xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @max(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
// CHECK-NEXT:      %x_1 = quant.stats_ref %x "max:argument:0" : tensor<2x3xf32>
// CHECK-NEXT:      %lowest = stablehlo.constant dense<0xff800000> : tensor<f32>
// CHECK-NEXT:      %zero = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf32>
// CHECK-NEXT:      %one = stablehlo.constant dense<1.000000e+00> : tensor<2x3xf32>
// CHECK-NEXT:      %one_1 = quant.stats_ref %one "max:stablehlo.constant:2" : tensor<2x3xf32>
// CHECK-NEXT:      %max = stablehlo.reduce(%x_1 init: %lowest) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT:      %max_1 = quant.stats_ref %max "max:stablehlo.reduce:0" : tensor<2xf32>
// CHECK-NEXT:      %maxes = stablehlo.broadcast_in_dim %max_1, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:      func.return %maxes : tensor<2x3xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
