// RUN: xdsl-opt %s -p quant-fold-batch-norm | filecheck %s --match-full-lines

func.func @layer(%x: tensor<4x2xf32>) -> tensor<4x3xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %scales = stablehlo.constant dense<[2.0, 4.0, 0.5]> : tensor<3xf32>
  %s = stablehlo.broadcast_in_dim %scales, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
  %z = stablehlo.multiply %y, %s : tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @layer(%x: tensor<4x2xf32>) -> tensor<4x3xf32> {
// CHECK-NEXT:      %w = stablehlo.constant dense<[[2.000000e+00, 8.000000e+00, 1.500000e+00], [8.000000e+00, 2.000000e+01, 3.000000e+00]]> : tensor<2x3xf32>
// CHECK-NEXT:      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:      func.return %y : tensor<4x3xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
