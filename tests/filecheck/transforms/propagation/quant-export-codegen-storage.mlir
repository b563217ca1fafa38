// RUN: xdsl-opt %s -p 'quant-export{mode=codegen}' | filecheck %s

// Stored values of a table are indices: there is no integer arithmetic with them.

// CHECK:       quant.float_kernels = ["{{.*}}kernel 'add': unsupported storage type '!quant.quantile<i2:f16, ...>', expected an integer type"]
// CHECK-NOT:   quant.scast
// CHECK:       arith.addf

!q = !quant.uniform<!quant.quantile<i2:f16, {-1.0,3.0,2.0,-5.0}>:f32, 0.5>

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.region "add" (%a = %x : tensor<4xf32> as !q, %b = %y : tensor<4xf32> as !q) -> (tensor<4xf32> as !q) {
    %z = arith.addf %a, %b : tensor<4xf32>
    quant.return %z : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
