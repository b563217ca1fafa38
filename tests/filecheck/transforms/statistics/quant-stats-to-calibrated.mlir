// RUN: xdsl-opt %s -p quant-stats-to-calibrated --allow-unregistered-dialect --split-input-file | filecheck %s --match-full-lines

// A range of zeros, and one of equal numbers, are widened.

func.func @layer(%x: tensor<2xf32>, %s: f16, %u: tensor<*xbf16>) -> (tensor<2xf32>, f16) {
  %0 = quant.stats %x <-1.0:0.5> : tensor<2xf32>
  %1 = quant.stats %0 <0.5:0.75> : tensor<2xf32>
  %2 = quant.stats %u <0.0:0.0> : tensor<*xbf16>
  %3 = quant.stats %u <2.0:2.0> : tensor<*xbf16>
  %4 = quant.stats %u <-2.0:-2.0> : tensor<*xbf16>
  %r = quant.stats %s <0.0:4.0> {other} : f16
  %5 = quant.stats_ref %s "a" : f16
  return %1, %r : tensor<2xf32>, f16
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @layer(%x: tensor<2xf32>, %s: f16, %u: tensor<*xbf16>) -> (tensor<2xf32>, f16) {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.000000e+00:5.000000e-01>>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.calibrated<f32<-1.000000e+00:5.000000e-01>>> to tensor<2xf32>
// CHECK-NEXT:      %2 = quant.qcast %1 : tensor<2xf32> to tensor<2x!quant.calibrated<f32<5.000000e-01:7.500000e-01>>>
// CHECK-NEXT:      %3 = quant.dcast %2 : tensor<2x!quant.calibrated<f32<5.000000e-01:7.500000e-01>>> to tensor<2xf32>
// CHECK-NEXT:      %4 = quant.qcast %u : tensor<*xbf16> to tensor<*x!quant.calibrated<bf16<0.000000e+00:1.000000e+00>>>
// CHECK-NEXT:      %5 = quant.dcast %4 : tensor<*x!quant.calibrated<bf16<0.000000e+00:1.000000e+00>>> to tensor<*xbf16>
// CHECK-NEXT:      %6 = quant.qcast %u : tensor<*xbf16> to tensor<*x!quant.calibrated<bf16<0.000000e+00:2.000000e+00>>>
// CHECK-NEXT:      %7 = quant.dcast %6 : tensor<*x!quant.calibrated<bf16<0.000000e+00:2.000000e+00>>> to tensor<*xbf16>
// CHECK-NEXT:      %8 = quant.qcast %u : tensor<*xbf16> to tensor<*x!quant.calibrated<bf16<-2.000000e+00:0.000000e+00>>>
// CHECK-NEXT:      %9 = quant.dcast %8 : tensor<*x!quant.calibrated<bf16<-2.000000e+00:0.000000e+00>>> to tensor<*xbf16>
// CHECK-NEXT:      %r = quant.qcast %s : f16 to !quant.calibrated<f16<0.000000e+00:4.000000e+00>>
// CHECK-NEXT:      %r_1 = quant.dcast %r : !quant.calibrated<f16<0.000000e+00:4.000000e+00>> to f16
// CHECK-NEXT:      %10 = quant.stats_ref %s "a" : f16
// CHECK-NEXT:      func.return %3, %r_1 : tensor<2xf32>, f16
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// For each index, for each element of a slice, and in other formats.

func.func @axis(%x: tensor<2x2xf32>) {
  %0 = quant.stats %x <-1.0:0.5> axis 1 [<0.0:0.5>, <-1.0:0.25>] : tensor<2x2xf32>
  %1 = quant.stats %x <-1.0:0.5> axis 0 [<0.0:0.5>, <-1.0:0.25>, <-2.0:-1.0>, <1.0:3.0>] : tensor<2x2xf32>
  %2 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf16>, axis = 0, axisStats = dense<[[0.0, 1.0], [0.0, 2.0]]> : tensor<2x2xf64>} : tensor<2x2xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @axis(%x: tensor<2x2xf32>) {
// CHECK-NEXT:      %0 = quant.qcast %x {quant.axis = 1 : i64, quant.axis_stats = dense<[[0.000000e+00, 5.000000e-01], [-1.000000e+00, 2.500000e-01]]> : tensor<2x2xf64>} : tensor<2x2xf32> to tensor<2x2x!quant.calibrated<f32<-1.000000e+00:5.000000e-01>>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x2x!quant.calibrated<f32<-1.000000e+00:5.000000e-01>>> to tensor<2x2xf32>
// CHECK-NEXT:      %2 = quant.qcast %x {quant.axis = 0 : i64, quant.axis_stats = dense<[[-1.000000e+00, 5.000000e-01], [-2.000000e+00, 3.000000e+00]]> : tensor<2x2xf64>} : tensor<2x2xf32> to tensor<2x2x!quant.calibrated<f32<-1.000000e+00:5.000000e-01>>>
// CHECK-NEXT:      %3 = quant.dcast %2 : tensor<2x2x!quant.calibrated<f32<-1.000000e+00:5.000000e-01>>> to tensor<2x2xf32>
// CHECK-NEXT:      %4 = quant.qcast %x {quant.axis = 0 : i64, quant.axis_stats = dense<[[0.000000e+00, 1.000000e+00], [0.000000e+00, 2.000000e+00]]> : tensor<2x2xf64>} : tensor<2x2xf32> to tensor<2x2x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>>
// CHECK-NEXT:      %5 = quant.dcast %4 : tensor<2x2x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>> to tensor<2x2xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Coupled values have one range.

func.func @coupled(%x: tensor<2xf32>, %y: tensor<3xf16>, %z: f32) -> (tensor<2xf32>, tensor<3xf16>, f32) {
  // Behind its statistics.
  %0 = quant.stats %x <-1.0:0.5> : tensor<2xf32>
  %1 = quant.stats_ref %0 "r" : tensor<2xf32>
  %2 = quant.coupled_ref %1 "a" : tensor<2xf32>
  // In front of them.
  %3 = quant.coupled_ref %y "a" : tensor<3xf16>
  %4 = quant.stats %3 <0.0:2.0> : tensor<3xf16>
  // Without any, and with two keys, so that all values with the other one belong to them.
  %5 = quant.coupled_ref %z "a" : f32
  %6 = quant.coupled_ref %5 "b" : f32
  return %2, %4, %6 : tensor<2xf32>, tensor<3xf16>, f32
}

func.func @elsewhere(%x: f64, %y: f64) -> (f64, f64) {
  %0 = quant.stats %x <-8.0:0.0> : f64
  %1 = quant.coupled_ref %0 "b" : f64
  // Nothing is known of this.
  %2 = quant.coupled_ref %y "c" : f64
  return %1, %2 : f64, f64
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @coupled(%x: tensor<2xf32>, %y: tensor<3xf16>, %z: f32) -> (tensor<2xf32>, tensor<3xf16>, f32) {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-8.000000e+00:2.000000e+00>>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.calibrated<f32<-8.000000e+00:2.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:      %2 = quant.stats_ref %1 "r" : tensor<2xf32>
// CHECK-NEXT:      %3 = quant.qcast %y : tensor<3xf16> to tensor<3x!quant.calibrated<f16<-8.000000e+00:2.000000e+00>>>
// CHECK-NEXT:      %4 = quant.dcast %3 : tensor<3x!quant.calibrated<f16<-8.000000e+00:2.000000e+00>>> to tensor<3xf16>
// CHECK-NEXT:      %5 = quant.qcast %z : f32 to !quant.calibrated<f32<-8.000000e+00:2.000000e+00>>
// CHECK-NEXT:      %6 = quant.dcast %5 : !quant.calibrated<f32<-8.000000e+00:2.000000e+00>> to f32
// CHECK-NEXT:      func.return %2, %4, %6 : tensor<2xf32>, tensor<3xf16>, f32
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @elsewhere(%x: f64, %y: f64) -> (f64, f64) {
// CHECK-NEXT:      %0 = quant.qcast %x : f64 to !quant.calibrated<f64<-8.000000e+00:2.000000e+00>>
// CHECK-NEXT:      %1 = quant.dcast %0 : !quant.calibrated<f64<-8.000000e+00:2.000000e+00>> to f64
// CHECK-NEXT:      %2 = quant.coupled_ref %y "c" : f64
// CHECK-NEXT:      func.return %1, %2 : f64, f64
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Ranges of an axis are common if all values have them.

func.func @coupled_axis(%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>) {
  %0 = quant.stats %x <-1.0:0.5> axis 0 [<0.0:0.5>, <-1.0:0.25>] : tensor<2xf32>
  %1 = quant.coupled_ref %0 "a" : tensor<2xf32>
  %2 = quant.stats %y <0.0:3.0> axis 0 [<0.0:0.25>, <0.5:3.0>] : tensor<2xf32>
  %3 = quant.coupled_ref %2 "a" : tensor<2xf32>
  %4 = quant.stats %x <-1.0:0.5> axis 0 [<0.0:0.5>, <-1.0:0.25>] : tensor<2xf32>
  %5 = quant.coupled_ref %z "b" : tensor<2xf32>
  %6 = quant.stats %5 <0.0:3.0> : tensor<2xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @coupled_axis(%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>) {
// CHECK-NEXT:      %0 = quant.qcast %x {quant.axis = 0 : i64, quant.axis_stats = dense<[[0.000000e+00, 5.000000e-01], [-1.000000e+00, 3.000000e+00]]> : tensor<2x2xf64>} : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.000000e+00:3.000000e+00>>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.calibrated<f32<-1.000000e+00:3.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:      %2 = quant.qcast %y {quant.axis = 0 : i64, quant.axis_stats = dense<[[0.000000e+00, 5.000000e-01], [-1.000000e+00, 3.000000e+00]]> : tensor<2x2xf64>} : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.000000e+00:3.000000e+00>>>
// CHECK-NEXT:      %3 = quant.dcast %2 : tensor<2x!quant.calibrated<f32<-1.000000e+00:3.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:      %4 = quant.qcast %x {quant.axis = 0 : i64, quant.axis_stats = dense<[[0.000000e+00, 5.000000e-01], [-1.000000e+00, 3.000000e+00]]> : tensor<2x2xf64>} : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.000000e+00:3.000000e+00>>>
// CHECK-NEXT:      %5 = quant.dcast %4 : tensor<2x!quant.calibrated<f32<-1.000000e+00:3.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:      %6 = quant.qcast %z : tensor<2xf32> to tensor<2x!quant.calibrated<f32<0.000000e+00:3.000000e+00>>>
// CHECK-NEXT:      %7 = quant.dcast %6 : tensor<2x!quant.calibrated<f32<0.000000e+00:3.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A loop that passes a value on to itself.

func.func @loop(%x: tensor<2xf32>, %n: index) -> tensor<2xf32> {
  %start = quant.coupled_ref %x "state" : tensor<2xf32>
  %r = scf.for %i = %n to %n step %n iter_args(%acc = %start) -> (tensor<2xf32>) {
    %0 = quant.stats %acc <-1.0:1.0> : tensor<2xf32>
    %1 = quant.coupled_ref %0 "state" : tensor<2xf32>
    %2 = arith.addf %1, %1 : tensor<2xf32>
    %3 = quant.stats %2 <-2.0:2.0> : tensor<2xf32>
    %4 = quant.coupled_ref %3 "state" : tensor<2xf32>
    scf.yield %4 : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @loop(%x: tensor<2xf32>, %n: index) -> tensor<2xf32> {
// CHECK-NEXT:      %start = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>>
// CHECK-NEXT:      %start_1 = quant.dcast %start : tensor<2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:      %r = scf.for %i = %n to %n step %n iter_args(%acc = %start_1) -> (tensor<2xf32>) {
// CHECK-NEXT:        %0 = quant.qcast %acc : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>>
// CHECK-NEXT:        %1 = quant.dcast %0 : tensor<2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:        %2 = arith.addf %1, %1 : tensor<2xf32>
// CHECK-NEXT:        %3 = quant.qcast %2 : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>>
// CHECK-NEXT:        %4 = quant.dcast %3 : tensor<2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>> to tensor<2xf32>
// CHECK-NEXT:        scf.yield %4 : tensor<2xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %r : tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
