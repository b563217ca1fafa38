// RUN: xdsl-opt %s -p 'convert-tfl-to-linalg,canonicalize,cse,strip-func-quant-types,canonicalize' | filecheck %s
// RUN: xdsl-opt %s -p 'convert-tfl-to-linalg,canonicalize,cse,strip-func-quant-types,canonicalize' | filecheck %s --check-prefix=INTEGERS

// Softmax in fixed-point arithmetic, without floats.

func.func @softmax(%a: tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.00390625:-128>> {
  %0 = "tfl.softmax"(%a) <{beta = 1.0 : f32}> : (tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.00390625:-128>>
  return %0 : tensor<2x4x!quant.uniform<i8:f32, 0.00390625:-128>>
}

// INTEGERS: func.func @softmax
// INTEGERS-NOT: f32
// INTEGERS-NOT: f64

// CHECK: func.func @softmax(%a: tensor<2x4xi8>) -> tensor<2x4xi8> {

// The maximum of each row:
// CHECK: iterator_types = ["parallel", "reduction"]} ins(%a : tensor<2x4xi8>) outs(%{{.*}} : tensor<2xi32>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: i8, %[[MAX:.*]]: i32):
// CHECK-NEXT: %[[X:.*]] = arith.extsi %[[IN]] : i8 to i32
// CHECK-NEXT: %[[NEXT:.*]] = arith.maxsi %[[MAX]], %[[X]] : i32
// CHECK-NEXT: linalg.yield %[[NEXT]] : i32

// The sum of exponentials of differences, with factors exp(-1/4) to exp(-16) of 31 bits:
// CHECK: iterator_types = ["parallel", "reduction"]} ins(%a, %{{.*}} : tensor<2x4xi8>, tensor<2xi32>) outs(%{{.*}} : tensor<2xi32>)
// CHECK: arith.constant 1672461947 : i64
// CHECK: arith.constant 1302514674 : i64
// CHECK: arith.constant 790015084 : i64
// CHECK: arith.constant 290630308 : i64
// CHECK: arith.constant 39332535 : i64
// CHECK: arith.constant 720401 : i64
// CHECK: arith.constant 242 : i64
// CHECK: %[[SUM:.*]] = arith.addi %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: linalg.yield %[[SUM]] : i32

// Its reciprocal, after normalization by leading zeros, in three Newton-Raphson steps:
// CHECK: math.ctlz
// CHECK: arith.constant 1515870810 : i32

// The quotients:
// CHECK: iterator_types = ["parallel", "parallel"]} ins(%a, {{.*}} outs(%{{.*}} : tensor<2x4xi8>)
// CHECK: linalg.yield %{{.*}} : i8
// CHECK-NEXT: } -> tensor<2x4xi8>
// CHECK-NEXT: func.return
