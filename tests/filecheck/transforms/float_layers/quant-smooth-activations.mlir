// RUN: xdsl-opt %s -p quant-smooth-activations | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p quant-smooth-activations 2>&1 >/dev/null | filecheck %s --check-prefix WARNING
// RUN: xdsl-opt %s -p 'quant-smooth-activations{insert-multiply=true}' | filecheck %s --check-prefix INSERT --match-full-lines

func.func @normalized(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %g = stablehlo.constant dense<[[3.0, 2.0]]> : tensor<1x2xf32>
  %b = stablehlo.constant dense<[[8.0, 0.5]]> : tensor<1x2xf32>
  %w = stablehlo.constant dense<[[1.0], [4.0]]> : tensor<2x1xf32>
  %p = stablehlo.multiply %x, %g : tensor<1x2xf32>
  %q = stablehlo.add %p, %b : tensor<1x2xf32>
  %s = quant.stats %q <-16.0:4.0> axis 1 [<-16.0:4.0>, <-0.5:1.0>] : tensor<1x2xf32>
  %y = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}

func.func @argument(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = stablehlo.constant dense<[[1.0], [4.0]]> : tensor<2x1xf32>
  %s = quant.stats %x <-16.0:4.0> axis 1 [<-16.0:4.0>, <-0.5:1.0>] : tensor<1x2xf32>
  %y = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @normalized(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
// CHECK-NEXT:      %0 = stablehlo.constant dense<[7.500000e-01, 4.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:      %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:      %p = stablehlo.multiply %x, %1 : tensor<1x2xf32>
// CHECK-NEXT:      %2 = stablehlo.constant dense<[2.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:      %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:      %q = stablehlo.add %p, %3 : tensor<1x2xf32>
// CHECK-NEXT:      %s = quant.stats %q <-4.000000e+00:2.000000e+00> axis 1 [<-4.000000e+00:1.000000e+00>, <-1.000000e+00:2.000000e+00>] : tensor<1x2xf32>
// CHECK-NEXT:      %w = stablehlo.constant dense<[[4.000000e+00], [2.000000e+00]]> : tensor<2x1xf32>
// CHECK-NEXT:      %y = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:      func.return %y : tensor<1x1xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @argument(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
// CHECK-NEXT:      %w = stablehlo.constant dense<[[1.000000e+00], [4.000000e+00]]> : tensor<2x1xf32>
// CHECK-NEXT:      %s = quant.stats %x <-1.600000e+01:4.000000e+00> axis 1 [<-1.600000e+01:4.000000e+00>, <-5.000000e-01:1.000000e+00>] : tensor<1x2xf32>
// CHECK-NEXT:      %y = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:      func.return %y : tensor<1x1xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// WARNING: warning: channels are not smoothed: the values are a block argument

// INSERT:         func.func @argument(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
// INSERT-NEXT:      %s = quant.stats %x <-1.600000e+01:4.000000e+00> axis 1 [<-1.600000e+01:4.000000e+00>, <-5.000000e-01:1.000000e+00>] : tensor<1x2xf32>
// INSERT-NEXT:      %0 = stablehlo.constant dense<[2.500000e-01, 2.000000e+00]> : tensor<2xf32>
// INSERT-NEXT:      %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
// INSERT-NEXT:      %2 = stablehlo.multiply %s, %1 : tensor<1x2xf32>
// INSERT-NEXT:      %s_1 = quant.stats %2 <-4.000000e+00:2.000000e+00> axis 1 [<-4.000000e+00:1.000000e+00>, <-1.000000e+00:2.000000e+00>] : tensor<1x2xf32>
// INSERT-NEXT:      %w = stablehlo.constant dense<[[4.000000e+00], [2.000000e+00]]> : tensor<2x1xf32>
// INSERT-NEXT:      %y = stablehlo.dot_general %s_1, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
// INSERT-NEXT:      func.return %y : tensor<1x1xf32>
