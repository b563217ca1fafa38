// RUN: xdsl-opt %s -p stablehlo-legalize-quant-to-integer,strip-func-quant-types,canonicalize | filecheck %s --match-full-lines

!q = tensor<?x!quant.uniform<u2:f32, 0.5:1>>
func.func @f(%x: !q) -> (!q, tensor<?xi1>) {
  %0 = stablehlo.tanh %x : !q
  %1 = stablehlo.is_finite %0 : (!q) -> tensor<?xi1>
  return %0, %1 : !q, tensor<?xi1>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%x: tensor<?xi2>) -> (tensor<?xi2>, tensor<?xi1>) {
// CHECK-NEXT:      %0 = arith.constant dense<[0, 1, -2, -1]> : tensor<4xi2>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2 = tensor.dim %x, %1 : tensor<?xi2>
// CHECK-NEXT:      %3 = tensor.empty(%2) : tensor<?xi2>
// CHECK-NEXT:      %4 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<?xi2>) outs(%3 : tensor<?xi2>) {
// CHECK-NEXT:      ^bb0(%in: i2, %out: i2):
// CHECK-NEXT:        %5 = arith.extui %in : i2 to i32
// CHECK-NEXT:        %6 = arith.index_cast %5 : i32 to index
// CHECK-NEXT:        %7 = tensor.extract %0[%6] : tensor<4xi2>
// CHECK-NEXT:        linalg.yield %7 : i2
// CHECK-NEXT:      } -> tensor<?xi2>
// CHECK-NEXT:      %8 = arith.constant dense<true> : tensor<4xi1>
// CHECK-NEXT:      %9 = arith.constant 0 : index
// CHECK-NEXT:      %10 = tensor.dim %4, %9 : tensor<?xi2>
// CHECK-NEXT:      %11 = tensor.empty(%10) : tensor<?xi1>
// CHECK-NEXT:      %12 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%4 : tensor<?xi2>) outs(%11 : tensor<?xi1>) {
// CHECK-NEXT:      ^bb0(%in_1: i2, %out_1: i1):
// CHECK-NEXT:        %13 = arith.extui %in_1 : i2 to i32
// CHECK-NEXT:        %14 = arith.index_cast %13 : i32 to index
// CHECK-NEXT:        %15 = tensor.extract %8[%14] : tensor<4xi1>
// CHECK-NEXT:        linalg.yield %15 : i1
// CHECK-NEXT:      } -> tensor<?xi1>
// CHECK-NEXT:      func.return %4, %12 : tensor<?xi2>, tensor<?xi1>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
