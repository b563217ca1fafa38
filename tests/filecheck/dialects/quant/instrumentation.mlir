// RUN: XDSL_ROUNDTRIP --match-full-lines
// RUN: XDSL_GENERIC_ROUNDTRIP --match-full-lines

// As MLIR 14 prints them.

func.func @generic(%x: tensor<8x4x3xf32>) {
  %0 = "quant.const_fake_quant"(%x) {max = 1.000000e+00 : f32, min = 0.000000e+00 : f32, num_bits = 8 : i64} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %1 = "quant.const_fake_quant_per_axis"(%x) {axis = 2 : i64, is_signed = true, max = [1.000000e+00 : f32, 1.000000e+00 : f32, 5.000000e-01 : f32], min = [0.000000e+00 : f32, -1.000000e+00 : f32, -5.000000e-01 : f32], narrow_range = true, num_bits = 4 : i64} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %2 = "quant.stats"(%x) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %3 = "quant.stats"(%x) {axis = 2 : i64, axisStats = dense<[[-1.000000e+00, 1.000000e+00], [0.000000e+00, 0.000000e+00], [-0.000000e+00, 1.000000e-01]]> : tensor<3x2xf32>, layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %4 = "quant.stats_ref"(%x) {statsKey = "layer \22a\22"} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %5 = "quant.coupled_ref"(%x) {coupledKey = ""} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @generic(%x: tensor<8x4x3xf32>) {
// CHECK-NEXT:      %0 = quant.const_fake_quant %x <0.000000e+00:1.000000e+00> bits 8 : tensor<8x4x3xf32>
// CHECK-NEXT:      %1 = quant.const_fake_quant_per_axis %x axis 2 [<0.000000e+00:1.000000e+00>, <-1.000000e+00:1.000000e+00>, <-5.000000e-01:5.000000e-01>] bits 4 signed narrow : tensor<8x4x3xf32>
// CHECK-NEXT:      %2 = quant.stats %x <-1.000000e+00:1.000000e+00> : tensor<8x4x3xf32>
// CHECK-NEXT:      %3 = quant.stats %x <-1.000000e+00:1.000000e+00> axis 2 [<-1.000000e+00:1.000000e+00>, <0.000000e+00:0.000000e+00>, <-0.000000e+00:1.000000e-01>] : tensor<8x4x3xf32>
// CHECK-NEXT:      %4 = quant.stats_ref %x "layer \22a\22" : tensor<8x4x3xf32>
// CHECK-NEXT:      %5 = quant.coupled_ref %x "" : tensor<8x4x3xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// CHECK-GENERIC:       "builtin.module"() ({
// CHECK-GENERIC-NEXT:    "func.func"() <{sym_name = "generic", function_type = (tensor<8x4x3xf32>) -> ()}> ({
// CHECK-GENERIC-NEXT:    ^bb0(%x: tensor<8x4x3xf32>):
// CHECK-GENERIC-NEXT:      %0 = "quant.const_fake_quant"(%x) {max = 1.000000e+00 : f32, min = 0.000000e+00 : f32, num_bits = 8 : i64} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
// CHECK-GENERIC-NEXT:      %1 = "quant.const_fake_quant_per_axis"(%x) {axis = 2 : i64, is_signed = true, max = [1.000000e+00 : f32, 1.000000e+00 : f32, 5.000000e-01 : f32], min = [0.000000e+00 : f32, -1.000000e+00 : f32, -5.000000e-01 : f32], narrow_range = true, num_bits = 4 : i64} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
// CHECK-GENERIC-NEXT:      %2 = "quant.stats"(%x) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
// CHECK-GENERIC-NEXT:      %3 = "quant.stats"(%x) {axis = 2 : i64, axisStats = dense<[[-1.000000e+00, 1.000000e+00], [0.000000e+00, 0.000000e+00], [-0.000000e+00, 1.000000e-01]]> : tensor<3x2xf32>, layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
// CHECK-GENERIC-NEXT:      %4 = "quant.stats_ref"(%x) {statsKey = "layer \22a\22"} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
// CHECK-GENERIC-NEXT:      %5 = "quant.coupled_ref"(%x) {coupledKey = ""} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
// CHECK-GENERIC-NEXT:      "func.return"() : () -> ()
// CHECK-GENERIC-NEXT:    }) : () -> ()
// CHECK-GENERIC-NEXT:  }) : () -> ()

// -----

// Scalars, all tensors, vectors, other floats, and quantized values where MLIR 14 has them.

func.func @types(
  %f: f32, %h: f16, %v: vector<2xf32>, %static: tensor<2x3xbf16>, %dynamic: tensor<?x3xf64>,
  %unranked: tensor<*xf32>, %encoded: tensor<2xf32, "encoding">, %q: !quant.uniform<i8:f32, 2.0>,
  %qs: tensor<2x!quant.any<i8:f32>>
) {
  %0 = quant.const_fake_quant %h <-1.0:1.0> bits 8 signed : f16
  %1 = quant.const_fake_quant %static <-1.0:1.0> bits 16 narrow : tensor<2x3xbf16>
  %2 = quant.const_fake_quant %unranked <-1.0:1.0> bits 2 signed narrow : tensor<*xf32>
  %3 = quant.const_fake_quant_per_axis %dynamic axis 1 [<-1.0:1.0>, <0.0:1.0>, <0.0:2.0>] bits 8 : tensor<?x3xf64>
  %4 = quant.const_fake_quant_per_axis %unranked axis 0 [] bits 8 : tensor<*xf32>
  %5 = quant.stats %f <-1.0:1.0> : f32
  %6 = quant.stats %v <-1.0:1.0> : vector<2xf32>
  %7 = quant.stats %dynamic <-1.0:1.0> axis 1 [<-1.0:1.0>, <0.0:1.0>, <0.0:2.0>] : tensor<?x3xf64>
  // MLIR wants six ranges, one for each element of a slice, and takes these as well.
  %8 = quant.stats %static <-1.0:1.0> axis 0 [<-1.0:1.0>, <0.0:1.0>] : tensor<2x3xbf16>
  %9 = quant.stats %static <-1.0:1.0> axis 0 [<-1.0:1.0>, <0.0:1.0>, <0.0:1.0>, <0.0:1.0>, <0.0:1.0>, <0.0:1.0>] : tensor<2x3xbf16>
  %10 = quant.stats_ref %q "a" : !quant.uniform<i8:f32, 2.0>
  %11 = quant.coupled_ref %qs "b" : tensor<2x!quant.any<i8:f32>>
  %12 = quant.stats_ref %encoded "c" : tensor<2xf32, "encoding">
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @types(%f: f32, %h: f16, %v: vector<2xf32>, %static: tensor<2x3xbf16>, %dynamic: tensor<?x3xf64>, %unranked: tensor<*xf32>, %encoded: tensor<2xf32, "encoding">, %q: !quant.uniform<i8:f32, 2.000000e+00>, %qs: tensor<2x!quant.any<i8:f32>>) {
// CHECK-NEXT:      %0 = quant.const_fake_quant %h <-1.000000e+00:1.000000e+00> bits 8 signed : f16
// CHECK-NEXT:      %1 = quant.const_fake_quant %static <-1.000000e+00:1.000000e+00> bits 16 narrow : tensor<2x3xbf16>
// CHECK-NEXT:      %2 = quant.const_fake_quant %unranked <-1.000000e+00:1.000000e+00> bits 2 signed narrow : tensor<*xf32>
// CHECK-NEXT:      %3 = quant.const_fake_quant_per_axis %dynamic axis 1 [<-1.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>, <0.000000e+00:2.000000e+00>] bits 8 : tensor<?x3xf64>
// CHECK-NEXT:      %4 = quant.const_fake_quant_per_axis %unranked axis 0 [] bits 8 : tensor<*xf32>
// CHECK-NEXT:      %5 = quant.stats %f <-1.000000e+00:1.000000e+00> : f32
// CHECK-NEXT:      %6 = quant.stats %v <-1.000000e+00:1.000000e+00> : vector<2xf32>
// CHECK-NEXT:      %7 = quant.stats %dynamic <-1.000000e+00:1.000000e+00> axis 1 [<-1.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>, <0.000000e+00:2.000000e+00>] : tensor<?x3xf64>
// CHECK-NEXT:      %8 = quant.stats %static <-1.000000e+00:1.000000e+00> axis 0 [<-1.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>] : tensor<2x3xbf16>
// CHECK-NEXT:      %9 = quant.stats %static <-1.000000e+00:1.000000e+00> axis 0 [<-1.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>, <0.000000e+00:1.000000e+00>] : tensor<2x3xbf16>
// CHECK-NEXT:      %10 = quant.stats_ref %q "a" : !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %11 = quant.coupled_ref %qs "b" : tensor<2x!quant.any<i8:f32>>
// CHECK-NEXT:      %12 = quant.stats_ref %encoded "c" : tensor<2xf32, "encoding">
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// CHECK-GENERIC:       "builtin.module"() ({
// CHECK-GENERIC-NEXT:    "func.func"() <{sym_name = "types", function_type = (f32, f16, vector<2xf32>, tensor<2x3xbf16>, tensor<?x3xf64>, tensor<*xf32>, tensor<2xf32, "encoding">, !quant.uniform<i8:f32, 2.000000e+00>, tensor<2x!quant.any<i8:f32>>) -> ()}> ({
// CHECK-GENERIC-NEXT:    ^bb0(%f: f32, %h: f16, %v: vector<2xf32>, %static: tensor<2x3xbf16>, %dynamic: tensor<?x3xf64>, %unranked: tensor<*xf32>, %encoded: tensor<2xf32, "encoding">, %q: !quant.uniform<i8:f32, 2.000000e+00>, %qs: tensor<2x!quant.any<i8:f32>>):
// CHECK-GENERIC-NEXT:      %0 = "quant.const_fake_quant"(%h) {min = -1.000000e+00 : f32, max = 1.000000e+00 : f32, num_bits = 8 : i64, is_signed = true} : (f16) -> f16
// CHECK-GENERIC-NEXT:      %1 = "quant.const_fake_quant"(%static) {min = -1.000000e+00 : f32, max = 1.000000e+00 : f32, num_bits = 16 : i64, narrow_range = true} : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK-GENERIC-NEXT:      %2 = "quant.const_fake_quant"(%unranked) {min = -1.000000e+00 : f32, max = 1.000000e+00 : f32, num_bits = 2 : i64, is_signed = true, narrow_range = true} : (tensor<*xf32>) -> tensor<*xf32>
// CHECK-GENERIC-NEXT:      %3 = "quant.const_fake_quant_per_axis"(%dynamic) {min = [-1.000000e+00 : f32, 0.000000e+00 : f32, 0.000000e+00 : f32], max = [1.000000e+00 : f32, 1.000000e+00 : f32, 2.000000e+00 : f32], axis = 1 : i64, num_bits = 8 : i64} : (tensor<?x3xf64>) -> tensor<?x3xf64>
// CHECK-GENERIC-NEXT:      %4 = "quant.const_fake_quant_per_axis"(%unranked) {min = [], max = [], axis = 0 : i64, num_bits = 8 : i64} : (tensor<*xf32>) -> tensor<*xf32>
// CHECK-GENERIC-NEXT:      %5 = "quant.stats"(%f) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>} : (f32) -> f32
// CHECK-GENERIC-NEXT:      %6 = "quant.stats"(%v) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>} : (vector<2xf32>) -> vector<2xf32>
// CHECK-GENERIC-NEXT:      %7 = "quant.stats"(%dynamic) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>, axis = 1 : i64, axisStats = dense<[[-1.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00], [0.000000e+00, 2.000000e+00]]> : tensor<3x2xf32>} : (tensor<?x3xf64>) -> tensor<?x3xf64>
// CHECK-GENERIC-NEXT:      %8 = "quant.stats"(%static) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>, axis = 0 : i64, axisStats = dense<[[-1.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>} : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK-GENERIC-NEXT:      %9 = "quant.stats"(%static) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>, axis = 0 : i64, axisStats = dense<[[-1.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<6x2xf32>} : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK-GENERIC-NEXT:      %10 = "quant.stats_ref"(%q) {statsKey = "a"} : (!quant.uniform<i8:f32, 2.000000e+00>) -> !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-GENERIC-NEXT:      %11 = "quant.coupled_ref"(%qs) {coupledKey = "b"} : (tensor<2x!quant.any<i8:f32>>) -> tensor<2x!quant.any<i8:f32>>
// CHECK-GENERIC-NEXT:      %12 = "quant.stats_ref"(%encoded) {statsKey = "c"} : (tensor<2xf32, "encoding">) -> tensor<2xf32, "encoding">
// CHECK-GENERIC-NEXT:      "func.return"() : () -> ()
// CHECK-GENERIC-NEXT:    }) : () -> ()
// CHECK-GENERIC-NEXT:  }) : () -> ()

// -----

// Numbers that have no short decimal text.

func.func @numbers(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant %x <0xFF800000:0x7FC00000> bits 8 : tensor<2xf32>
  %1 = quant.const_fake_quant %x <-0.0:1234567.0> bits 8 : tensor<2xf32>
  %2 = quant.stats %x <0.1:3.4e38> : tensor<2xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @numbers(%x: tensor<2xf32>) {
// CHECK-NEXT:      %0 = quant.const_fake_quant %x <0xff800000:0x7fc00000> bits 8 : tensor<2xf32>
// CHECK-NEXT:      %1 = quant.const_fake_quant %x <-0.000000e+00:0x4996B438> bits 8 : tensor<2xf32>
// CHECK-NEXT:      %2 = quant.stats %x <1.000000e-01:3.400000e+38> : tensor<2xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// CHECK-GENERIC:       "builtin.module"() ({
// CHECK-GENERIC-NEXT:    "func.func"() <{sym_name = "numbers", function_type = (tensor<2xf32>) -> ()}> ({
// CHECK-GENERIC-NEXT:    ^bb0(%x: tensor<2xf32>):
// CHECK-GENERIC-NEXT:      %0 = "quant.const_fake_quant"(%x) {min = 0xff800000 : f32, max = 0x7fc00000 : f32, num_bits = 8 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %1 = "quant.const_fake_quant"(%x) {min = -0.000000e+00 : f32, max = 0x4996B438 : f32, num_bits = 8 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %2 = "quant.stats"(%x) {layerStats = dense<[1.000000e-01, 3.400000e+38]> : tensor<2xf32>} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      "func.return"() : () -> ()
// CHECK-GENERIC-NEXT:    }) : () -> ()
// CHECK-GENERIC-NEXT:  }) : () -> ()

// -----

// What the form with ranges does not say stands in the dictionary.

func.func @dictionary(%x: tensor<2xf32>) {
  %0 = quant.const_fake_quant %x <-1.0:1.0> bits 8 {is_signed = false, narrow_range = true, other} : tensor<2xf32>
  %1 = quant.const_fake_quant %x {max = 1.0 : f32, min = -1.0 : f32, num_bits = 8} : tensor<2xf32>
  %2 = quant.const_fake_quant_per_axis %x {axis = 0, max = [1.0 : f32], min = [], num_bits = 8} : tensor<2xf32>
  %3 = quant.stats %x {layerStats = dense<[-1.0, 0.1]> : tensor<2xf64>} : tensor<2xf32>
  %4 = quant.stats %x {layerStats = dense<0.0> : vector<2xf32>} : tensor<2xf32>
  %5 = quant.stats %x <-1.0:1.0> {axis = 0} : tensor<2xf32>
  %6 = quant.stats %x <-1.0:1.0> {axis = 0, axisStats = dense<[[-1.0, 1.0], [0.0, 1.0]]> : tensor<2x2xf64>} : tensor<2xf32>
  %7 = quant.stats_ref %x "a" {other = 1 : i8} : tensor<2xf32>
  %8 = quant.coupled_ref %x {coupledKey = "a"} : tensor<2xf32>
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @dictionary(%x: tensor<2xf32>) {
// CHECK-NEXT:      %0 = quant.const_fake_quant %x <-1.000000e+00:1.000000e+00> bits 8 narrow {is_signed = false, other} : tensor<2xf32>
// CHECK-NEXT:      %1 = quant.const_fake_quant %x <-1.000000e+00:1.000000e+00> bits 8 : tensor<2xf32>
// CHECK-NEXT:      %2 = quant.const_fake_quant_per_axis %x {axis = 0 : i64, max = [1.000000e+00 : f32], min = [], num_bits = 8 : i64} : tensor<2xf32>
// CHECK-NEXT:      %3 = quant.stats %x {layerStats = dense<[-1.000000e+00, 1.000000e-01]> : tensor<2xf64>} : tensor<2xf32>
// CHECK-NEXT:      %4 = quant.stats %x {layerStats = dense<0.000000e+00> : vector<2xf32>} : tensor<2xf32>
// CHECK-NEXT:      %5 = quant.stats %x <-1.000000e+00:1.000000e+00> {axis = 0 : i64} : tensor<2xf32>
// CHECK-NEXT:      %6 = quant.stats %x <-1.000000e+00:1.000000e+00> {axis = 0 : i64, axisStats = dense<[[-1.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<2x2xf64>} : tensor<2xf32>
// CHECK-NEXT:      %7 = quant.stats_ref %x "a" {other = 1 : i8} : tensor<2xf32>
// CHECK-NEXT:      %8 = quant.coupled_ref %x "a" : tensor<2xf32>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// CHECK-GENERIC:       "builtin.module"() ({
// CHECK-GENERIC-NEXT:    "func.func"() <{sym_name = "dictionary", function_type = (tensor<2xf32>) -> ()}> ({
// CHECK-GENERIC-NEXT:    ^bb0(%x: tensor<2xf32>):
// CHECK-GENERIC-NEXT:      %0 = "quant.const_fake_quant"(%x) {min = -1.000000e+00 : f32, max = 1.000000e+00 : f32, num_bits = 8 : i64, is_signed = false, narrow_range = true, other} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %1 = "quant.const_fake_quant"(%x) {max = 1.000000e+00 : f32, min = -1.000000e+00 : f32, num_bits = 8 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %2 = "quant.const_fake_quant_per_axis"(%x) {axis = 0 : i64, max = [1.000000e+00 : f32], min = [], num_bits = 8 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %3 = "quant.stats"(%x) {layerStats = dense<[-1.000000e+00, 1.000000e-01]> : tensor<2xf64>} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %4 = "quant.stats"(%x) {layerStats = dense<0.000000e+00> : vector<2xf32>} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %5 = "quant.stats"(%x) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>, axis = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %6 = "quant.stats"(%x) {layerStats = dense<[-1.000000e+00, 1.000000e+00]> : tensor<2xf32>, axis = 0 : i64, axisStats = dense<[[-1.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<2x2xf64>} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %7 = "quant.stats_ref"(%x) {statsKey = "a", other = 1 : i8} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      %8 = "quant.coupled_ref"(%x) {coupledKey = "a"} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-GENERIC-NEXT:      "func.return"() : () -> ()
// CHECK-GENERIC-NEXT:    }) : () -> ()
// CHECK-GENERIC-NEXT:  }) : () -> ()
