// RUN: XDSL_ROUNDTRIP

func.func @custom_forms(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %p: tensor<2x3xi1>) {
  %0 = tfl.add %x, %x {fused_activation_function = "NONE"} : tensor<2x3xf32>
  %1 = tfl.add(%x, %y) <{fused_activation_function = "RELU"}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = tfl.sub %0, %1 {fused_activation_function = "RELU6", note = "kept"} : tensor<2x3xf32>
  %3 = tfl.mul %0, %1 {fused_activation_function = "NONE"} : tensor<2x3xf32>
  %4 = tfl.div(%0, %y) <{fused_activation_function = "NONE"}> {note = "kept"} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %5 = tfl.floor_div %0, %1 : tensor<2x3xf32>
  %6 = tfl.pow %0, %1 : tensor<2x3xf32>
  %7 = tfl.squared_difference %0, %1 : tensor<2x3xf32>
  %8 = tfl.logical_and %p, %p : tensor<2x3xi1>
  %9 = tfl.logical_or(%p, %p) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<?x3xi1>
  %10 = tfl.less(%x, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %11 = tfl.not_equal %p, %p : tensor<2x3xi1>
  func.return
}

func.func @generic_forms(%x: tensor<1x8x8x3xf32>, %q: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) {
  %shape = "tfl.pseudo_const"() <{value = dense<[3, -1]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %weights = "tfl.pseudo_qconst"() <{qtype = tensor<4x3x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00,4.000000e+00}>>, value = dense<1> : tensor<4x3xi8>}> : () -> tensor<4x3x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00,4.000000e+00}>>
  %none = "tfl.no_value"() <{value}> : () -> none
  %0 = "tfl.fully_connected"(%q, %weights, %none) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x3x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00,4.000000e+00}>>, none) -> tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>
  %1 = "tfl.reshape"(%q, %shape) : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2xi32>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %2 = "tfl.softmax"(%q) <{beta = 1.000000e+00 : f32}> : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 3.906250e-03:-128>>
  %3 = "tfl.average_pool_2d"(%x) <{filter_height = 2 : i32, filter_width = 2 : i32, fused_activation_function = "NONE", padding = "VALID", stride_h = 2 : i32, stride_w = 2 : i32}> : (tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32>
  %4 = "tfl.mean"(%x, %shape) <{keep_dims = false}> : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
  %5, %6 = "tfl.unpack"(%q) <{axis = 0 : i32, num = 2 : i32}> : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>)
  %7 = "tfl.dequantize"(%q) : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3xf32>
  %8 = "tfl.custom"(%x, %none) <{custom_code = "MyOp", custom_option = #tfl<const_bytes : "0x6162FF">}> : (tensor<1x8x8x3xf32>, none) -> tensor<*xf32>
  func.return
}

func.func @state(%x: tensor<2xf32>, %s: tensor<2x!tf_type.string>, %u: tensor<2x!tf_type.quint8>) {
  "tfl.call_once"() <{session_init_function = "NoOp"}> : () -> ()
  %0 = "tfl.var_handle"() <{container = "", shared_name = "state"}> : () -> tensor<*x!tf_type.resource>
  %1 = "tfl.read_variable"(%0) : (tensor<*x!tf_type.resource>) -> tensor<2xf32>
  "tfl.assign_variable"(%0, %x) : (tensor<*x!tf_type.resource>, tensor<2xf32>) -> ()
  func.return
}

func.func @control_flow(%c: tensor<i1>, %x: tensor<i32>) {
  %0 = "tfl.if"(%c) ({
    "tfl.yield"(%x) : (tensor<i32>) -> ()
  }, {
    "tfl.yield"(%x) : (tensor<i32>) -> ()
  }) : (tensor<i1>) -> tensor<i32>
  %1 = "tfl.while"(%0) ({
  ^bb0(%arg0: tensor<i32>):
    %2 = tfl.less(%arg0, %x) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "tfl.yield"(%2) : (tensor<i1>) -> ()
  }, {
  ^bb1(%arg1: tensor<i32>):
    %3 = tfl.add %arg1, %arg1 {fused_activation_function = "NONE"} : tensor<i32>
    "tfl.yield"(%3) : (tensor<i32>) -> ()
  }) : (tensor<i32>) -> tensor<i32>
  func.return
}

// CHECK-LABEL: func.func @custom_forms
// CHECK-NEXT: %{{.*}} = tfl.add %{{.*}}, %{{.*}} {fused_activation_function = "NONE"} : tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.add(%{{.*}}, %{{.*}}) <{fused_activation_function = "RELU"}> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.sub %{{.*}}, %{{.*}} {fused_activation_function = "RELU6", note = "kept"} : tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.mul %{{.*}}, %{{.*}} {fused_activation_function = "NONE"} : tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.div(%{{.*}}, %{{.*}}) <{fused_activation_function = "NONE"}> {note = "kept"} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.floor_div %{{.*}}, %{{.*}} : tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.pow %{{.*}}, %{{.*}} : tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.squared_difference %{{.*}}, %{{.*}} : tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = tfl.logical_and %{{.*}}, %{{.*}} : tensor<2x3xi1>
// CHECK-NEXT: %{{.*}} = tfl.logical_or(%{{.*}}, %{{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<?x3xi1>
// CHECK-NEXT: %{{.*}} = tfl.less(%{{.*}}, %{{.*}}) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
// CHECK-NEXT: %{{.*}} = tfl.not_equal %{{.*}}, %{{.*}} : tensor<2x3xi1>
// CHECK-NEXT: func.return
// CHECK-NEXT: }
// CHECK-LABEL: func.func @generic_forms
// CHECK-NEXT: %{{.*}} = "tfl.pseudo_const"() <{value = dense<[3, -1]> : tensor<2xi32>}> : () -> tensor<2xi32>
// CHECK-NEXT: %{{.*}} = "tfl.pseudo_qconst"() <{qtype = tensor<4x3x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00,4.000000e+00}>>, value = dense<1> : tensor<4x3xi8>}> : () -> tensor<4x3x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00,4.000000e+00}>>
// CHECK-NEXT: %{{.*}} = "tfl.no_value"() <{value}> : () -> none
// CHECK-NEXT: %{{.*}} = "tfl.fully_connected"(%{{.*}}, %{{.*}}, %{{.*}}) <{fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4x3x!quant.uniform<i8<-127:127>:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00,4.000000e+00}>>, none) -> tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: %{{.*}} = "tfl.reshape"(%{{.*}}, %{{.*}}) : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2xi32>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: %{{.*}} = "tfl.softmax"(%{{.*}}) <{beta = 1.000000e+00 : f32}> : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 3.906250e-03:-128>>
// CHECK-NEXT: %{{.*}} = "tfl.average_pool_2d"(%{{.*}}) <{filter_height = 2 : i32, filter_width = 2 : i32, fused_activation_function = "NONE", padding = "VALID", stride_h = 2 : i32, stride_w = 2 : i32}> : (tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32>
// CHECK-NEXT: %{{.*}} = "tfl.mean"(%{{.*}}, %{{.*}}) <{keep_dims = false}> : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
// CHECK-NEXT: %{{.*}}, %{{.*}} = "tfl.unpack"(%{{.*}}) <{axis = 0 : i32, num = 2 : i32}> : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>)
// CHECK-NEXT: %{{.*}} = "tfl.dequantize"(%{{.*}}) : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3xf32>
// CHECK-NEXT: %{{.*}} = "tfl.custom"(%{{.*}}, %{{.*}}) <{custom_code = "MyOp", custom_option = #tfl<const_bytes : "0x6162FF">}> : (tensor<1x8x8x3xf32>, none) -> tensor<*xf32>
// CHECK-NEXT: func.return
// CHECK-NEXT: }
// CHECK-LABEL: func.func @state
// CHECK-NEXT: "tfl.call_once"() <{session_init_function = "NoOp"}> : () -> ()
// CHECK-NEXT: %{{.*}} = "tfl.var_handle"() <{container = "", shared_name = "state"}> : () -> tensor<*x!tf_type.resource>
// CHECK-NEXT: %{{.*}} = "tfl.read_variable"(%{{.*}}) : (tensor<*x!tf_type.resource>) -> tensor<2xf32>
// CHECK-NEXT: "tfl.assign_variable"(%{{.*}}, %{{.*}}) : (tensor<*x!tf_type.resource>, tensor<2xf32>) -> ()
// CHECK-NEXT: func.return
// CHECK-NEXT: }
// CHECK-LABEL: func.func @control_flow
// CHECK-NEXT: %{{.*}} = "tfl.if"(%{{.*}}) ({
// CHECK-NEXT: "tfl.yield"(%{{.*}}) : (tensor<i32>) -> ()
// CHECK-NEXT: }, {
// CHECK-NEXT: "tfl.yield"(%{{.*}}) : (tensor<i32>) -> ()
// CHECK-NEXT: }) : (tensor<i1>) -> tensor<i32>
// CHECK-NEXT: %{{.*}} = "tfl.while"(%{{.*}}) ({
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<i32>):
// CHECK-NEXT: %{{.*}} = tfl.less(%{{.*}}, %{{.*}}) : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK-NEXT: "tfl.yield"(%{{.*}}) : (tensor<i1>) -> ()
// CHECK-NEXT: }, {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<i32>):
// CHECK-NEXT: %{{.*}} = tfl.add %{{.*}}, %{{.*}} {fused_activation_function = "NONE"} : tensor<i32>
// CHECK-NEXT: "tfl.yield"(%{{.*}}) : (tensor<i32>) -> ()
// CHECK-NEXT: }) : (tensor<i32>) -> tensor<i32>
// CHECK-NEXT: func.return
// CHECK-NEXT: }
