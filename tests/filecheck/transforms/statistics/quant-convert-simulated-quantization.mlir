// RUN: xdsl-opt %s -p quant-convert-simulated-quantization --allow-unregistered-dialect --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'quant-convert-simulated-quantization{exact-bits=true}' --allow-unregistered-dialect --split-input-file | filecheck %s --check-prefix=EXACT --match-full-lines

// Ranges with and without zero, of zeros, and of no width.

func.func @per_layer(%x: tensor<4x3xf32>) {
  %0 = quant.const_fake_quant %x <-1.0:0.9921875> bits 8 signed : tensor<4x3xf32>
  %1 = quant.const_fake_quant %x <-0.3:1.7> bits 4 narrow : tensor<4x3xf32>
  %2 = quant.const_fake_quant %x <0.5:1.5> bits 16 signed narrow : tensor<4x3xf32>
  %3 = quant.const_fake_quant %x <-2.5:-0.5> bits 17 : tensor<4x3xf32>
  %4 = quant.const_fake_quant %x <0.0:0.0> bits 3 signed : tensor<4x3xf32>
  %5 = quant.const_fake_quant %x <7.0:7.0> bits 8 : tensor<4x3xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @per_layer(%x: tensor<4x3xf32>) {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i8:f32, 7.812500e-03>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<4x3x!quant.uniform<i8:f32, 7.812500e-03>> to tensor<4x3xf32>
// CHECK-NEXT:      %2 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<u8<1:255>:f32, 0.0078740159826954526:39>>
// CHECK-NEXT:      %3 = quant.dcast %2 : tensor<4x3x!quant.uniform<u8<1:255>:f32, 0.0078740159826954526:39>> to tensor<4x3xf32>
// CHECK-NEXT:      %4 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i16<-32767:32767>:f32, 1.5259254737998596E-5:-32767>>
// CHECK-NEXT:      %5 = quant.dcast %4 : tensor<4x3x!quant.uniform<i16<-32767:32767>:f32, 1.5259254737998596E-5:-32767>> to tensor<4x3xf32>
// CHECK-NEXT:      %6 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<u32:f32, 4.6566128741615948E-10:4294967295>>
// CHECK-NEXT:      %7 = quant.dcast %6 : tensor<4x3x!quant.uniform<u32:f32, 4.6566128741615948E-10:4294967295>> to tensor<4x3xf32>
// CHECK-NEXT:      %8 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i8:f32, 1.000000e+00:-128>>
// CHECK-NEXT:      %9 = quant.dcast %8 : tensor<4x3x!quant.uniform<i8:f32, 1.000000e+00:-128>> to tensor<4x3xf32>
// CHECK-NEXT:      %10 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<u8:f32, 1.000000e+00>>
// CHECK-NEXT:      %11 = quant.dcast %10 : tensor<4x3x!quant.uniform<u8:f32, 1.000000e+00>> to tensor<4x3xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// EXACT:       builtin.module {
// EXACT-NEXT:    func.func @per_layer(%x: tensor<4x3xf32>) {
// EXACT-NEXT:      %0 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i8:f32, 7.812500e-03>>
// EXACT-NEXT:      %1 = quant.dcast %0 : tensor<4x3x!quant.uniform<i8:f32, 7.812500e-03>> to tensor<4x3xf32>
// EXACT-NEXT:      %2 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<u4<1:15>:f32, 0.14285714711461747:3>>
// EXACT-NEXT:      %3 = quant.dcast %2 : tensor<4x3x!quant.uniform<u4<1:15>:f32, 0.14285714711461747:3>> to tensor<4x3xf32>
// EXACT-NEXT:      %4 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i16<-32767:32767>:f32, 1.5259254737998596E-5:-32767>>
// EXACT-NEXT:      %5 = quant.dcast %4 : tensor<4x3x!quant.uniform<i16<-32767:32767>:f32, 1.5259254737998596E-5:-32767>> to tensor<4x3xf32>
// EXACT-NEXT:      %6 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<u17:f32, 1.5258905478710012E-5:131071>>
// EXACT-NEXT:      %7 = quant.dcast %6 : tensor<4x3x!quant.uniform<u17:f32, 1.5258905478710012E-5:131071>> to tensor<4x3xf32>
// EXACT-NEXT:      %8 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<i3:f32, 1.000000e+00:-4>>
// EXACT-NEXT:      %9 = quant.dcast %8 : tensor<4x3x!quant.uniform<i3:f32, 1.000000e+00:-4>> to tensor<4x3xf32>
// EXACT-NEXT:      %10 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!quant.uniform<u8:f32, 1.000000e+00>>
// EXACT-NEXT:      %11 = quant.dcast %10 : tensor<4x3x!quant.uniform<u8:f32, 1.000000e+00>> to tensor<4x3xf32>
// EXACT-NEXT:      func.return
// EXACT-NEXT:    }
// EXACT-NEXT:  }

// -----

func.func @per_axis(%x: tensor<?x2xf32>, %y: tensor<*xf32>) {
  %0 = quant.const_fake_quant_per_axis %x axis 1 [<-1.0:1.0>, <0.0:0.0>] bits 7 signed narrow : tensor<?x2xf32>
  %1 = quant.const_fake_quant_per_axis %y axis 3 [<-1.0:1.0>] bits 8 : tensor<*xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @per_axis(%x: tensor<?x2xf32>, %y: tensor<*xf32>) {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {0.0078740157480314959,1.000000e+00:-127}>>
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<?x2x!quant.uniform<i8<-127:127>:f32:1, {0.0078740157480314959,1.000000e+00:-127}>> to tensor<?x2xf32>
// CHECK-NEXT:      %2 = quant.qcast %y : tensor<*xf32> to tensor<*x!quant.uniform<u8:f32:3, {0.0078431372549019607:128}>>
// CHECK-NEXT:      %3 = quant.dcast %2 : tensor<*x!quant.uniform<u8:f32:3, {0.0078431372549019607:128}>> to tensor<*xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// EXACT:       builtin.module {
// EXACT-NEXT:    func.func @per_axis(%x: tensor<?x2xf32>, %y: tensor<*xf32>) {
// EXACT-NEXT:      %0 = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.uniform<i7<-63:63>:f32:1, {0.015873015873015872,1.000000e+00:-63}>>
// EXACT-NEXT:      %1 = quant.dcast %0 : tensor<?x2x!quant.uniform<i7<-63:63>:f32:1, {0.015873015873015872,1.000000e+00:-63}>> to tensor<?x2xf32>
// EXACT-NEXT:      %2 = quant.qcast %y : tensor<*xf32> to tensor<*x!quant.uniform<u8:f32:3, {0.0078431372549019607:128}>>
// EXACT-NEXT:      %3 = quant.dcast %2 : tensor<*x!quant.uniform<u8:f32:3, {0.0078431372549019607:128}>> to tensor<*xf32>
// EXACT-NEXT:      func.return
// EXACT-NEXT:    }
// EXACT-NEXT:  }

// -----

// Scalars, other floats, unknown shapes; names and uses.

func.func @types(%f: f16, %d: tensor<?xf64>, %u: tensor<*xbf16>, %e: tensor<2xf32, "encoding">) -> (f16, tensor<2xf32, "encoding">) {
  %a = quant.const_fake_quant %f <0.0:255.0> bits 8 : f16
  %b = quant.const_fake_quant %d <0.0:255.0> bits 8 : tensor<?xf64>
  %c = quant.const_fake_quant %u <0.0:255.0> bits 8 : tensor<*xbf16>
  %g = quant.const_fake_quant %e <0.0:255.0> bits 8 : tensor<2xf32, "encoding">
  %h = quant.const_fake_quant %g <0.0:510.0> bits 8 : tensor<2xf32, "encoding">
  return %a, %h : f16, tensor<2xf32, "encoding">
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @types(%f: f16, %d: tensor<?xf64>, %u: tensor<*xbf16>, %e: tensor<2xf32, "encoding">) -> (f16, tensor<2xf32, "encoding">) {
// CHECK-NEXT:      %a = quant.qcast %f : f16 to !quant.uniform<u8:f16, 1.000000e+00>
// CHECK-NEXT:      %a_1 = quant.dcast %a : !quant.uniform<u8:f16, 1.000000e+00> to f16
// CHECK-NEXT:      %b = quant.qcast %d : tensor<?xf64> to tensor<?x!quant.uniform<u8:f64, 1.000000e+00>>
// CHECK-NEXT:      %b_1 = quant.dcast %b : tensor<?x!quant.uniform<u8:f64, 1.000000e+00>> to tensor<?xf64>
// CHECK-NEXT:      %c = quant.qcast %u : tensor<*xbf16> to tensor<*x!quant.uniform<u8:bf16, 1.000000e+00>>
// CHECK-NEXT:      %c_1 = quant.dcast %c : tensor<*x!quant.uniform<u8:bf16, 1.000000e+00>> to tensor<*xbf16>
// CHECK-NEXT:      %g = quant.qcast %e : tensor<2xf32, "encoding"> to tensor<2x!quant.uniform<u8:f32, 1.000000e+00>, "encoding">
// CHECK-NEXT:      %g_1 = quant.dcast %g : tensor<2x!quant.uniform<u8:f32, 1.000000e+00>, "encoding"> to tensor<2xf32, "encoding">
// CHECK-NEXT:      %h = quant.qcast %g_1 : tensor<2xf32, "encoding"> to tensor<2x!quant.uniform<u8:f32, 2.000000e+00>, "encoding">
// CHECK-NEXT:      %h_1 = quant.dcast %h : tensor<2x!quant.uniform<u8:f32, 2.000000e+00>, "encoding"> to tensor<2xf32, "encoding">
// CHECK-NEXT:      func.return %a_1, %h_1 : f16, tensor<2xf32, "encoding">
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// EXACT:       builtin.module {
// EXACT-NEXT:    func.func @types(%f: f16, %d: tensor<?xf64>, %u: tensor<*xbf16>, %e: tensor<2xf32, "encoding">) -> (f16, tensor<2xf32, "encoding">) {
// EXACT-NEXT:      %a = quant.qcast %f : f16 to !quant.uniform<u8:f16, 1.000000e+00>
// EXACT-NEXT:      %a_1 = quant.dcast %a : !quant.uniform<u8:f16, 1.000000e+00> to f16
// EXACT-NEXT:      %b = quant.qcast %d : tensor<?xf64> to tensor<?x!quant.uniform<u8:f64, 1.000000e+00>>
// EXACT-NEXT:      %b_1 = quant.dcast %b : tensor<?x!quant.uniform<u8:f64, 1.000000e+00>> to tensor<?xf64>
// EXACT-NEXT:      %c = quant.qcast %u : tensor<*xbf16> to tensor<*x!quant.uniform<u8:bf16, 1.000000e+00>>
// EXACT-NEXT:      %c_1 = quant.dcast %c : tensor<*x!quant.uniform<u8:bf16, 1.000000e+00>> to tensor<*xbf16>
// EXACT-NEXT:      %g = quant.qcast %e : tensor<2xf32, "encoding"> to tensor<2x!quant.uniform<u8:f32, 1.000000e+00>, "encoding">
// EXACT-NEXT:      %g_1 = quant.dcast %g : tensor<2x!quant.uniform<u8:f32, 1.000000e+00>, "encoding"> to tensor<2xf32, "encoding">
// EXACT-NEXT:      %h = quant.qcast %g_1 : tensor<2xf32, "encoding"> to tensor<2x!quant.uniform<u8:f32, 2.000000e+00>, "encoding">
// EXACT-NEXT:      %h_1 = quant.dcast %h : tensor<2x!quant.uniform<u8:f32, 2.000000e+00>, "encoding"> to tensor<2xf32, "encoding">
// EXACT-NEXT:      func.return %a_1, %h_1 : f16, tensor<2xf32, "encoding">
// EXACT-NEXT:    }
// EXACT-NEXT:  }

// -----

// Anywhere in a module; what is no fake quantization stays.

"test.region"() ({
  %x = "test.op"() : () -> f32
  %0 = quant.const_fake_quant %x <0.0:255.0> bits 8 : f32
  %1 = quant.stats %0 <0.0:255.0> : f32
  "test.use"(%1) : (f32) -> ()
}) : () -> ()

// CHECK:       builtin.module {
// CHECK-NEXT:    "test.region"() ({
// CHECK-NEXT:      %x = "test.op"() : () -> f32
// CHECK-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<u8:f32, 1.000000e+00>
// CHECK-NEXT:      %1 = quant.dcast %0 : !quant.uniform<u8:f32, 1.000000e+00> to f32
// CHECK-NEXT:      %2 = quant.stats %1 <0.000000e+00:2.550000e+02> : f32
// CHECK-NEXT:      "test.use"(%2) : (f32) -> ()
// CHECK-NEXT:    }) : () -> ()
// CHECK-NEXT:  }

// EXACT:       builtin.module {
// EXACT-NEXT:    "test.region"() ({
// EXACT-NEXT:      %x = "test.op"() : () -> f32
// EXACT-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<u8:f32, 1.000000e+00>
// EXACT-NEXT:      %1 = quant.dcast %0 : !quant.uniform<u8:f32, 1.000000e+00> to f32
// EXACT-NEXT:      %2 = quant.stats %1 <0.000000e+00:2.550000e+02> : f32
// EXACT-NEXT:      "test.use"(%2) : (f32) -> ()
// EXACT-NEXT:    }) : () -> ()
// EXACT-NEXT:  }
