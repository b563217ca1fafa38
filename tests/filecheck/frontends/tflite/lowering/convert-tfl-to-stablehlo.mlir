// RUN: xdsl-opt %s -p convert-tfl-to-stablehlo | filecheck %s
// RUN: xdsl-opt %s -p 'convert-tfl-to-stablehlo,quant-fuse-kernels{target=stablehlo-int8},quant-constraints-to-specs,quant-export' | filecheck %s --check-prefix=QUANTIZED

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25}>
!b = !quant.uniform<i32:f32:0, {0.25, 0.125}>
!y = !quant.uniform<i8:f32, 0.75:-128>

// A product takes floats, and its bias is repeated as it is stored.
func.func @dense(%x: tensor<4x3x!x>) -> tensor<4x2x!y> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x3x!w>, value = dense<[[1, -127, 3], [4, 5, 127]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!w>
  %b = "tfl.pseudo_qconst"() <{qtype = tensor<2x!b>, value = dense<[100, -7]> : tensor<2xi32>}> : () -> tensor<2x!b>
  %y = "tfl.fully_connected"(%x, %w, %b) <{fused_activation_function = "RELU6", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<4x3x!x>, tensor<2x3x!w>, tensor<2x!b>) -> tensor<4x2x!y>
  func.return %y : tensor<4x2x!y>
}

// What moves elements takes stored values.
func.func @padded(%x: tensor<2x!x>) -> tensor<2x2x!x> {
  %widths = arith.constant dense<[[1, 1]]> : tensor<1x2xi32>
  %sizes = arith.constant dense<[2, 2]> : tensor<2xi32>
  %0 = "tfl.pad"(%x, %widths) : (tensor<2x!x>, tensor<1x2xi32>) -> tensor<4x!x>
  %1 = "tfl.reshape"(%0, %sizes) : (tensor<4x!x>, tensor<2xi32>) -> tensor<2x2x!x>
  func.return %1 : tensor<2x2x!x>
}

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func @dense(%x: tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>> {
// CHECK-NEXT:     %w = stablehlo.constant() <{value = dense<[[1, -127, 3], [4, 5, 127]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT:     %b = stablehlo.constant() <{value = dense<[100, -7]> : tensor<2xi32>}> : () -> tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT:     %y = quant.dcast %x : tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4x3xf32>
// CHECK-NEXT:     %y_1 = quant.dcast %w : tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>> to tensor<2x3xf32>
// CHECK-NEXT:     %y_2 = stablehlo.dot_general %y, %y_1, contracting_dims = [1] x [1] : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:     %y_3 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>) -> tensor<4x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT:     %y_4 = quant.dcast %y_3 : tensor<4x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>> to tensor<4x2xf32>
// CHECK-NEXT:     %y_5 = stablehlo.add %y_2, %y_4 : tensor<4x2xf32>
// CHECK-NEXT:     %y_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:     %y_7 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
// CHECK-NEXT:     %y_8 = stablehlo.clamp %y_6, %y_5, %y_7 : (tensor<f32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
// CHECK-NEXT:     %y_9 = quant.qcast %y_8 : tensor<4x2xf32> to tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>
// CHECK-NEXT:     func.return %y_9 : tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @padded(%x: tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>> {
// CHECK-NEXT:     %0 = stablehlo.constant() <{value = dense<3> : tensor<i8>}> : () -> tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %1 = stablehlo.pad %x, %0, low = [1], high = [1], interior = [0] : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     %2 = stablehlo.reshape %1 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:     func.return %2 : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:   }
// CHECK-NEXT: }

// QUANTIZED:      builtin.module {
// QUANTIZED-NEXT:   func.func @dense(%x: tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>> {
// QUANTIZED-NEXT:     %w = stablehlo.constant() <{value = dense<[[1, -127, 3], [4, 5, 127]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>
// QUANTIZED-NEXT:     %b = stablehlo.constant() <{value = dense<[100, -7]> : tensor<2xi32>}> : () -> tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>
// QUANTIZED-NEXT:     %y = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>) -> tensor<4x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
// QUANTIZED-NEXT:     %y_1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<4x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
// QUANTIZED-NEXT:     %y_2 = stablehlo.add %y_1, %y : tensor<4x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
// QUANTIZED-NEXT:     %y_3 = stablehlo.constant() <{value = dense<-128> : tensor<i8>}> : () -> tensor<!quant.uniform<i8:f32, 7.500000e-01:-128>>
// QUANTIZED-NEXT:     %0 = stablehlo.uniform_quantize %y_2 : (tensor<4x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>) -> tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>
// QUANTIZED-NEXT:     %y_4 = stablehlo.constant() <{value = dense<-120> : tensor<i8>}> : () -> tensor<!quant.uniform<i8:f32, 7.500000e-01:-128>>
// QUANTIZED-NEXT:     %y_5 = stablehlo.clamp %y_3, %0, %y_4 : (tensor<!quant.uniform<i8:f32, 7.500000e-01:-128>>, tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>, tensor<!quant.uniform<i8:f32, 7.500000e-01:-128>>) -> tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>
// QUANTIZED-NEXT:     func.return %y_5 : tensor<4x2x!quant.uniform<i8:f32, 7.500000e-01:-128>>
// QUANTIZED-NEXT:   }
// QUANTIZED-NEXT:   func.func @padded(%x: tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>> {
// QUANTIZED-NEXT:     %0 = stablehlo.constant() <{value = dense<3> : tensor<i8>}> : () -> tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// QUANTIZED-NEXT:     %1 = stablehlo.pad %x, %0, low = [1], high = [1], interior = [0] : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// QUANTIZED-NEXT:     %2 = stablehlo.reshape %1 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// QUANTIZED-NEXT:     func.return %2 : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// QUANTIZED-NEXT:   }
// QUANTIZED-NEXT: }
