// RUN: xdsl-opt %s -p quant-remove-instrumentation --allow-unregistered-dialect --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p quant-remove-instrumentation,quant-insert-stats-refs,quant-remove-instrumentation --allow-unregistered-dialect --split-input-file | filecheck %s --match-full-lines

func.func @f(%x: tensor<2xf32>, %q: !quant.any<i8:f32>) -> (tensor<2xf32>, !quant.any<i8:f32>) {
  %0 = quant.stats_ref %x "a" : tensor<2xf32>
  %1 = quant.stats %0 <0.0:1.0> : tensor<2xf32>
  %2 = quant.coupled_ref %1 "b" : tensor<2xf32>
  %3 = quant.const_fake_quant %2 <0.0:1.0> bits 8 : tensor<2xf32>
  %4 = quant.stats_ref %3 "c" : tensor<2xf32>
  %5 = quant.stats_ref %q "d" : !quant.any<i8:f32>
  return %4, %5 : tensor<2xf32>, !quant.any<i8:f32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%x: tensor<2xf32>, %q: !quant.any<i8:f32>) -> (tensor<2xf32>, !quant.any<i8:f32>) {
// CHECK-NEXT:      %0 = quant.const_fake_quant %x <0.000000e+00:1.000000e+00> bits 8 : tensor<2xf32>
// CHECK-NEXT:      func.return %0, %q : tensor<2xf32>, !quant.any<i8:f32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// In a graph region a chain may bite its own tail.

"test.graph"() ({
  %0 = quant.stats_ref %1 "a" : f32
  %1 = quant.coupled_ref %0 "a" : f32
  "test.use"(%0, %1) : (f32, f32) -> ()
}) : () -> ()

// CHECK:       builtin.module {
// CHECK-NEXT:    "test.graph"() ({
// CHECK-NEXT:      %0 = quant.coupled_ref %0 "a" : f32
// CHECK-NEXT:      "test.use"(%0, %0) : (f32, f32) -> ()
// CHECK-NEXT:    }) : () -> ()
// CHECK-NEXT:  }
