// RUN: xdsl-opt %s -p 'quant-insert-stats-refs{ops="arith.addf" symbols=f}' | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'quant-insert-stats-refs{keys="f:arith[.].*"}' | filecheck %s --match-full-lines

func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

func.func @g(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:      %0 = arith.addf %x, %x : tensor<2xf32>
// CHECK-NEXT:      %1 = quant.stats_ref %0 "f:arith.addf:0" : tensor<2xf32>
// CHECK-NEXT:      func.return %1 : tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @g(%x: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:      %0 = arith.addf %x, %x : tensor<2xf32>
// CHECK-NEXT:      func.return %0 : tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
