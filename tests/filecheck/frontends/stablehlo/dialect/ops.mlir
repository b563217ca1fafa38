// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

func.func @constants() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.constant {note = "kept"} dense<1> : tensor<2x3xi8>
  %2 = stablehlo.constant dense<> : tensor<0xi32>
  %3 = stablehlo.constant dense_resource<weights> : tensor<4xi8>
  %4 = stablehlo.constant() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %5 = stablehlo.constant() {value = dense<1> : tensor<2xi8>, note = "kept"} : () -> tensor<2x!quant.uniform<u8:f32:0, {5.000000e-01,2.500000e-01}>>
  func.return
}

func.func @casts(%x: tensor<2xf32>, %q: tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, %d: tensor<?xbf16>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = stablehlo.uniform_quantize %q : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2x!quant.uniform<i16:f32, 1.000000e+00>>
  %2 = stablehlo.uniform_quantize %q : tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
  %3 = stablehlo.uniform_quantize %d {note = "kept"} : (tensor<?xbf16>) -> tensor<?x!quant.uniform<i8:bf16, 5.000000e-01>>
  %4 = stablehlo.uniform_dequantize %q : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2xf32>
  %5 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xi8>
  %6 = stablehlo.convert %x : tensor<2xf32>
  func.return
}

func.func @elementwise(%x: tensor<2x?xf32>, %q: tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, %a: tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) {
  %0 = stablehlo.add %x, %x : tensor<2x?xf32>
  %1 = stablehlo.add %x, %x : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<?x3xf32>
  %2 = stablehlo.add %a, %q : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32:0, {1.000000e+00,2.500000e-01}>>
  %3 = stablehlo.subtract %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  %4 = stablehlo.multiply %q, %q : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01:-7>>
  %5 = stablehlo.divide %x, %x {note = "kept"} : tensor<2x?xf32>
  %6 = stablehlo.maximum %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  %7 = stablehlo.minimum %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  %8 = stablehlo.negate %q : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01>>
  %9 = stablehlo.abs %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  %10 = stablehlo.exponential %x : tensor<2x?xf32>
  %11 = stablehlo.exponential %x {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>} : tensor<2x?xf32>
  %12 = stablehlo.logistic %q {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  %13 = stablehlo.tanh %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  func.return
}

func.func @selection(%p: tensor<2xi1>, %x: tensor<2xf32>, %s: tensor<f32>, %q: tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) {
  %0 = stablehlo.compare LT, %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %1 = stablehlo.compare GE, %q, %q, SIGNED : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2xi1>
  %2 = stablehlo.select %p, %x, %x : tensor<2xi1>, tensor<2xf32>
  %3 = stablehlo.select %p, %q, %q : (tensor<2xi1>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 1.000000e+00>>
  %4 = stablehlo.clamp %s, %x, %s : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %5 = stablehlo.clamp %q, %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
  func.return
}

func.func @reshaping(%x: tensor<2x3xf32>, %a: tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>, %s: tensor<f32>) {
  %0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = stablehlo.reshape %a : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<1x2x3x!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01,1.000000e+00}>>
  %2 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<3x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,1.000000e+00}>>
  %3 = stablehlo.transpose %s, dims = [] : (tensor<f32>) -> tensor<f32>
  %4 = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<2x4x3x!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01,1.000000e+00}>>
  %5 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2xf32>
  func.return
}

func.func @slicing(%x: tensor<4x6xf32>, %d: tensor<?x6xf32>, %s: tensor<f32>, %q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, %z: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
  %0 = stablehlo.concatenate %x, dim = 0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.concatenate %x, %d, dim = 0 {note = "kept"} : (tensor<4x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
  %2 = stablehlo.slice %x [0:2, 1:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.slice %s [] : (tensor<f32>) -> tensor<f32>
  %4 = stablehlo.pad %q, %z, low = [0], high = [-1], interior = [2] : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<9x!quant.uniform<i8:f32, 5.000000e-01>>
  func.return
}

func.func @reductions(%x: tensor<2x3xf32>, %s: tensor<f32>, %q: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, %z: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
  %0 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [1] {note = "kept"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = stablehlo.reduce(%q init: %z) across dimensions = [0, 1] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01>>
    reducer(%a: tensor<!quant.uniform<i8:f32, 5.000000e-01>>, %b: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
    %4 = stablehlo.maximum %a, %b : tensor<!quant.uniform<i8:f32, 5.000000e-01>>
    stablehlo.return %4 : tensor<!quant.uniform<i8:f32, 5.000000e-01>>
  }
  %2, %3 = stablehlo.reduce(%x init: %s), (%x init: %s) across dimensions = [] : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
    stablehlo.return %a, %d {note = "kept"} : tensor<f32>, tensor<f32>
  }
  func.return
}

func.func @products(%x: tensor<2x3xf32>, %q: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, %w: tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [] x [] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x2x3xf32>
  %1 = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, HIGHEST] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  %2 = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
  %3 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [] : (tensor<2x3xf32>, tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2xf32>
  func.return
}

func.func @convolutions(%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x4x2x!quant.uniform<i8:f32:3, {5.000000e-01,2.500000e-01}>>, %q: tensor<1x4x8x!quant.uniform<u8:f32, 5.000000e-01:128>>, %w: tensor<2x4x3x!quant.uniform<u8:f32, 5.000000e-01>>) {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [0, 2]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]} : (tensor<1x8x8x4xf32>, tensor<3x3x4x2x!quant.uniform<i8:f32:3, {5.000000e-01,2.500000e-01}>>) -> tensor<1x4x6x2xf32>
  %1 = stablehlo.convolution(%q, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} {note = "kept", batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x8x!quant.uniform<u8:f32, 5.000000e-01:128>>, tensor<2x4x3x!quant.uniform<u8:f32, 5.000000e-01>>) -> tensor<1x2x6x!quant.uniform<u8:f32, 2.500000e-01:128>>
  func.return
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x0400000001020304"
    }
  }
#-}

// CHECK-LABEL:  func.func @constants() {
// CHECK-NEXT:     %{{.*}} = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.constant {note = "kept"} dense<1> : tensor<2x3xi8>
// CHECK-NEXT:     %{{.*}} = stablehlo.constant dense<> : tensor<0xi32>
// CHECK-NEXT:     %{{.*}} = stablehlo.constant dense_resource<weights> : tensor<4xi8>
// CHECK-NEXT:     %{{.*}} = stablehlo.constant() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %{{.*}} = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> {note = "kept"} : () -> tensor<2x!quant.uniform<u8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @casts(%x: tensor<2xf32>, %q: tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, %d: tensor<?xbf16>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %{{.*}} = stablehlo.uniform_quantize %q : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2x!quant.uniform<i16:f32, 1.000000e+00>>
// CHECK-NEXT:     %{{.*}} = stablehlo.uniform_quantize %q : tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT:     %{{.*}} = stablehlo.uniform_quantize %d {note = "kept"} : (tensor<?xbf16>) -> tensor<?x!quant.uniform<i8:bf16, 5.000000e-01>>
// CHECK-NEXT:     %{{.*}} = stablehlo.uniform_dequantize %q : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xi8>
// CHECK-NEXT:     %{{.*}} = stablehlo.convert %x : tensor<2xf32>
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @elementwise(%x: tensor<2x?xf32>, %q: tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, %a: tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.add %x, %x : tensor<2x?xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.add %x, %x : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<?x3xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.add %a, %q : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32:0, {1.000000e+00,2.500000e-01}>>
// CHECK-NEXT:     %{{.*}} = stablehlo.subtract %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     %{{.*}} = stablehlo.multiply %q, %q : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01:-7>>
// CHECK-NEXT:     %{{.*}} = stablehlo.divide %x, %x {note = "kept"} : tensor<2x?xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.maximum %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     %{{.*}} = stablehlo.minimum %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     %{{.*}} = stablehlo.negate %q : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT:     %{{.*}} = stablehlo.abs %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     %{{.*}} = stablehlo.exponential %x : tensor<2x?xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.exponential %x : tensor<2x?xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.logistic %q {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     %{{.*}} = stablehlo.tanh %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @selection(%p: tensor<2xi1>, %x: tensor<2xf32>, %s: tensor<f32>, %q: tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.compare LT, %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// CHECK-NEXT:     %{{.*}} = stablehlo.compare GE, %q, %q, SIGNED : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2xi1>
// CHECK-NEXT:     %{{.*}} = stablehlo.select %p, %x, %x : tensor<2xi1>, tensor<2xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.select %p, %q, %q : (tensor<2xi1>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT:     %{{.*}} = stablehlo.clamp %s, %x, %s : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.clamp %q, %q, %q : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @reshaping(%x: tensor<2x3xf32>, %a: tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>, %s: tensor<f32>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.reshape %a : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<1x2x3x!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01,1.000000e+00}>>
// CHECK-NEXT:     %{{.*}} = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<3x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,1.000000e+00}>>
// CHECK-NEXT:     %{{.*}} = stablehlo.transpose %s, dims = [] : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT:     %{{.*}} = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<2x4x3x!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01,1.000000e+00}>>
// CHECK-NEXT:     %{{.*}} = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @slicing(%x: tensor<4x6xf32>, %d: tensor<?x6xf32>, %s: tensor<f32>, %q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, %z: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.concatenate %x, dim = 0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.concatenate %x, %d, dim = 0 {note = "kept"} : (tensor<4x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.slice %x [0:2, 1:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.slice %s [] : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT:     %{{.*}} = stablehlo.pad %q, %z, low = [0], high = [-1], interior = [2] : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<9x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @reductions(%x: tensor<2x3xf32>, %s: tensor<f32>, %q: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, %z: tensor<!quant.uniform<i8:f32, 5.000000e-01>>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [1] {note = "kept"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.reduce(%q init: %z) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     %{{.*}}, %{{.*}} = stablehlo.reduce(%x init: %s), (%x init: %s) across dimensions = [] : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK-NEXT:      reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>)  {
// CHECK-NEXT:       stablehlo.return %a, %d {note = "kept"} : tensor<f32>, tensor<f32>
// CHECK-NEXT:     }
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @products(%x: tensor<2x3xf32>, %q: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, %w: tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.dot_general %x, %x, contracting_dims = [] x [] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x2x3xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, HIGHEST] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT:     %{{.*}} = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [] : (tensor<2x3xf32>, tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2xf32>
// CHECK-NEXT:     func.return

// CHECK-LABEL:  func.func @convolutions(%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x4x2x!quant.uniform<i8:f32:3, {5.000000e-01,2.500000e-01}>>, %q: tensor<1x4x8x!quant.uniform<u8:f32, 5.000000e-01:128>>, %w: tensor<2x4x3x!quant.uniform<u8:f32, 5.000000e-01>>) {
// CHECK-NEXT:     %{{.*}} = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = {{\[\[}}1, 1], [0, 2{{\]\]}}, lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]} : (tensor<1x8x8x4xf32>, tensor<3x3x4x2x!quant.uniform<i8:f32:3, {5.000000e-01,2.500000e-01}>>) -> tensor<1x4x6x2xf32>
// CHECK-NEXT:     %{{.*}} = stablehlo.convolution(%q, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} {note = "kept", batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x8x!quant.uniform<u8:f32, 5.000000e-01:128>>, tensor<2x4x3x!quant.uniform<u8:f32, 5.000000e-01>>) -> tensor<1x2x6x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT:     func.return

// CHECK-GENERIC:       %{{.*}} = "stablehlo.constant"() <{value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>}> : () -> tensor<2xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.constant"() <{value = dense<1> : tensor<2x3xi8>}> {note = "kept"} : () -> tensor<2x3xi8>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.constant"() <{value = dense<> : tensor<0xi32>}> : () -> tensor<0xi32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.constant"() <{value = dense_resource<weights> : tensor<4xi8>}> : () -> tensor<4xi8>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.constant"() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.constant"() <{value = dense<1> : tensor<2xi8>}> {note = "kept"} : () -> tensor<2x!quant.uniform<u8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-GENERIC:       %{{.*}} = "stablehlo.uniform_quantize"(%x) : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.uniform_quantize"(%q) : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2x!quant.uniform<i16:f32, 1.000000e+00>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.uniform_quantize"(%q) : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.uniform_quantize"(%d) {note = "kept"} : (tensor<?xbf16>) -> tensor<?x!quant.uniform<i8:bf16, 5.000000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.uniform_dequantize"(%q) : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.convert"(%x) : (tensor<2xf32>) -> tensor<2xi8>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.convert"(%x) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC:       %{{.*}} = "stablehlo.add"(%x, %x) : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.add"(%x, %x) : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<?x3xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.add"(%a, %q) : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32:0, {1.000000e+00,2.500000e-01}>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.subtract"(%q, %q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.multiply"(%q, %q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01:-7>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.divide"(%x, %x) {note = "kept"} : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.maximum"(%q, %q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.minimum"(%q, %q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.negate"(%q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.abs"(%q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.exponential"(%x) : (tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.exponential"(%x) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>}> : (tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.logistic"(%q) <{result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.tanh"(%q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC:       %{{.*}} = "stablehlo.compare"(%x, %x) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.compare"(%q, %q) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2xi1>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.select"(%p, %x, %x) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.select"(%p, %q, %q) : (tensor<2xi1>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.clamp"(%s, %x, %s) : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.clamp"(%q, %q, %q) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC:       %{{.*}} = "stablehlo.reshape"(%x) : (tensor<2x3xf32>) -> tensor<6xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.reshape"(%a) : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<1x2x3x!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01,1.000000e+00}>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.transpose"(%a) <{permutation = array<i64: 1, 0>}> : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<3x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,1.000000e+00}>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.transpose"(%s) <{permutation = array<i64>}> : (tensor<f32>) -> tensor<f32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.broadcast_in_dim"(%a) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00}>>) -> tensor<2x4x3x!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01,1.000000e+00}>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
// CHECK-GENERIC:       %{{.*}} = "stablehlo.concatenate"(%x) <{dimension = 0 : i64}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.concatenate"(%x, %d) <{dimension = 0 : i64}> {note = "kept"} : (tensor<4x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.slice"(%x) <{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 2, 6>, strides = array<i64: 1, 2>}> : (tensor<4x6xf32>) -> tensor<2x3xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.slice"(%s) <{start_indices = array<i64>, limit_indices = array<i64>, strides = array<i64>}> : (tensor<f32>) -> tensor<f32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.pad"(%q, %z) <{edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: -1>, interior_padding = array<i64: 2>}> : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<9x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC:       %{{.*}} = "stablehlo.reduce"(%x, %s) <{dimensions = array<i64: 1>}> ({
// CHECK-GENERIC-NEXT:  ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>):
// CHECK-GENERIC-NEXT:    %{{.*}} = "stablehlo.add"(%{{.*}}, %{{.*}}) : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-GENERIC-NEXT:    "stablehlo.return"(%{{.*}}) : (tensor<f32>) -> ()
// CHECK-GENERIC-NEXT:  }) {note = "kept"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.reduce"(%q, %z) <{dimensions = array<i64: 0, 1>}> ({
// CHECK-GENERIC-NEXT:  ^bb0(%a: tensor<!quant.uniform<i8:f32, 5.000000e-01>>, %b: tensor<!quant.uniform<i8:f32, 5.000000e-01>>):
// CHECK-GENERIC-NEXT:    %{{.*}} = "stablehlo.maximum"(%a, %b) : (tensor<!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC-NEXT:    "stablehlo.return"(%{{.*}}) : (tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> ()
// CHECK-GENERIC-NEXT:  }) : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-GENERIC-NEXT:  %{{.*}}, %{{.*}} = "stablehlo.reduce"(%x, %x, %s, %s) <{dimensions = array<i64>}> ({
// CHECK-GENERIC-NEXT:  ^bb0(%a_1: tensor<f32>, %c: tensor<f32>, %b_1: tensor<f32>, %d: tensor<f32>):
// CHECK-GENERIC-NEXT:    "stablehlo.return"(%a_1, %d) {note = "kept"} : (tensor<f32>, tensor<f32>) -> ()
// CHECK-GENERIC-NEXT:  }) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK-GENERIC:       %{{.*}} = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x2x3xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.dot_general"(%q, %w) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = []}> : (tensor<2x3xf32>, tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2xf32>
// CHECK-GENERIC:       %{{.*}} = "stablehlo.convolution"(%x, %k) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, window_strides = array<i64: 2, 1>, padding = dense<{{\[\[}}1, 1], [0, 2{{\]\]}}> : tensor<2x2xi64>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 2>, window_reversal = array<i1: true, false>, batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x2x!quant.uniform<i8:f32:3, {5.000000e-01,2.500000e-01}>>) -> tensor<1x4x6x2xf32>
// CHECK-GENERIC-NEXT:  %{{.*}} = "stablehlo.convolution"(%q, %w) <{dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, batch_group_count = 1 : i64, feature_group_count = 1 : i64}> {note = "kept"} : (tensor<1x4x8x!quant.uniform<u8:f32, 5.000000e-01:128>>, tensor<2x4x3x!quant.uniform<u8:f32, 5.000000e-01>>) -> tensor<1x2x6x!quant.uniform<u8:f32, 2.500000e-01:128>>
