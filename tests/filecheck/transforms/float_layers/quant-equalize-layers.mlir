// RUN: xdsl-opt %s -p quant-equalize-layers | filecheck %s --match-full-lines

func.func @relu(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = "tfl.pseudo_const"() <{value = dense<[[16.0, 2.0], [1.0, 0.5]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  %b = "tfl.pseudo_const"() <{value = dense<[8.0, 3.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %v = "tfl.pseudo_const"() <{value = dense<[[0.5, 3.0], [1.0, 16.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  %n = "tfl.no_value"() <{value}> : () -> none
  %y = "tfl.fully_connected"(%x, %w, %b) <{fused_activation_function = "RELU", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %z = "tfl.fully_connected"(%y, %v, %n) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x2xf32>, tensor<2x2xf32>, none) -> tensor<1x2xf32>
  return %z : tensor<1x2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @relu(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
// CHECK-NEXT:      %n = "tfl.no_value"() <{value}> : () -> none
// CHECK-NEXT:      %w = "tfl.pseudo_const"() <{value = dense<[[4.000000e+00, 5.000000e-01], [4.000000e+00, 2.000000e+00]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
// CHECK-NEXT:      %b = "tfl.pseudo_const"() <{value = dense<[2.000000e+00, 1.200000e+01]> : tensor<2xf32>}> : () -> tensor<2xf32>
// CHECK-NEXT:      %y = "tfl.fully_connected"(%x, %w, %b) <{fused_activation_function = "RELU", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:      %v = "tfl.pseudo_const"() <{value = dense<[[2.000000e+00, 7.500000e-01], [4.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
// CHECK-NEXT:      %z = "tfl.fully_connected"(%y, %v, %n) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x2xf32>, tensor<2x2xf32>, none) -> tensor<1x2xf32>
// CHECK-NEXT:      func.return %z : tensor<1x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
