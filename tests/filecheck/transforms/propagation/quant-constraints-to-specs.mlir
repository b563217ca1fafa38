// RUN: xdsl-opt %s -p quant-constraints-to-specs --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p quant-constraints-to-specs,quant-constraints-to-specs --split-input-file | filecheck %s --match-full-lines

// Each way to constrain a value.

func.func @ways(
  %a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>, %e: tensor<4xf32>, %f: tensor<4xf32>,
  %g: tensor<2x4xf32>, %h: tensor<2x4xf32>, %i: tensor<4xf32>
) {
  %a1 = quant.qcast %a : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %a2 = quant.dcast %a1 : tensor<4x!quant.uniform<i8:f32, 0.5:3>> to tensor<4xf32>
  %b1 = quant.qcast %b : tensor<4xf32> to tensor<4x!quant.any<i8:f32>>
  %b2 = quant.dcast %b1 : tensor<4x!quant.any<i8:f32>> to tensor<4xf32>
  %c1 = quant.qcast %c : tensor<4xf32> to tensor<4x!quant.calibrated<f32<-1.0:1.0>>>
  %c2 = quant.dcast %c1 : tensor<4x!quant.calibrated<f32<-1.0:1.0>>> to tensor<4xf32>
  %d1 = quant.qcast %d : tensor<4xf32> to tensor<4x!quant.none<f32>>
  %d2 = quant.dcast %d1 : tensor<4x!quant.none<f32>> to tensor<4xf32>
  %e1 = quant.qcast %e : tensor<4xf32> to tensor<4x!quant.fixed_point<i8:f32, 1073741824p-31>>
  %e2 = quant.dcast %e1 : tensor<4x!quant.fixed_point<i8:f32, 1073741824p-31>> to tensor<4xf32>
  quant.region "casts" (
    %0 = %a2 : tensor<4xf32>, %1 = %b2 : tensor<4xf32>, %2 = %c2 : tensor<4xf32>, %3 = %d2 : tensor<4xf32>,
    %4 = %e2 : tensor<4xf32>
  ) {
  }
  %f1 = quant.const_fake_quant %f <-1.0:1.0> bits 8 signed narrow : tensor<4xf32>
  %g1 = quant.const_fake_quant_per_axis %g axis 0 [<-127.0:128.0>, <0.0:255.0>] bits 8 signed : tensor<2x4xf32>
  %h1 = quant.stats %h <-2.0:2.0> axis 0 [<-1.0:1.0>, <-2.0:2.0>] : tensor<2x4xf32>
  %i1 = quant.stats %i <0.0:0.0> : tensor<4xf32>
  quant.region "ranges" (
    %0 = %f1 : tensor<4xf32>, %1 = %g1 : tensor<2x4xf32>, %2 = %h1 : tensor<2x4xf32>, %3 = %i1 : tensor<4xf32>
  ) {
  }
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @ways(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>, %e: tensor<4xf32>, %f: tensor<4xf32>, %g: tensor<2x4xf32>, %h: tensor<2x4xf32>, %i: tensor<4xf32>) {
// CHECK-NEXT:      quant.region "casts" (%0 = %a : tensor<4xf32> as !quant.uniform<i8:f32, 5.000000e-01:3>, %1 = %b : tensor<4xf32> as !quant.any<i8:f32>, %2 = %c : tensor<4xf32> as !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>, %3 = %d : tensor<4xf32> as !quant.none<f32>, %4 = %e : tensor<4xf32> as !quant.fixed_point<i8:f32, 1073741824p-31>) {
// CHECK-NEXT:        quant.return
// CHECK-NEXT:      }
// CHECK-NEXT:      quant.region "ranges" (%0 = %f : tensor<4xf32> as !quant.uniform<i8<-127:127>:f32, 0.0078740157480314959>, %1 = %g : tensor<2x4xf32> as !quant.uniform<i8:f32:0, {1.000000e+00:-1,1.000000e+00:-128}>, %2 = %h : tensor<2x4xf32> as !quant.calibrated<f32<-2.000000e+00:2.000000e+00>>, %3 = %i : tensor<4xf32> as !quant.calibrated<f32<0.000000e+00:1.000000e+00>>) attributes {quant.port_stats = [{port = 2 : i64, quant.axis = 0 : i64, quant.axis_stats = dense<{{\[\[}}-1.000000e+00, 1.000000e+00], [-2.000000e+00, 2.000000e+00]]> : tensor<2x2xf64>}]} {
// CHECK-NEXT:        quant.return
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// All ports that define or use a value; what is within a kernel stays; casts stay at values
// that are quantized already.

!u = !quant.uniform<i8:f32, 0.5:3>
func.func @ports(%q: tensor<4x!u>) -> (tensor<4x!u>, tensor<4xf32>) {
  %x = quant.dcast %q : tensor<4x!u> to tensor<4xf32>
  %y = quant.region "first" (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %b = quant.stats %a <-1.0:1.0> : tensor<4xf32>
    %c = quant.coupled_ref %b "inner" : tensor<4xf32>
    quant.return %c : tensor<4xf32>
  }
  %s = quant.stats %y <-1.0:1.0> : tensor<4xf32>
  %r = quant.stats_ref %s "key" : tensor<4xf32>
  %z = quant.region "second" (%a = %y : tensor<4xf32>, %b = %r : tensor<4xf32>) -> (tensor<4xf32>) {
    quant.return %b : tensor<4xf32>
  }
  %p = quant.qcast %z : tensor<4xf32> to tensor<4x!u>
  %d = quant.dcast %p : tensor<4x!u> to tensor<4xf32>
  %e = quant.region "third" (%a = %d : tensor<4xf32> as !quant.any<i4:f32>) -> (tensor<4xf32> as !quant.none<f32>) {
    quant.return %a : tensor<4xf32>
  }
  %g = quant.region "fourth" (%a = %e : tensor<4xf32>) -> (tensor<4xf32>) {
    quant.return %a : tensor<4xf32>
  }
  return %p, %g : tensor<4x!u>, tensor<4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @ports(%q: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4xf32>) {
// CHECK-NEXT:      %x = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4xf32>
// CHECK-NEXT:      %y = quant.region "first" (%a = %x : tensor<4xf32> as !quant.uniform<i8:f32, 5.000000e-01:3>) -> (tensor<4xf32> as !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>) {
// CHECK-NEXT:        %b = quant.stats %a <-1.000000e+00:1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:        %c = quant.coupled_ref %b "inner" : tensor<4xf32>
// CHECK-NEXT:        quant.return %c : tensor<4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %r = quant.stats_ref %y "key" : tensor<4xf32>
// CHECK-NEXT:      %z = quant.region "second" (%a = %y : tensor<4xf32> as !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>, %b = %r : tensor<4xf32> as !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>) -> (tensor<4xf32> as !quant.uniform<i8:f32, 5.000000e-01:3>) {
// CHECK-NEXT:        quant.return %b : tensor<4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %p = quant.qcast %z : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      %e = quant.region "third" (%a = %z : tensor<4xf32> as !quant.uniform<i8:f32, 5.000000e-01:3>) -> (tensor<4xf32> as !quant.none<f32>) {
// CHECK-NEXT:        quant.return %a : tensor<4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %g = quant.region "fourth" (%a = %e : tensor<4xf32> as !quant.none<f32>) -> (tensor<4xf32>) {
// CHECK-NEXT:        quant.return %a : tensor<4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %p, %g : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Coupled values, with and without statistics, also of another float type.

func.func @coupled(%x: tensor<4xf32>, %y: f16, %z: tensor<2xf32>) {
  %x1 = quant.stats %x <-1.0:1.0> : tensor<4xf32>
  %x2 = quant.coupled_ref %x1 "k" : tensor<4xf32>
  %y1 = quant.coupled_ref %y "k" : f16
  %z1 = quant.coupled_ref %z "k" : tensor<2xf32>
  %z2 = quant.stats %z1 <0.0:4.0> : tensor<2xf32>
  quant.region "k" (%a = %x2 : tensor<4xf32>, %b = %y1 : f16, %c = %z2 : tensor<2xf32>) {
  }
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @coupled(%x: tensor<4xf32>, %y: f16, %z: tensor<2xf32>) {
// CHECK-NEXT:      quant.region "k" (%a = %x : tensor<4xf32> as !quant.calibrated<f32<-1.000000e+00:4.000000e+00>>, %b = %y : f16 as !quant.calibrated<f16<-1.000000e+00:4.000000e+00>>, %c = %z : tensor<2xf32> as !quant.calibrated<f32<-1.000000e+00:4.000000e+00>>) attributes {quant.coupled_ports = [{port = 0 : i64, key = "k"}, {port = 1 : i64, key = "k"}, {port = 2 : i64, key = "k"}]} {
// CHECK-NEXT:        quant.return
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// What no kernel takes or returns stays, and so does a coupling with it.

func.func @elsewhere(%x: f32, %y: f32, %z: f32) -> (f32, f32) {
  %x1 = quant.stats %x <-1.0:1.0> : f32
  %x2 = quant.coupled_ref %x1 "k" : f32
  %y1 = quant.stats %y <0.0:4.0> : f32
  %y2 = quant.coupled_ref %y1 "k" : f32
  %z1 = quant.coupled_ref %z "l" : f32
  quant.region "k" (%a = %x2 : f32, %b = %z1 : f32) {
  }
  %f = quant.const_fake_quant %z1 <-1.0:1.0> bits 8 : f32
  %g = arith.addf %x2, %y2 : f32
  %h = quant.const_fake_quant %g <-1.0:1.0> bits 8 : f32
  return %f, %h : f32, f32
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @elsewhere(%x: f32, %y: f32, %z: f32) -> (f32, f32) {
// CHECK-NEXT:      %x2 = quant.coupled_ref %x "k" : f32
// CHECK-NEXT:      %y1 = quant.stats %y <0.000000e+00:4.000000e+00> : f32
// CHECK-NEXT:      %y2 = quant.coupled_ref %y1 "k" : f32
// CHECK-NEXT:      quant.region "k" (%a = %x2 : f32 as !quant.calibrated<f32<-1.000000e+00:4.000000e+00>>, %b = %z : f32 as !quant.uniform<u8:f32, 0.0078431372549019607:128>) attributes {quant.coupled_ports = [{port = 0 : i64, key = "k"}]} {
// CHECK-NEXT:        quant.return
// CHECK-NEXT:      }
// CHECK-NEXT:      %g = arith.addf %x2, %y2 : f32
// CHECK-NEXT:      %h = quant.const_fake_quant %g <-1.000000e+00:1.000000e+00> bits 8 : f32
// CHECK-NEXT:      func.return %z, %h : f32, f32
// CHECK-NEXT:    }
// CHECK-NEXT:  }
