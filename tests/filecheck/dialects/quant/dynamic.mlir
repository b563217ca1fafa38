// RUN: XDSL_ROUNDTRIP --match-full-lines

// CHECK:       builtin.module {

// CHECK-NEXT:    func.func @scalars(%x: f32, %s: f32, %z: i4) -> f32 {
// CHECK-NEXT:      %q = quant.dynamic_qcast %x, %s, %z as <i4> {quant.nan = "stored-zero"} : f32, f32, i4 to i4
// CHECK-NEXT:      %y = quant.dynamic_dcast %q, %s as <i4> : i4, f32 to f32
// CHECK-NEXT:      func.return %y : f32
// CHECK-NEXT:    }
func.func @scalars(%x: f32, %s: f32, %z: i4) -> f32 {
  %q = quant.dynamic_qcast %x, %s, %z as <i4> {quant.nan = "stored-zero"} : f32, f32, i4 to i4
  %y = quant.dynamic_dcast %q, %s as <i4> : i4, f32 to f32
  return %y : f32
}

// CHECK-NEXT:    func.func @per_tensor(%x: tensor<?x8xbf16>, %u: tensor<*xf32>, %s: tensor<1x1xbf16>, %z: tensor<1x1xi16>, %t: tensor<f32>) {
// CHECK-NEXT:      %0 = quant.dynamic_qcast %x, %s, %z as <u16<1:65535>:bf16> : tensor<?x8xbf16>, tensor<1x1xbf16>, tensor<1x1xi16> to tensor<?x8xi16>
// CHECK-NEXT:      %1 = quant.dynamic_qcast %u, %t as <si8> : tensor<*xf32>, tensor<f32> to tensor<*xi8>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
func.func @per_tensor(%x: tensor<?x8xbf16>, %u: tensor<*xf32>, %s: tensor<1x1xbf16>, %z: tensor<1x1xi16>, %t: tensor<f32>) {
  %0 = quant.dynamic_qcast %x, %s, %z as <u16<1:65535>:bf16> : tensor<?x8xbf16>, tensor<1x1xbf16>, tensor<1x1xi16> to tensor<?x8xi16>
  %1 = quant.dynamic_qcast %u, %t as <si8> : tensor<*xf32>, tensor<f32> to tensor<*xi8>
  return
}

// Scales have a dimension for each one that is cut, or for all. The last block is shorter.

// CHECK-NEXT:    func.func @blocks(%x: tensor<?x10xf16>, %a: tensor<?xf16>, %b: tensor<?x3xf16>, %c: tensor<1x3xf16>, %d: tensor<3xf16>) {
// CHECK-NEXT:      %0 = quant.dynamic_qcast %x, %a {0:1} as <i8> : tensor<?x10xf16>, tensor<?xf16> to tensor<?x10xi8>
// CHECK-NEXT:      %1 = quant.dynamic_qcast %x, %b {0:1, 1:4} as <i8> : tensor<?x10xf16>, tensor<?x3xf16> to tensor<?x10xi8>
// CHECK-NEXT:      %2 = quant.dynamic_qcast %x, %c {1:4} as <i8> : tensor<?x10xf16>, tensor<1x3xf16> to tensor<?x10xi8>
// CHECK-NEXT:      %3 = quant.dynamic_qcast %x, %d {1:4} as <i8> : tensor<?x10xf16>, tensor<3xf16> to tensor<?x10xi8>
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
func.func @blocks(%x: tensor<?x10xf16>, %a: tensor<?xf16>, %b: tensor<?x3xf16>, %c: tensor<1x3xf16>, %d: tensor<3xf16>) {
  %0 = quant.dynamic_qcast %x, %a {0:1} as <i8> : tensor<?x10xf16>, tensor<?xf16> to tensor<?x10xi8>
  %1 = quant.dynamic_qcast %x, %b {0:1, 1:4} as <i8> : tensor<?x10xf16>, tensor<?x3xf16> to tensor<?x10xi8>
  %2 = quant.dynamic_qcast %x, %c {1:4} as <i8> : tensor<?x10xf16>, tensor<1x3xf16> to tensor<?x10xi8>
  %3 = quant.dynamic_qcast %x, %d {1:4} as <i8> : tensor<?x10xf16>, tensor<3xf16> to tensor<?x10xi8>
  return
}

// Parameters that are chosen for values.

// CHECK-NEXT:    func.func @parameters(%x: tensor<?x10x2xf16>) -> (f16, i4, tensor<?x2xf16>, tensor<?x2xi8>, tensor<10xf16>) {
// CHECK-NEXT:      %s, %z = quant.choose_parameters %x as <u4> {a} : tensor<?x10x2xf16> to f16, i4
// CHECK-NEXT:      %t, %y = quant.choose_parameters %x {0:1, 2:1} as <i8<-127:127>:f16> : tensor<?x10x2xf16> to tensor<?x2xf16>, tensor<?x2xi8>
// CHECK-NEXT:      %u = quant.choose_parameters %x {1:1} as <i8> : tensor<?x10x2xf16> to tensor<10xf16>
// CHECK-NEXT:      func.return %s, %z, %t, %y, %u : f16, i4, tensor<?x2xf16>, tensor<?x2xi8>, tensor<10xf16>
// CHECK-NEXT:    }
func.func @parameters(%x: tensor<?x10x2xf16>) -> (f16, i4, tensor<?x2xf16>, tensor<?x2xi8>, tensor<10xf16>) {
  %s, %z = quant.choose_parameters %x as <u4> {a} : tensor<?x10x2xf16> to f16, i4
  %t, %y = quant.choose_parameters %x {0:1, 2:1} as <i8<-127:127>:f16> : tensor<?x10x2xf16> to tensor<?x2xf16>, tensor<?x2xi8>
  %u = quant.choose_parameters %x {1:1} as <i8> : tensor<?x10x2xf16> to tensor<10xf16>
  return %s, %z, %t, %y, %u : f16, i4, tensor<?x2xf16>, tensor<?x2xi8>, tensor<10xf16>
}
// Blocks of parameters, and storage that is no integer.

// CHECK-NEXT:    func.func @formats(%x: tensor<?x10xf32>) -> (tensor<?x3xf32>, tensor<?x10xf8E4M3FN>, tensor<?x10xi1>) {
// CHECK-NEXT:      %s = quant.choose_parameters %x {0:1, 1:4} as <f8E4M3FN> : tensor<?x10xf32> to tensor<?x3xf32>
// CHECK-NEXT:      %q = quant.dynamic_qcast %x, %s {0:1, 1:4} as <f8E4M3FN> : tensor<?x10xf32>, tensor<?x3xf32> to tensor<?x10xf8E4M3FN>
// CHECK-NEXT:      %y = quant.dynamic_dcast %q, %s {0:1, 1:4} as <f8E4M3FN> : tensor<?x10xf8E4M3FN>, tensor<?x3xf32> to tensor<?x10xf32>
// CHECK-NEXT:      %t = quant.dynamic_qcast %y, %s {0:1, 1:4} as <!quant.quantile<ui1:f32, {-1.000000e+00,1.000000e+00}>> : tensor<?x10xf32>, tensor<?x3xf32> to tensor<?x10xi1>
// CHECK-NEXT:      func.return %s, %q, %t : tensor<?x3xf32>, tensor<?x10xf8E4M3FN>, tensor<?x10xi1>
// CHECK-NEXT:    }
func.func @formats(%x: tensor<?x10xf32>) -> (tensor<?x3xf32>, tensor<?x10xf8E4M3FN>, tensor<?x10xi1>) {
  %s = quant.choose_parameters %x {0:1, 1:4} as <f8E4M3FN> : tensor<?x10xf32> to tensor<?x3xf32>
  %q = quant.dynamic_qcast %x, %s {0:1, 1:4} as <f8E4M3FN> : tensor<?x10xf32>, tensor<?x3xf32> to tensor<?x10xf8E4M3FN>
  %y = quant.dynamic_dcast %q, %s {0:1, 1:4} as <f8E4M3FN> : tensor<?x10xf8E4M3FN>, tensor<?x3xf32> to tensor<?x10xf32>
  %t = quant.dynamic_qcast %y, %s {0:1, 1:4} as <!quant.quantile<ui1:f32, {-1.0,1.0}>> : tensor<?x10xf32>, tensor<?x3xf32> to tensor<?x10xi1>
  return %s, %q, %t : tensor<?x3xf32>, tensor<?x10xf8E4M3FN>, tensor<?x10xi1>
}
// CHECK-NEXT:  }
