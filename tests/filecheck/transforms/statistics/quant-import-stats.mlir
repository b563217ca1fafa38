// RUN: echo '{"version": 1, "statistics": {"a": {"min": -1, "max": 2.5}, "b": {"min": 0.0, "max": 1.0, "axis": 1, "axis_min": [0, 0.5], "axis_max": [1, 0.75], "count": 3}, "unused": {"min": 0, "max": 0}}}' > %t.json
// RUN: xdsl-opt %s -p 'quant-import-stats{file="%t.json" missing=keep}' 2>%t.err | filecheck %s --match-full-lines
// RUN: filecheck %s --check-prefix=WARNING < %t.err
// RUN: xdsl-opt %s -p 'quant-import-stats{file="%t.json"}' --verify-diagnostics | filecheck %s --check-prefix=MISSING

func.func @f(%x: tensor<2x2xf32>, %s: f16) -> tensor<2x2xf32> {
  %0 = quant.stats_ref %x "a" : tensor<2x2xf32>
  %1 = quant.stats_ref %0 "b" : tensor<2x2xf32>
  %2 = quant.stats_ref %1 "c" : tensor<2x2xf32>
  %3 = quant.stats_ref %s "a" : f16
  return %2 : tensor<2x2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%x: tensor<2x2xf32>, %s: f16) -> tensor<2x2xf32> {
// CHECK-NEXT:      %0 = quant.stats %x <-1.000000e+00:2.500000e+00> : tensor<2x2xf32>
// CHECK-NEXT:      %1 = quant.stats %0 <0.000000e+00:1.000000e+00> axis 1 [<0.000000e+00:1.000000e+00>, <5.000000e-01:7.500000e-01>] : tensor<2x2xf32>
// CHECK-NEXT:      %2 = quant.stats_ref %1 "c" : tensor<2x2xf32>
// CHECK-NEXT:      %3 = quant.stats %s <-1.000000e+00:2.500000e+00> : f16
// CHECK-NEXT:      func.return %2 : tensor<2x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// WARNING: .json: warning: keys without an op: 'unused'

// MISSING: 'quant.stats_ref' op has key 'c', missing in {{.*}}.json
