func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %h = "tfl.var_handle"() <{container = "", shared_name = "sum"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<2xi32>
  %1 = tfl.add %0, %x {fused_activation_function = "NONE"} : tensor<2xi32>
  "tfl.assign_variable"(%h, %1) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  return %1 : tensor<2xi32>
}
func.func private @init() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "sum"}> : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<[10, 20]> : tensor<2xi32>}> : () -> tensor<2xi32>
  "tfl.assign_variable"(%h, %0) : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  return
}
