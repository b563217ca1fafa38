// RUN: xdsl-opt %s -p tfl-fuse-qdq | filecheck %s

!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, 0.25:3>

// CHECK-LABEL: func.func @fused
// CHECK-SAME: (%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>)
// CHECK-NEXT: %z = "tfl.relu"(%q) : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: func.return %z
func.func @fused(%q: tensor<4x!a>) -> tensor<4x!b> {
  %x = "tfl.dequantize"(%q) : (tensor<4x!a>) -> tensor<4xf32>
  %y = "tfl.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = "tfl.quantize"(%y) <{qtype = tensor<4x!b>}> : (tensor<4xf32>) -> tensor<4x!b>
  return %z : tensor<4x!b>
}

// CHECK-LABEL: func.func @constant
// CHECK-NEXT: %c = "tfl.pseudo_qconst"() <{qtype = tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, value = dense<[3, -4]> : tensor<2xi8>}>
// CHECK-NEXT: func.return %c
func.func @constant() -> tensor<2x!a> {
  %x = "tfl.pseudo_const"() <{value = dense<[1.5, -2.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %c = "tfl.quantize"(%x) <{qtype = tensor<2x!a>}> : (tensor<2xf32>) -> tensor<2x!a>
  return %c : tensor<2x!a>
}

// CHECK-LABEL: func.func @requantized
// CHECK-NEXT: %z = "tfl.quantize"(%q) <{qtype = tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>}> : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>)
// CHECK-NEXT: func.return %z
func.func @requantized(%q: tensor<4x!a>) -> tensor<4x!b> {
  %x = "tfl.dequantize"(%q) : (tensor<4x!a>) -> tensor<4xf32>
  %z = "tfl.quantize"(%x) <{qtype = tensor<4x!b>}> : (tensor<4xf32>) -> tensor<4x!b>
  return %z : tensor<4x!b>
}
