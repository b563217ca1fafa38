// RUN: xdsl-opt %s -p "quant-split-reductions{lanes=16}" | filecheck %s --match-full-lines

#wm = affine_map<(n, m, k) -> (n, k)>
#xm = affine_map<(n, m, k) -> (k, m)>
#ym = affine_map<(n, m, k) -> (n, m)>

func.func @product(%w: tensor<?x64xf32>, %x: tensor<64x5xf32>, %b: tensor<?x5xf32>) -> tensor<?x5xf32> {
  %y = linalg.generic {
    indexing_maps = [#wm, #xm, #ym],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%w, %x : tensor<?x64xf32>, tensor<64x5xf32>) outs(%b : tensor<?x5xf32>) {
  ^bb0(%lhs: f32, %rhs: f32, %sum: f32):
    %p = arith.mulf %rhs, %lhs : f32
    %s = arith.addf %p, %sum : f32
    linalg.yield %s : f32
  } -> tensor<?x5xf32>
  return %y : tensor<?x5xf32>
}

// CHECK:         func.func @product(%w: tensor<?x64xf32>, %x: tensor<64x5xf32>, %b: tensor<?x5xf32>) -> tensor<?x5xf32> {
// CHECK-NEXT:      [[EXPANDED:%.+]] = tensor.expand_shape %x {{\[\[}}0 : i64, 1 : i64], [2 : i64]] output_shape [4, 16, 5] : tensor<64x5xf32> into tensor<4x16x5xf32>
// CHECK-NEXT:      [[ZERO:%.+]] = arith.constant 0 : index
// CHECK-NEXT:      [[SIZE:%.+]] = tensor.dim %b, [[ZERO]] : tensor<?x5xf32>
// CHECK-NEXT:      [[EMPTY:%.+]] = tensor.empty([[SIZE]]) : tensor<?x5x16xf32>
// CHECK-NEXT:      [[ZEROS:%.+]] = linalg.generic {{.*}} outs([[EMPTY]] : tensor<?x5x16xf32>) {
// CHECK:           [[SUMS:%.+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, ((d2 * 16) + d3))>, affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%w, [[EXPANDED]] : tensor<?x64xf32>, tensor<4x16x5xf32>) outs([[ZEROS]] : tensor<?x5x16xf32>) {
// CHECK-NEXT:      ^bb0([[LHS:%.+]]: f32, [[RHS:%.+]]: f32, [[SUM:%.+]]: f32):
// CHECK-NEXT:        [[TOTAL:%.+]] = math.fma [[LHS]], [[RHS]], [[SUM]] : f32
// CHECK-NEXT:        linalg.yield [[TOTAL]] : f32
// CHECK-NEXT:      } -> tensor<?x5x16xf32>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins([[SUMS]] : tensor<?x5x16xf32>) outs(%b : tensor<?x5xf32>) {
// CHECK-NEXT:      ^bb0([[LANE:%.+]]: f32, [[SUM:%.+]]: f32):
// CHECK-NEXT:        [[TOTAL:%.+]] = arith.addf [[SUM]], [[LANE]] : f32
// CHECK-NEXT:        linalg.yield [[TOTAL]] : f32
// CHECK-NEXT:      } -> tensor<?x5xf32>
// CHECK-NEXT:      func.return %y : tensor<?x5xf32>
