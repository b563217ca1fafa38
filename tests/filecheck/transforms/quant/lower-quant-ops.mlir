// RUN: xdsl-opt %s -p lower-quant-ops --allow-unregistered-dialect --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p lower-quant-ops --allow-unregistered-dialect --split-input-file --print-debuginfo | filecheck %s --check-prefix=LOC --match-full-lines

// By default the ops are MLIR's, in MLIR's order.

// Scalars. A zero point of 0 is a constant that nobody uses.

!q = !quant.uniform<i8:f32, 2.0>

func.func @scalar(%x: f32) -> f32 {
  %0 = quant.qcast %x : f32 to !q
  %1 = "test.op"(%0) : (!q) -> !q
  %2 = quant.dcast %1 : !q to f32
  return %2 : f32
}

// CHECK:         func.func @scalar(%x: f32) -> f32 {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 0 : i8
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = arith.fptosi %2 : f32 to i8
// CHECK-NEXT:      %4 = quant.scast %3 : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %5 = "test.op"(%4) : (!quant.uniform<i8:f32, 2.000000e+00>) -> !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %6 = quant.scast %5 : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %7 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %8 = arith.constant 0 : i8
// CHECK-NEXT:      %9 = arith.sitofp %6 : i8 to f32
// CHECK-NEXT:      %10 = arith.mulf %9, %7 : f32
// CHECK-NEXT:      func.return %10 : f32
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8<-8:7>:f32, 2.0:10>

func.func @scalar_with_zero_point_and_range(%x: f32, %q: !q) -> (!q, f32) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %q : !q to f32
  return %0, %1 : !q, f32
}

// CHECK:         func.func @scalar_with_zero_point_and_range(%x: f32, %q: !quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>) -> (!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>, f32) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 10 : i8
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = arith.sitofp %1 : i8 to f32
// CHECK-NEXT:      %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:      %5 = arith.fptosi %4 : f32 to i8
// CHECK-NEXT:      %6 = arith.constant -8 : i8
// CHECK-NEXT:      %7 = arith.constant 7 : i8
// CHECK-NEXT:      %8 = arith.maxsi %5, %6 : i8
// CHECK-NEXT:      %9 = arith.minsi %8, %7 : i8
// CHECK-NEXT:      %10 = quant.scast %9 : i8 to !quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>
// CHECK-NEXT:      %11 = quant.scast %q : !quant.uniform<i8<-8:7>:f32, 2.000000e+00:10> to i8
// CHECK-NEXT:      %12 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %13 = arith.constant 10 : i8
// CHECK-NEXT:      %14 = arith.sitofp %11 : i8 to f32
// CHECK-NEXT:      %15 = arith.sitofp %13 : i8 to f32
// CHECK-NEXT:      %16 = arith.subf %14, %15 : f32
// CHECK-NEXT:      %17 = arith.mulf %16, %12 : f32
// CHECK-NEXT:      func.return %10, %17 : !quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>, f32
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Arithmetic is signless: 200 is written as -56, and 250 as -6.

!q = !quant.uniform<u8<3:250>:f32, 2.0:200>

func.func @unsigned(%x: f32, %q: !q) -> (!q, f32) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %q : !q to f32
  return %0, %1 : !q, f32
}

// CHECK:         func.func @unsigned(%x: f32, %q: !quant.uniform<u8<3:250>:f32, 2.000000e+00:200>) -> (!quant.uniform<u8<3:250>:f32, 2.000000e+00:200>, f32) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant -56 : i8
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = arith.uitofp %1 : i8 to f32
// CHECK-NEXT:      %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:      %5 = arith.fptoui %4 : f32 to i8
// CHECK-NEXT:      %6 = arith.constant 3 : i8
// CHECK-NEXT:      %7 = arith.constant -6 : i8
// CHECK-NEXT:      %8 = arith.maxui %5, %6 : i8
// CHECK-NEXT:      %9 = arith.minui %8, %7 : i8
// CHECK-NEXT:      %10 = quant.scast %9 : i8 to !quant.uniform<u8<3:250>:f32, 2.000000e+00:200>
// CHECK-NEXT:      %11 = quant.scast %q : !quant.uniform<u8<3:250>:f32, 2.000000e+00:200> to i8
// CHECK-NEXT:      %12 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %13 = arith.constant -56 : i8
// CHECK-NEXT:      %14 = arith.uitofp %11 : i8 to f32
// CHECK-NEXT:      %15 = arith.uitofp %13 : i8 to f32
// CHECK-NEXT:      %16 = arith.subf %14, %15 : f32
// CHECK-NEXT:      %17 = arith.mulf %16, %12 : f32
// CHECK-NEXT:      func.return %10, %17 : !quant.uniform<u8<3:250>:f32, 2.000000e+00:200>, f32
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Storage types from one bit to 32.

!i1 = !quant.uniform<i1:f32, 2.0>
!u1 = !quant.uniform<u1:f32, 2.0:1>
!i4 = !quant.uniform<i4:f32, 2.0:-8>
!i16 = !quant.uniform<i16<-32767:32767>:f32, 2.0>
!i32 = !quant.uniform<i32:f32, 2.0:2147483647>
!u32 = !quant.uniform<u32<0:4294967294>:f32, 2.0:4294967295>

func.func @storage_types(%x: f32) -> (!i1, !u1, !i4, !i16, !i32, !u32) {
  %0 = quant.qcast %x : f32 to !i1
  %1 = quant.qcast %x : f32 to !u1
  %2 = quant.qcast %x : f32 to !i4
  %3 = quant.qcast %x : f32 to !i16
  %4 = quant.qcast %x : f32 to !i32
  %5 = quant.qcast %x : f32 to !u32
  return %0, %1, %2, %3, %4, %5 : !i1, !u1, !i4, !i16, !i32, !u32
}

// CHECK:         func.func @storage_types(%x: f32) -> (!quant.uniform<i1:f32, 2.000000e+00>, !quant.uniform<u1:f32, 2.000000e+00:1>, !quant.uniform<i4:f32, 2.000000e+00:-8>, !quant.uniform<i16<-32767:32767>:f32, 2.000000e+00>, !quant.uniform<i32:f32, 2.000000e+00:2147483647>, !quant.uniform<u32<0:4294967294>:f32, 2.000000e+00:4294967295>) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant false
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = arith.fptosi %2 : f32 to i1
// CHECK-NEXT:      %4 = quant.scast %3 : i1 to !quant.uniform<i1:f32, 2.000000e+00>
// CHECK-NEXT:      %5 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %6 = arith.constant true
// CHECK-NEXT:      %7 = arith.divf %x, %5 : f32
// CHECK-NEXT:      %8 = arith.uitofp %6 : i1 to f32
// CHECK-NEXT:      %9 = arith.addf %7, %8 : f32
// CHECK-NEXT:      %10 = arith.fptoui %9 : f32 to i1
// CHECK-NEXT:      %11 = quant.scast %10 : i1 to !quant.uniform<u1:f32, 2.000000e+00:1>
// CHECK-NEXT:      %12 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %13 = arith.constant -8 : i4
// CHECK-NEXT:      %14 = arith.divf %x, %12 : f32
// CHECK-NEXT:      %15 = arith.sitofp %13 : i4 to f32
// CHECK-NEXT:      %16 = arith.addf %14, %15 : f32
// CHECK-NEXT:      %17 = arith.fptosi %16 : f32 to i4
// CHECK-NEXT:      %18 = quant.scast %17 : i4 to !quant.uniform<i4:f32, 2.000000e+00:-8>
// CHECK-NEXT:      %19 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %20 = arith.constant 0 : i16
// CHECK-NEXT:      %21 = arith.divf %x, %19 : f32
// CHECK-NEXT:      %22 = arith.fptosi %21 : f32 to i16
// CHECK-NEXT:      %23 = arith.constant -32767 : i16
// CHECK-NEXT:      %24 = arith.constant 32767 : i16
// CHECK-NEXT:      %25 = arith.maxsi %22, %23 : i16
// CHECK-NEXT:      %26 = arith.minsi %25, %24 : i16
// CHECK-NEXT:      %27 = quant.scast %26 : i16 to !quant.uniform<i16<-32767:32767>:f32, 2.000000e+00>
// CHECK-NEXT:      %28 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %29 = arith.constant 2147483647 : i32
// CHECK-NEXT:      %30 = arith.divf %x, %28 : f32
// CHECK-NEXT:      %31 = arith.sitofp %29 : i32 to f32
// CHECK-NEXT:      %32 = arith.addf %30, %31 : f32
// CHECK-NEXT:      %33 = arith.fptosi %32 : f32 to i32
// CHECK-NEXT:      %34 = quant.scast %33 : i32 to !quant.uniform<i32:f32, 2.000000e+00:2147483647>
// CHECK-NEXT:      %35 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %36 = arith.constant -1 : i32
// CHECK-NEXT:      %37 = arith.divf %x, %35 : f32
// CHECK-NEXT:      %38 = arith.uitofp %36 : i32 to f32
// CHECK-NEXT:      %39 = arith.addf %37, %38 : f32
// CHECK-NEXT:      %40 = arith.fptoui %39 : f32 to i32
// CHECK-NEXT:      %41 = arith.constant 0 : i32
// CHECK-NEXT:      %42 = arith.constant -2 : i32
// CHECK-NEXT:      %43 = arith.maxui %40, %41 : i32
// CHECK-NEXT:      %44 = arith.minui %43, %42 : i32
// CHECK-NEXT:      %45 = quant.scast %44 : i32 to !quant.uniform<u32<0:4294967294>:f32, 2.000000e+00:4294967295>
// CHECK-NEXT:      func.return %4, %11, %18, %27, %34, %45 : !quant.uniform<i1:f32, 2.000000e+00>, !quant.uniform<u1:f32, 2.000000e+00:1>, !quant.uniform<i4:f32, 2.000000e+00:-8>, !quant.uniform<i16<-32767:32767>:f32, 2.000000e+00>, !quant.uniform<i32:f32, 2.000000e+00:2147483647>, !quant.uniform<u32<0:4294967294>:f32, 2.000000e+00:4294967295>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// The scale is rounded to the expressed type, in which is computed.

!f16 = !quant.uniform<i8:f16, 0.1:1>
!bf16 = !quant.uniform<i8:bf16, 0.1:1>
!f64 = !quant.uniform<i8:f64, 0.1:1>
!tf32 = !quant.uniform<i8:tf32, 0.1:1>
!f8 = !quant.uniform<i8:f8E4M3FN, 0.1:1>

func.func @expressed_types(%f16: f16, %bf16: bf16, %f64: !f64, %tf32: !tf32, %f8: !f8) -> (!f16, !bf16, f64, tf32, f8E4M3FN) {
  %0 = quant.qcast %f16 : f16 to !f16
  %1 = quant.qcast %bf16 : bf16 to !bf16
  %2 = quant.dcast %f64 : !f64 to f64
  %3 = quant.dcast %tf32 : !tf32 to tf32
  %4 = quant.dcast %f8 : !f8 to f8E4M3FN
  return %0, %1, %2, %3, %4 : !f16, !bf16, f64, tf32, f8E4M3FN
}

// CHECK:         func.func @expressed_types(%f16: f16, %bf16: bf16, %f64: !quant.uniform<i8:f64, 1.000000e-01:1>, %tf32: !quant.uniform<i8:tf32, 1.000000e-01:1>, %f8: !quant.uniform<i8:f8E4M3FN, 1.000000e-01:1>) -> (!quant.uniform<i8:f16, 1.000000e-01:1>, !quant.uniform<i8:bf16, 1.000000e-01:1>, f64, tf32, f8E4M3FN) {
// CHECK-NEXT:      %0 = arith.constant 9.997560e-02 : f16
// CHECK-NEXT:      %1 = arith.constant 1 : i8
// CHECK-NEXT:      %2 = arith.divf %f16, %0 : f16
// CHECK-NEXT:      %3 = arith.sitofp %1 : i8 to f16
// CHECK-NEXT:      %4 = arith.addf %2, %3 : f16
// CHECK-NEXT:      %5 = arith.fptosi %4 : f16 to i8
// CHECK-NEXT:      %6 = quant.scast %5 : i8 to !quant.uniform<i8:f16, 1.000000e-01:1>
// CHECK-NEXT:      %7 = arith.constant 1.000980e-01 : bf16
// CHECK-NEXT:      %8 = arith.constant 1 : i8
// CHECK-NEXT:      %9 = arith.divf %bf16, %7 : bf16
// CHECK-NEXT:      %10 = arith.sitofp %8 : i8 to bf16
// CHECK-NEXT:      %11 = arith.addf %9, %10 : bf16
// CHECK-NEXT:      %12 = arith.fptosi %11 : bf16 to i8
// CHECK-NEXT:      %13 = quant.scast %12 : i8 to !quant.uniform<i8:bf16, 1.000000e-01:1>
// CHECK-NEXT:      %14 = quant.scast %f64 : !quant.uniform<i8:f64, 1.000000e-01:1> to i8
// CHECK-NEXT:      %15 = arith.constant 1.000000e-01 : f64
// CHECK-NEXT:      %16 = arith.constant 1 : i8
// CHECK-NEXT:      %17 = arith.sitofp %14 : i8 to f64
// CHECK-NEXT:      %18 = arith.sitofp %16 : i8 to f64
// CHECK-NEXT:      %19 = arith.subf %17, %18 : f64
// CHECK-NEXT:      %20 = arith.mulf %19, %15 : f64
// CHECK-NEXT:      %21 = quant.scast %tf32 : !quant.uniform<i8:tf32, 1.000000e-01:1> to i8
// CHECK-NEXT:      %22 = arith.constant 9.997560e-02 : tf32
// CHECK-NEXT:      %23 = arith.constant 1 : i8
// CHECK-NEXT:      %24 = arith.sitofp %21 : i8 to tf32
// CHECK-NEXT:      %25 = arith.sitofp %23 : i8 to tf32
// CHECK-NEXT:      %26 = arith.subf %24, %25 : tf32
// CHECK-NEXT:      %27 = arith.mulf %26, %22 : tf32
// CHECK-NEXT:      %28 = quant.scast %f8 : !quant.uniform<i8:f8E4M3FN, 1.000000e-01:1> to i8
// CHECK-NEXT:      %29 = arith.constant 1.015620e-01 : f8E4M3FN
// CHECK-NEXT:      %30 = arith.constant 1 : i8
// CHECK-NEXT:      %31 = arith.sitofp %28 : i8 to f8E4M3FN
// CHECK-NEXT:      %32 = arith.sitofp %30 : i8 to f8E4M3FN
// CHECK-NEXT:      %33 = arith.subf %31, %32 : f8E4M3FN
// CHECK-NEXT:      %34 = arith.mulf %33, %29 : f8E4M3FN
// CHECK-NEXT:      func.return %6, %13, %20, %27, %34 : !quant.uniform<i8:f16, 1.000000e-01:1>, !quant.uniform<i8:bf16, 1.000000e-01:1>, f64, tf32, f8E4M3FN
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Ranked tensors: constants are splat.

!q = !quant.uniform<i8<-8:7>:f32, 2.0:10>

func.func @static(%x: tensor<3x5xf32>, %q: tensor<3x5x!q>) -> (tensor<3x5x!q>, tensor<3x5xf32>) {
  %0 = quant.qcast %x : tensor<3x5xf32> to tensor<3x5x!q>
  %1 = quant.dcast %q : tensor<3x5x!q> to tensor<3x5xf32>
  return %0, %1 : tensor<3x5x!q>, tensor<3x5xf32>
}

// CHECK:         func.func @static(%x: tensor<3x5xf32>, %q: tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>) -> (tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<3x5xf32>) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 10 : i8
// CHECK-NEXT:      %2 = tensor.splat %0 : tensor<3x5xf32>
// CHECK-NEXT:      %3 = arith.divf %x, %2 : tensor<3x5xf32>
// CHECK-NEXT:      %4 = tensor.splat %1 : tensor<3x5xi8>
// CHECK-NEXT:      %5 = arith.sitofp %4 : tensor<3x5xi8> to tensor<3x5xf32>
// CHECK-NEXT:      %6 = arith.addf %3, %5 : tensor<3x5xf32>
// CHECK-NEXT:      %7 = arith.fptosi %6 : tensor<3x5xf32> to tensor<3x5xi8>
// CHECK-NEXT:      %8 = arith.constant -8 : i8
// CHECK-NEXT:      %9 = arith.constant 7 : i8
// CHECK-NEXT:      %10 = tensor.splat %8 : tensor<3x5xi8>
// CHECK-NEXT:      %11 = tensor.splat %9 : tensor<3x5xi8>
// CHECK-NEXT:      %12 = arith.maxsi %7, %10 : tensor<3x5xi8>
// CHECK-NEXT:      %13 = arith.minsi %12, %11 : tensor<3x5xi8>
// CHECK-NEXT:      %14 = quant.scast %13 : tensor<3x5xi8> to tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>
// CHECK-NEXT:      %15 = quant.scast %q : tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>> to tensor<3x5xi8>
// CHECK-NEXT:      %16 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %17 = arith.constant 10 : i8
// CHECK-NEXT:      %18 = tensor.splat %16 : tensor<3x5xf32>
// CHECK-NEXT:      %19 = arith.sitofp %15 : tensor<3x5xi8> to tensor<3x5xf32>
// CHECK-NEXT:      %20 = tensor.splat %17 : tensor<3x5xi8>
// CHECK-NEXT:      %21 = arith.sitofp %20 : tensor<3x5xi8> to tensor<3x5xf32>
// CHECK-NEXT:      %22 = arith.subf %19, %21 : tensor<3x5xf32>
// CHECK-NEXT:      %23 = arith.mulf %22, %18 : tensor<3x5xf32>
// CHECK-NEXT:      func.return %14, %23 : tensor<3x5x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<3x5xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<u8<1:9>:f32, 2.0:10>

func.func @dynamic(%x: tensor<?x5x?xf32>, %q: tensor<?x5x?x!q>) -> (tensor<?x5x?x!q>, tensor<?x5x?xf32>) {
  %0 = quant.qcast %x : tensor<?x5x?xf32> to tensor<?x5x?x!q>
  %1 = quant.dcast %q : tensor<?x5x?x!q> to tensor<?x5x?xf32>
  return %0, %1 : tensor<?x5x?x!q>, tensor<?x5x?xf32>
}

// CHECK:         func.func @dynamic(%x: tensor<?x5x?xf32>, %q: tensor<?x5x?x!quant.uniform<u8<1:9>:f32, 2.000000e+00:10>>) -> (tensor<?x5x?x!quant.uniform<u8<1:9>:f32, 2.000000e+00:10>>, tensor<?x5x?xf32>) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 10 : i8
// CHECK-NEXT:      %2 = arith.constant 0 : index
// CHECK-NEXT:      %3 = tensor.dim %x, %2 : tensor<?x5x?xf32>
// CHECK-NEXT:      %4 = arith.constant 2 : index
// CHECK-NEXT:      %5 = tensor.dim %x, %4 : tensor<?x5x?xf32>
// CHECK-NEXT:      %6 = tensor.splat %0[%3, %5] : tensor<?x5x?xf32>
// CHECK-NEXT:      %7 = arith.divf %x, %6 : tensor<?x5x?xf32>
// CHECK-NEXT:      %8 = tensor.splat %1[%3, %5] : tensor<?x5x?xi8>
// CHECK-NEXT:      %9 = arith.uitofp %8 : tensor<?x5x?xi8> to tensor<?x5x?xf32>
// CHECK-NEXT:      %10 = arith.addf %7, %9 : tensor<?x5x?xf32>
// CHECK-NEXT:      %11 = arith.fptoui %10 : tensor<?x5x?xf32> to tensor<?x5x?xi8>
// CHECK-NEXT:      %12 = arith.constant 1 : i8
// CHECK-NEXT:      %13 = arith.constant 9 : i8
// CHECK-NEXT:      %14 = tensor.splat %12[%3, %5] : tensor<?x5x?xi8>
// CHECK-NEXT:      %15 = tensor.splat %13[%3, %5] : tensor<?x5x?xi8>
// CHECK-NEXT:      %16 = arith.maxui %11, %14 : tensor<?x5x?xi8>
// CHECK-NEXT:      %17 = arith.minui %16, %15 : tensor<?x5x?xi8>
// CHECK-NEXT:      %18 = quant.scast %17 : tensor<?x5x?xi8> to tensor<?x5x?x!quant.uniform<u8<1:9>:f32, 2.000000e+00:10>>
// CHECK-NEXT:      %19 = quant.scast %q : tensor<?x5x?x!quant.uniform<u8<1:9>:f32, 2.000000e+00:10>> to tensor<?x5x?xi8>
// CHECK-NEXT:      %20 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %21 = arith.constant 10 : i8
// CHECK-NEXT:      %22 = arith.constant 0 : index
// CHECK-NEXT:      %23 = tensor.dim %19, %22 : tensor<?x5x?xi8>
// CHECK-NEXT:      %24 = arith.constant 2 : index
// CHECK-NEXT:      %25 = tensor.dim %19, %24 : tensor<?x5x?xi8>
// CHECK-NEXT:      %26 = tensor.splat %20[%23, %25] : tensor<?x5x?xf32>
// CHECK-NEXT:      %27 = arith.uitofp %19 : tensor<?x5x?xi8> to tensor<?x5x?xf32>
// CHECK-NEXT:      %28 = tensor.splat %21[%23, %25] : tensor<?x5x?xi8>
// CHECK-NEXT:      %29 = arith.uitofp %28 : tensor<?x5x?xi8> to tensor<?x5x?xf32>
// CHECK-NEXT:      %30 = arith.subf %27, %29 : tensor<?x5x?xf32>
// CHECK-NEXT:      %31 = arith.mulf %30, %26 : tensor<?x5x?xf32>
// CHECK-NEXT:      func.return %18, %31 : tensor<?x5x?x!quant.uniform<u8<1:9>:f32, 2.000000e+00:10>>, tensor<?x5x?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 2.0>

func.func @rank_zero(%x: tensor<f32>, %q: tensor<!q>) -> (tensor<!q>, tensor<f32>) {
  %0 = quant.qcast %x : tensor<f32> to tensor<!q>
  %1 = quant.dcast %q : tensor<!q> to tensor<f32>
  return %0, %1 : tensor<!q>, tensor<f32>
}

// CHECK:         func.func @rank_zero(%x: tensor<f32>, %q: tensor<!quant.uniform<i8:f32, 2.000000e+00>>) -> (tensor<!quant.uniform<i8:f32, 2.000000e+00>>, tensor<f32>) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 0 : i8
// CHECK-NEXT:      %2 = tensor.splat %0 : tensor<f32>
// CHECK-NEXT:      %3 = arith.divf %x, %2 : tensor<f32>
// CHECK-NEXT:      %4 = arith.fptosi %3 : tensor<f32> to tensor<i8>
// CHECK-NEXT:      %5 = quant.scast %4 : tensor<i8> to tensor<!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT:      %6 = quant.scast %q : tensor<!quant.uniform<i8:f32, 2.000000e+00>> to tensor<i8>
// CHECK-NEXT:      %7 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %8 = arith.constant 0 : i8
// CHECK-NEXT:      %9 = tensor.splat %7 : tensor<f32>
// CHECK-NEXT:      %10 = arith.sitofp %6 : tensor<i8> to tensor<f32>
// CHECK-NEXT:      %11 = arith.mulf %10, %9 : tensor<f32>
// CHECK-NEXT:      func.return %5, %11 : tensor<!quant.uniform<i8:f32, 2.000000e+00>>, tensor<f32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Unranked tensors are flattened to one dimension.

!q = !quant.uniform<i8<-8:7>:f32, 2.0:10>

func.func @unranked(%x: tensor<*xf32>, %q: tensor<*x!q>) -> (tensor<*x!q>, tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  %1 = quant.dcast %q : tensor<*x!q> to tensor<*xf32>
  return %0, %1 : tensor<*x!q>, tensor<*xf32>
}

// CHECK:         func.func @unranked(%x: tensor<*xf32>, %q: tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>) -> (tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<*xf32>) {
// CHECK-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:      %1 = shape.num_elements %0 : tensor<?xindex> -> index
// CHECK-NEXT:      %2 = tensor.from_elements %1 : tensor<1xindex>
// CHECK-NEXT:      %3 = tensor.reshape %x(%2) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// CHECK-NEXT:      %4 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %5 = arith.constant 10 : i8
// CHECK-NEXT:      %6 = arith.constant 0 : index
// CHECK-NEXT:      %7 = tensor.dim %3, %6 : tensor<?xf32>
// CHECK-NEXT:      %8 = tensor.splat %4[%7] : tensor<?xf32>
// CHECK-NEXT:      %9 = arith.divf %3, %8 : tensor<?xf32>
// CHECK-NEXT:      %10 = tensor.splat %5[%7] : tensor<?xi8>
// CHECK-NEXT:      %11 = arith.sitofp %10 : tensor<?xi8> to tensor<?xf32>
// CHECK-NEXT:      %12 = arith.addf %9, %11 : tensor<?xf32>
// CHECK-NEXT:      %13 = arith.fptosi %12 : tensor<?xf32> to tensor<?xi8>
// CHECK-NEXT:      %14 = arith.constant -8 : i8
// CHECK-NEXT:      %15 = arith.constant 7 : i8
// CHECK-NEXT:      %16 = tensor.splat %14[%7] : tensor<?xi8>
// CHECK-NEXT:      %17 = tensor.splat %15[%7] : tensor<?xi8>
// CHECK-NEXT:      %18 = arith.maxsi %13, %16 : tensor<?xi8>
// CHECK-NEXT:      %19 = arith.minsi %18, %17 : tensor<?xi8>
// CHECK-NEXT:      %20 = tensor.reshape %19(%0) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:      %21 = quant.scast %20 : tensor<*xi8> to tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>
// CHECK-NEXT:      %22 = quant.scast %q : tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>> to tensor<*xi8>
// CHECK-NEXT:      %23 = shape.shape_of %22 : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:      %24 = shape.num_elements %23 : tensor<?xindex> -> index
// CHECK-NEXT:      %25 = tensor.from_elements %24 : tensor<1xindex>
// CHECK-NEXT:      %26 = tensor.reshape %22(%25) : (tensor<*xi8>, tensor<1xindex>) -> tensor<?xi8>
// CHECK-NEXT:      %27 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %28 = arith.constant 10 : i8
// CHECK-NEXT:      %29 = arith.constant 0 : index
// CHECK-NEXT:      %30 = tensor.dim %26, %29 : tensor<?xi8>
// CHECK-NEXT:      %31 = tensor.splat %27[%30] : tensor<?xf32>
// CHECK-NEXT:      %32 = arith.sitofp %26 : tensor<?xi8> to tensor<?xf32>
// CHECK-NEXT:      %33 = tensor.splat %28[%30] : tensor<?xi8>
// CHECK-NEXT:      %34 = arith.sitofp %33 : tensor<?xi8> to tensor<?xf32>
// CHECK-NEXT:      %35 = arith.subf %32, %34 : tensor<?xf32>
// CHECK-NEXT:      %36 = arith.mulf %35, %31 : tensor<?xf32>
// CHECK-NEXT:      %37 = tensor.reshape %36(%23) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>
// CHECK-NEXT:      func.return %21, %37 : tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<*xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Per-axis types: one scale and one zero point for each index of a dimension.

!q = !quant.uniform<i8<-8:7>:f32:1, {2.0, 3.0:-5}>

func.func @per_axis(%x: tensor<4x2x5xf32>, %q: tensor<4x2x5x!q>) -> (tensor<4x2x5x!q>, tensor<4x2x5xf32>) {
  %0 = quant.qcast %x : tensor<4x2x5xf32> to tensor<4x2x5x!q>
  %1 = quant.dcast %q : tensor<4x2x5x!q> to tensor<4x2x5xf32>
  return %0, %1 : tensor<4x2x5x!q>, tensor<4x2x5xf32>
}

// CHECK:         func.func @per_axis(%x: tensor<4x2x5xf32>, %q: tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00:-5}>>) -> (tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00:-5}>>, tensor<4x2x5xf32>) {
// CHECK-NEXT:      %0 = arith.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:      %1 = arith.constant dense<[0, -5]> : tensor<2xi8>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<4x2x5xi8>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %0, %1 : tensor<4x2x5xf32>, tensor<2xf32>, tensor<2xi8>) outs(%2 : tensor<4x2x5xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// CHECK-NEXT:        %4 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %5 = arith.sitofp %zero_point : i8 to f32
// CHECK-NEXT:        %6 = arith.addf %4, %5 : f32
// CHECK-NEXT:        %7 = arith.fptosi %6 : f32 to i8
// CHECK-NEXT:        %8 = arith.constant -8 : i8
// CHECK-NEXT:        %9 = arith.constant 7 : i8
// CHECK-NEXT:        %10 = arith.maxsi %7, %8 : i8
// CHECK-NEXT:        %11 = arith.minsi %10, %9 : i8
// CHECK-NEXT:        linalg.yield %11 : i8
// CHECK-NEXT:      } -> tensor<4x2x5xi8>
// CHECK-NEXT:      %12 = quant.scast %3 : tensor<4x2x5xi8> to tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00:-5}>>
// CHECK-NEXT:      %13 = quant.scast %q : tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00:-5}>> to tensor<4x2x5xi8>
// CHECK-NEXT:      %14 = arith.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:      %15 = arith.constant dense<[0, -5]> : tensor<2xi8>
// CHECK-NEXT:      %16 = tensor.empty() : tensor<4x2x5xf32>
// CHECK-NEXT:      %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13, %14, %15 : tensor<4x2x5xi8>, tensor<2xf32>, tensor<2xi8>) outs(%16 : tensor<4x2x5xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: i8, %scale_1: f32, %zero_point_1: i8, %out_1: f32):
// CHECK-NEXT:        %18 = arith.sitofp %in_1 : i8 to f32
// CHECK-NEXT:        %19 = arith.sitofp %zero_point_1 : i8 to f32
// CHECK-NEXT:        %20 = arith.subf %18, %19 : f32
// CHECK-NEXT:        %21 = arith.mulf %20, %scale_1 : f32
// CHECK-NEXT:        linalg.yield %21 : f32
// CHECK-NEXT:      } -> tensor<4x2x5xf32>
// CHECK-NEXT:      func.return %12, %17 : tensor<4x2x5x!quant.uniform<i8<-8:7>:f32:1, {2.000000e+00,3.000000e+00:-5}>>, tensor<4x2x5xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// All dimensions are dynamic, the quantized one as well. Zero points that are equal, 0 in
// particular, are added all the same.

!q = !quant.uniform<u4:f16:0, {2.0:15, 0.1:15}>
!p = !quant.uniform<i16:f32:0, {2.0, 2.0}>

func.func @per_axis_dynamic(%x: tensor<?x?xf16>, %q: tensor<?x?x!p>) -> (tensor<?x?x!q>, tensor<?x?xf32>) {
  %0 = quant.qcast %x : tensor<?x?xf16> to tensor<?x?x!q>
  %1 = quant.dcast %q : tensor<?x?x!p> to tensor<?x?xf32>
  return %0, %1 : tensor<?x?x!q>, tensor<?x?xf32>
}

// CHECK:         func.func @per_axis_dynamic(%x: tensor<?x?xf16>, %q: tensor<?x?x!quant.uniform<i16:f32:0, {2.000000e+00,2.000000e+00}>>) -> (tensor<?x?x!quant.uniform<u4:f16:0, {2.000000e+00:15,1.000000e-01:15}>>, tensor<?x?xf32>) {
// CHECK-NEXT:      %0 = arith.constant dense<[2.000000e+00, 9.997560e-02]> : tensor<2xf16>
// CHECK-NEXT:      %1 = arith.constant dense<-1> : tensor<2xi4>
// CHECK-NEXT:      %2 = arith.constant 0 : index
// CHECK-NEXT:      %3 = tensor.dim %x, %2 : tensor<?x?xf16>
// CHECK-NEXT:      %4 = arith.constant 1 : index
// CHECK-NEXT:      %5 = tensor.dim %x, %4 : tensor<?x?xf16>
// CHECK-NEXT:      %6 = tensor.empty(%3, %5) : tensor<?x?xi4>
// CHECK-NEXT:      %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0, %1 : tensor<?x?xf16>, tensor<2xf16>, tensor<2xi4>) outs(%6 : tensor<?x?xi4>) {
// CHECK-NEXT:      ^bb0(%in: f16, %scale: f16, %zero_point: i4, %out: i4):
// CHECK-NEXT:        %8 = arith.divf %in, %scale : f16
// CHECK-NEXT:        %9 = arith.uitofp %zero_point : i4 to f16
// CHECK-NEXT:        %10 = arith.addf %8, %9 : f16
// CHECK-NEXT:        %11 = arith.fptoui %10 : f16 to i4
// CHECK-NEXT:        linalg.yield %11 : i4
// CHECK-NEXT:      } -> tensor<?x?xi4>
// CHECK-NEXT:      %12 = quant.scast %7 : tensor<?x?xi4> to tensor<?x?x!quant.uniform<u4:f16:0, {2.000000e+00:15,1.000000e-01:15}>>
// CHECK-NEXT:      %13 = quant.scast %q : tensor<?x?x!quant.uniform<i16:f32:0, {2.000000e+00,2.000000e+00}>> to tensor<?x?xi16>
// CHECK-NEXT:      %14 = arith.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK-NEXT:      %15 = arith.constant dense<0> : tensor<2xi16>
// CHECK-NEXT:      %16 = arith.constant 0 : index
// CHECK-NEXT:      %17 = tensor.dim %13, %16 : tensor<?x?xi16>
// CHECK-NEXT:      %18 = arith.constant 1 : index
// CHECK-NEXT:      %19 = tensor.dim %13, %18 : tensor<?x?xi16>
// CHECK-NEXT:      %20 = tensor.empty(%17, %19) : tensor<?x?xf32>
// CHECK-NEXT:      %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%13, %14, %15 : tensor<?x?xi16>, tensor<2xf32>, tensor<2xi16>) outs(%20 : tensor<?x?xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: i16, %scale_1: f32, %zero_point_1: i16, %out_1: f32):
// CHECK-NEXT:        %22 = arith.sitofp %in_1 : i16 to f32
// CHECK-NEXT:        %23 = arith.sitofp %zero_point_1 : i16 to f32
// CHECK-NEXT:        %24 = arith.subf %22, %23 : f32
// CHECK-NEXT:        %25 = arith.mulf %24, %scale_1 : f32
// CHECK-NEXT:        linalg.yield %25 : f32
// CHECK-NEXT:      } -> tensor<?x?xf32>
// CHECK-NEXT:      func.return %12, %21 : tensor<?x?x!quant.uniform<u4:f16:0, {2.000000e+00:15,1.000000e-01:15}>>, tensor<?x?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Unranked tensors are flattened to three dimensions.

!q = !quant.uniform<i8:f32:2, {2.0:10, 3.0:20, 4.0:30}>

func.func @per_axis_unranked(%x: tensor<*xf32>, %q: tensor<*x!q>) -> (tensor<*x!q>, tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  %1 = quant.dcast %q : tensor<*x!q> to tensor<*xf32>
  return %0, %1 : tensor<*x!q>, tensor<*xf32>
}

// CHECK:         func.func @per_axis_unranked(%x: tensor<*xf32>, %q: tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>>) -> (tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>>, tensor<*xf32>) {
// CHECK-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:      %1 = arith.constant 2 : index
// CHECK-NEXT:      %2 = arith.constant 3 : index
// CHECK-NEXT:      %3, %4 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %5 = shape.num_elements %3 : tensor<?xindex> -> index
// CHECK-NEXT:      %6, %7 = "shape.split_at"(%0, %2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %8 = shape.num_elements %7 : tensor<?xindex> -> index
// CHECK-NEXT:      %9 = arith.constant 3 : index
// CHECK-NEXT:      %10 = tensor.from_elements %5, %9, %8 : tensor<3xindex>
// CHECK-NEXT:      %11 = tensor.reshape %x(%10) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x3x?xf32>
// CHECK-NEXT:      %12 = arith.constant dense<[2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:      %13 = arith.constant dense<[10, 20, 30]> : tensor<3xi8>
// CHECK-NEXT:      %14 = arith.constant 0 : index
// CHECK-NEXT:      %15 = tensor.dim %11, %14 : tensor<?x3x?xf32>
// CHECK-NEXT:      %16 = arith.constant 2 : index
// CHECK-NEXT:      %17 = tensor.dim %11, %16 : tensor<?x3x?xf32>
// CHECK-NEXT:      %18 = tensor.empty(%15, %17) : tensor<?x3x?xi8>
// CHECK-NEXT:      %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11, %12, %13 : tensor<?x3x?xf32>, tensor<3xf32>, tensor<3xi8>) outs(%18 : tensor<?x3x?xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// CHECK-NEXT:        %20 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %21 = arith.sitofp %zero_point : i8 to f32
// CHECK-NEXT:        %22 = arith.addf %20, %21 : f32
// CHECK-NEXT:        %23 = arith.fptosi %22 : f32 to i8
// CHECK-NEXT:        linalg.yield %23 : i8
// CHECK-NEXT:      } -> tensor<?x3x?xi8>
// CHECK-NEXT:      %24 = tensor.reshape %19(%0) : (tensor<?x3x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:      %25 = quant.scast %24 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>>
// CHECK-NEXT:      %26 = quant.scast %q : tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>> to tensor<*xi8>
// CHECK-NEXT:      %27 = shape.shape_of %26 : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:      %28 = arith.constant 2 : index
// CHECK-NEXT:      %29 = arith.constant 3 : index
// CHECK-NEXT:      %30, %31 = "shape.split_at"(%27, %28) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %32 = shape.num_elements %30 : tensor<?xindex> -> index
// CHECK-NEXT:      %33, %34 = "shape.split_at"(%27, %29) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %35 = shape.num_elements %34 : tensor<?xindex> -> index
// CHECK-NEXT:      %36 = arith.constant 3 : index
// CHECK-NEXT:      %37 = tensor.from_elements %32, %36, %35 : tensor<3xindex>
// CHECK-NEXT:      %38 = tensor.reshape %26(%37) : (tensor<*xi8>, tensor<3xindex>) -> tensor<?x3x?xi8>
// CHECK-NEXT:      %39 = arith.constant dense<[2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:      %40 = arith.constant dense<[10, 20, 30]> : tensor<3xi8>
// CHECK-NEXT:      %41 = arith.constant 0 : index
// CHECK-NEXT:      %42 = tensor.dim %38, %41 : tensor<?x3x?xi8>
// CHECK-NEXT:      %43 = arith.constant 2 : index
// CHECK-NEXT:      %44 = tensor.dim %38, %43 : tensor<?x3x?xi8>
// CHECK-NEXT:      %45 = tensor.empty(%42, %44) : tensor<?x3x?xf32>
// CHECK-NEXT:      %46 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38, %39, %40 : tensor<?x3x?xi8>, tensor<3xf32>, tensor<3xi8>) outs(%45 : tensor<?x3x?xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: i8, %scale_1: f32, %zero_point_1: i8, %out_1: f32):
// CHECK-NEXT:        %47 = arith.sitofp %in_1 : i8 to f32
// CHECK-NEXT:        %48 = arith.sitofp %zero_point_1 : i8 to f32
// CHECK-NEXT:        %49 = arith.subf %47, %48 : f32
// CHECK-NEXT:        %50 = arith.mulf %49, %scale_1 : f32
// CHECK-NEXT:        linalg.yield %50 : f32
// CHECK-NEXT:      } -> tensor<?x3x?xf32>
// CHECK-NEXT:      %51 = tensor.reshape %46(%27) : (tensor<?x3x?xf32>, tensor<?xindex>) -> tensor<*xf32>
// CHECK-NEXT:      func.return %25, %51 : tensor<*x!quant.uniform<i8:f32:2, {2.000000e+00:10,3.000000e+00:20,4.000000e+00:30}>>, tensor<*xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Sub-channel types: one scale and one zero point for each block. A dimension without
// block size is one block.

!q = !quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{1.0:1, 2.0:2}}, {{3.0:3, 4.0:4}}}}>

func.func @sub_channel(%x: tensor<6x4x6x4xf32>, %q: tensor<6x4x6x4x!q>) -> (tensor<6x4x6x4x!q>, tensor<6x4x6x4xf32>) {
  %0 = quant.qcast %x : tensor<6x4x6x4xf32> to tensor<6x4x6x4x!q>
  %1 = quant.dcast %q : tensor<6x4x6x4x!q> to tensor<6x4x6x4xf32>
  return %0, %1 : tensor<6x4x6x4x!q>, tensor<6x4x6x4xf32>
}

// CHECK:         func.func @sub_channel(%x: tensor<6x4x6x4xf32>, %q: tensor<6x4x6x4x!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>) -> (tensor<6x4x6x4x!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>, tensor<6x4x6x4xf32>) {
// CHECK-NEXT:      %0 = arith.constant dense<{{\[\[}}{{\[\[}}1.000000e+00, 2.000000e+00]], {{\[\[}}3.000000e+00, 4.000000e+00]]]]> : tensor<1x2x1x2xf32>
// CHECK-NEXT:      %1 = arith.constant dense<{{\[\[}}{{\[\[}}1, 2]], {{\[\[}}3, 4]]]]> : tensor<1x2x1x2xi8>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<6x4x6x4xi8>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, (d1 floordiv 2), 0, (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3) -> (0, (d1 floordiv 2), 0, (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %0, %1 : tensor<6x4x6x4xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xi8>) outs(%2 : tensor<6x4x6x4xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// CHECK-NEXT:        %4 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %5 = arith.sitofp %zero_point : i8 to f32
// CHECK-NEXT:        %6 = arith.addf %4, %5 : f32
// CHECK-NEXT:        %7 = arith.fptosi %6 : f32 to i8
// CHECK-NEXT:        %8 = arith.constant -8 : i8
// CHECK-NEXT:        %9 = arith.constant 7 : i8
// CHECK-NEXT:        %10 = arith.maxsi %7, %8 : i8
// CHECK-NEXT:        %11 = arith.minsi %10, %9 : i8
// CHECK-NEXT:        linalg.yield %11 : i8
// CHECK-NEXT:      } -> tensor<6x4x6x4xi8>
// CHECK-NEXT:      %12 = quant.scast %3 : tensor<6x4x6x4xi8> to tensor<6x4x6x4x!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>
// CHECK-NEXT:      %13 = quant.scast %q : tensor<6x4x6x4x!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>> to tensor<6x4x6x4xi8>
// CHECK-NEXT:      %14 = arith.constant dense<{{\[\[}}{{\[\[}}1.000000e+00, 2.000000e+00]], {{\[\[}}3.000000e+00, 4.000000e+00]]]]> : tensor<1x2x1x2xf32>
// CHECK-NEXT:      %15 = arith.constant dense<{{\[\[}}{{\[\[}}1, 2]], {{\[\[}}3, 4]]]]> : tensor<1x2x1x2xi8>
// CHECK-NEXT:      %16 = tensor.empty() : tensor<6x4x6x4xf32>
// CHECK-NEXT:      %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, (d1 floordiv 2), 0, (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3) -> (0, (d1 floordiv 2), 0, (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%13, %14, %15 : tensor<6x4x6x4xi8>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xi8>) outs(%16 : tensor<6x4x6x4xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: i8, %scale_1: f32, %zero_point_1: i8, %out_1: f32):
// CHECK-NEXT:        %18 = arith.sitofp %in_1 : i8 to f32
// CHECK-NEXT:        %19 = arith.sitofp %zero_point_1 : i8 to f32
// CHECK-NEXT:        %20 = arith.subf %18, %19 : f32
// CHECK-NEXT:        %21 = arith.mulf %20, %scale_1 : f32
// CHECK-NEXT:        linalg.yield %21 : f32
// CHECK-NEXT:      } -> tensor<6x4x6x4xf32>
// CHECK-NEXT:      func.return %12, %17 : tensor<6x4x6x4x!quant.uniform<i8<-8:7>:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>, tensor<6x4x6x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// A block of one element needs no division; of two block sizes the last is in force.

!q = !quant.uniform<u8:f32:{1:3, 0:1, 1:6}, {{1.0:200, 2.0}, {3.0, 4.0:1}}>
!none = !quant.uniform<i8:f32:{}, {{2.0}}>

func.func @sub_channel_dynamic(%x: tensor<?x12xf32>, %y: tensor<2x?x!none>) -> (tensor<?x12x!q>, tensor<2x?xf32>) {
  %0 = quant.qcast %x : tensor<?x12xf32> to tensor<?x12x!q>
  %1 = quant.dcast %y : tensor<2x?x!none> to tensor<2x?xf32>
  return %0, %1 : tensor<?x12x!q>, tensor<2x?xf32>
}

// CHECK:         func.func @sub_channel_dynamic(%x: tensor<?x12xf32>, %y: tensor<2x?x!quant.uniform<i8:f32:{}, {{{{}}2.000000e+00}}>>) -> (tensor<?x12x!quant.uniform<u8:f32:{1:3, 0:1, 1:6}, {{{{}}1.000000e+00:200, 2.000000e+00}, {3.000000e+00, 4.000000e+00:1}}>>, tensor<2x?xf32>) {
// CHECK-NEXT:      %0 = arith.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:      %1 = arith.constant dense<{{\[\[}}-56, 0], [0, 1]]> : tensor<2x2xi8>
// CHECK-NEXT:      %2 = arith.constant 0 : index
// CHECK-NEXT:      %3 = tensor.dim %x, %2 : tensor<?x12xf32>
// CHECK-NEXT:      %4 = tensor.empty(%3) : tensor<?x12xi8>
// CHECK-NEXT:      %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 floordiv 6))>, affine_map<(d0, d1) -> (d0, (d1 floordiv 6))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0, %1 : tensor<?x12xf32>, tensor<2x2xf32>, tensor<2x2xi8>) outs(%4 : tensor<?x12xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// CHECK-NEXT:        %6 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %7 = arith.uitofp %zero_point : i8 to f32
// CHECK-NEXT:        %8 = arith.addf %6, %7 : f32
// CHECK-NEXT:        %9 = arith.fptoui %8 : f32 to i8
// CHECK-NEXT:        linalg.yield %9 : i8
// CHECK-NEXT:      } -> tensor<?x12xi8>
// CHECK-NEXT:      %10 = quant.scast %5 : tensor<?x12xi8> to tensor<?x12x!quant.uniform<u8:f32:{1:3, 0:1, 1:6}, {{{{}}1.000000e+00:200, 2.000000e+00}, {3.000000e+00, 4.000000e+00:1}}>>
// CHECK-NEXT:      %11 = quant.scast %y : tensor<2x?x!quant.uniform<i8:f32:{}, {{{{}}2.000000e+00}}>> to tensor<2x?xi8>
// CHECK-NEXT:      %12 = arith.constant dense<2.000000e+00> : tensor<1x1xf32>
// CHECK-NEXT:      %13 = arith.constant dense<0> : tensor<1x1xi8>
// CHECK-NEXT:      %14 = arith.constant 1 : index
// CHECK-NEXT:      %15 = tensor.dim %11, %14 : tensor<2x?xi8>
// CHECK-NEXT:      %16 = tensor.empty(%15) : tensor<2x?xf32>
// CHECK-NEXT:      %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0, 0)>, affine_map<(d0, d1) -> (0, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%11, %12, %13 : tensor<2x?xi8>, tensor<1x1xf32>, tensor<1x1xi8>) outs(%16 : tensor<2x?xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: i8, %scale_1: f32, %zero_point_1: i8, %out_1: f32):
// CHECK-NEXT:        %18 = arith.sitofp %in_1 : i8 to f32
// CHECK-NEXT:        %19 = arith.sitofp %zero_point_1 : i8 to f32
// CHECK-NEXT:        %20 = arith.subf %18, %19 : f32
// CHECK-NEXT:        %21 = arith.mulf %20, %scale_1 : f32
// CHECK-NEXT:        linalg.yield %21 : f32
// CHECK-NEXT:      } -> tensor<2x?xf32>
// CHECK-NEXT:      func.return %10, %17 : tensor<?x12x!quant.uniform<u8:f32:{1:3, 0:1, 1:6}, {{{{}}1.000000e+00:200, 2.000000e+00}, {3.000000e+00, 4.000000e+00:1}}>>, tensor<2x?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Sub-channel types on unranked tensors, which MLIR does not lower: flattened around the
// dimensions that are cut into blocks. Here the scales have all four dimensions.

!q = !quant.uniform<i8:f32:{1:2, 3:3}, {{{{1.0:1, 2.0:2}}, {{3.0:3, 4.0:4}}}}>

func.func @sub_channel_unranked(%x: tensor<*xf32>, %q: tensor<*x!q>) -> (tensor<*x!q>, tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  %1 = quant.dcast %q : tensor<*x!q> to tensor<*xf32>
  return %0, %1 : tensor<*x!q>, tensor<*xf32>
}

// CHECK:         func.func @sub_channel_unranked(%x: tensor<*xf32>, %q: tensor<*x!quant.uniform<i8:f32:{1:2, 3:3}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>) -> (tensor<*x!quant.uniform<i8:f32:{1:2, 3:3}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>, tensor<*xf32>) {
// CHECK-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:      %1 = arith.constant 1 : index
// CHECK-NEXT:      %2, %3 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %4 = arith.constant 1 : index
// CHECK-NEXT:      %5, %6 = "shape.split_at"(%3, %4) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %7 = shape.num_elements %2 : tensor<?xindex> -> index
// CHECK-NEXT:      %8 = arith.constant 4 : index
// CHECK-NEXT:      %9 = arith.constant 1 : index
// CHECK-NEXT:      %10, %11 = "shape.split_at"(%6, %9) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %12 = arith.constant 1 : index
// CHECK-NEXT:      %13, %14 = "shape.split_at"(%11, %12) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %15 = shape.num_elements %10 : tensor<?xindex> -> index
// CHECK-NEXT:      %16 = arith.constant 6 : index
// CHECK-NEXT:      %17 = shape.num_elements %14 : tensor<?xindex> -> index
// CHECK-NEXT:      %18 = tensor.from_elements %7, %8, %15, %16, %17 : tensor<5xindex>
// CHECK-NEXT:      %19 = tensor.reshape %x(%18) : (tensor<*xf32>, tensor<5xindex>) -> tensor<?x4x?x6x?xf32>
// CHECK-NEXT:      %20 = arith.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:      %21 = arith.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8>
// CHECK-NEXT:      %22 = arith.constant 0 : index
// CHECK-NEXT:      %23 = tensor.dim %19, %22 : tensor<?x4x?x6x?xf32>
// CHECK-NEXT:      %24 = arith.constant 2 : index
// CHECK-NEXT:      %25 = tensor.dim %19, %24 : tensor<?x4x?x6x?xf32>
// CHECK-NEXT:      %26 = arith.constant 4 : index
// CHECK-NEXT:      %27 = tensor.dim %19, %26 : tensor<?x4x?x6x?xf32>
// CHECK-NEXT:      %28 = tensor.empty(%23, %25, %27) : tensor<?x4x?x6x?xi8>
// CHECK-NEXT:      %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%19, %20, %21 : tensor<?x4x?x6x?xf32>, tensor<2x2xf32>, tensor<2x2xi8>) outs(%28 : tensor<?x4x?x6x?xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// CHECK-NEXT:        %30 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %31 = arith.sitofp %zero_point : i8 to f32
// CHECK-NEXT:        %32 = arith.addf %30, %31 : f32
// CHECK-NEXT:        %33 = arith.fptosi %32 : f32 to i8
// CHECK-NEXT:        linalg.yield %33 : i8
// CHECK-NEXT:      } -> tensor<?x4x?x6x?xi8>
// CHECK-NEXT:      %34 = tensor.reshape %29(%0) : (tensor<?x4x?x6x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:      %35 = quant.scast %34 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{1:2, 3:3}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>
// CHECK-NEXT:      %36 = quant.scast %q : tensor<*x!quant.uniform<i8:f32:{1:2, 3:3}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>> to tensor<*xi8>
// CHECK-NEXT:      %37 = shape.shape_of %36 : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:      %38 = arith.constant 1 : index
// CHECK-NEXT:      %39, %40 = "shape.split_at"(%37, %38) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %41 = arith.constant 1 : index
// CHECK-NEXT:      %42, %43 = "shape.split_at"(%40, %41) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %44 = shape.num_elements %39 : tensor<?xindex> -> index
// CHECK-NEXT:      %45 = arith.constant 4 : index
// CHECK-NEXT:      %46 = arith.constant 1 : index
// CHECK-NEXT:      %47, %48 = "shape.split_at"(%43, %46) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %49 = arith.constant 1 : index
// CHECK-NEXT:      %50, %51 = "shape.split_at"(%48, %49) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %52 = shape.num_elements %47 : tensor<?xindex> -> index
// CHECK-NEXT:      %53 = arith.constant 6 : index
// CHECK-NEXT:      %54 = shape.num_elements %51 : tensor<?xindex> -> index
// CHECK-NEXT:      %55 = tensor.from_elements %44, %45, %52, %53, %54 : tensor<5xindex>
// CHECK-NEXT:      %56 = tensor.reshape %36(%55) : (tensor<*xi8>, tensor<5xindex>) -> tensor<?x4x?x6x?xi8>
// CHECK-NEXT:      %57 = arith.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:      %58 = arith.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8>
// CHECK-NEXT:      %59 = arith.constant 0 : index
// CHECK-NEXT:      %60 = tensor.dim %56, %59 : tensor<?x4x?x6x?xi8>
// CHECK-NEXT:      %61 = arith.constant 2 : index
// CHECK-NEXT:      %62 = tensor.dim %56, %61 : tensor<?x4x?x6x?xi8>
// CHECK-NEXT:      %63 = arith.constant 4 : index
// CHECK-NEXT:      %64 = tensor.dim %56, %63 : tensor<?x4x?x6x?xi8>
// CHECK-NEXT:      %65 = tensor.empty(%60, %62, %64) : tensor<?x4x?x6x?xf32>
// CHECK-NEXT:      %66 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%56, %57, %58 : tensor<?x4x?x6x?xi8>, tensor<2x2xf32>, tensor<2x2xi8>) outs(%65 : tensor<?x4x?x6x?xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: i8, %scale_1: f32, %zero_point_1: i8, %out_1: f32):
// CHECK-NEXT:        %67 = arith.sitofp %in_1 : i8 to f32
// CHECK-NEXT:        %68 = arith.sitofp %zero_point_1 : i8 to f32
// CHECK-NEXT:        %69 = arith.subf %67, %68 : f32
// CHECK-NEXT:        %70 = arith.mulf %69, %scale_1 : f32
// CHECK-NEXT:        linalg.yield %70 : f32
// CHECK-NEXT:      } -> tensor<?x4x?x6x?xf32>
// CHECK-NEXT:      %71 = tensor.reshape %66(%37) : (tensor<?x4x?x6x?xf32>, tensor<?xindex>) -> tensor<*xf32>
// CHECK-NEXT:      func.return %35, %71 : tensor<*x!quant.uniform<i8:f32:{1:2, 3:3}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>, tensor<*xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Compact scales have one dimension for each block size, in the order of the dimensions of
// the tensor.

!q = !quant.uniform<i8:f32:{3:3, 0:1}, {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}>

func.func @sub_channel_unranked_compact(%x: tensor<*xf32>) -> tensor<*x!q> {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  return %0 : tensor<*x!q>
}

// CHECK:         func.func @sub_channel_unranked_compact(%x: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:{3:3, 0:1}, {{{{}}1.000000e+00, 2.000000e+00, 3.000000e+00}, {4.000000e+00, 5.000000e+00, 6.000000e+00}}>> {
// CHECK-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2, %3 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %4 = arith.constant 1 : index
// CHECK-NEXT:      %5, %6 = "shape.split_at"(%3, %4) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %7 = shape.num_elements %2 : tensor<?xindex> -> index
// CHECK-NEXT:      %8 = arith.constant 2 : index
// CHECK-NEXT:      %9 = arith.constant 2 : index
// CHECK-NEXT:      %10, %11 = "shape.split_at"(%6, %9) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %12 = arith.constant 1 : index
// CHECK-NEXT:      %13, %14 = "shape.split_at"(%11, %12) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %15 = shape.num_elements %10 : tensor<?xindex> -> index
// CHECK-NEXT:      %16 = arith.constant 9 : index
// CHECK-NEXT:      %17 = shape.num_elements %14 : tensor<?xindex> -> index
// CHECK-NEXT:      %18 = tensor.from_elements %7, %8, %15, %16, %17 : tensor<5xindex>
// CHECK-NEXT:      %19 = tensor.reshape %x(%18) : (tensor<*xf32>, tensor<5xindex>) -> tensor<?x2x?x9x?xf32>
// CHECK-NEXT:      %20 = arith.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, 3.000000e+00], [4.000000e+00, 5.000000e+00, 6.000000e+00]]> : tensor<2x3xf32>
// CHECK-NEXT:      %21 = arith.constant dense<0> : tensor<2x3xi8>
// CHECK-NEXT:      %22 = arith.constant 0 : index
// CHECK-NEXT:      %23 = tensor.dim %19, %22 : tensor<?x2x?x9x?xf32>
// CHECK-NEXT:      %24 = arith.constant 2 : index
// CHECK-NEXT:      %25 = tensor.dim %19, %24 : tensor<?x2x?x9x?xf32>
// CHECK-NEXT:      %26 = arith.constant 4 : index
// CHECK-NEXT:      %27 = tensor.dim %19, %26 : tensor<?x2x?x9x?xf32>
// CHECK-NEXT:      %28 = tensor.empty(%23, %25, %27) : tensor<?x2x?x9x?xi8>
// CHECK-NEXT:      %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> (d1, (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%19, %20, %21 : tensor<?x2x?x9x?xf32>, tensor<2x3xf32>, tensor<2x3xi8>) outs(%28 : tensor<?x2x?x9x?xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// CHECK-NEXT:        %30 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %31 = arith.sitofp %zero_point : i8 to f32
// CHECK-NEXT:        %32 = arith.addf %30, %31 : f32
// CHECK-NEXT:        %33 = arith.fptosi %32 : f32 to i8
// CHECK-NEXT:        linalg.yield %33 : i8
// CHECK-NEXT:      } -> tensor<?x2x?x9x?xi8>
// CHECK-NEXT:      %34 = tensor.reshape %29(%0) : (tensor<?x2x?x9x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:      %35 = quant.scast %34 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{3:3, 0:1}, {{{{}}1.000000e+00, 2.000000e+00, 3.000000e+00}, {4.000000e+00, 5.000000e+00, 6.000000e+00}}>>
// CHECK-NEXT:      func.return %35 : tensor<*x!quant.uniform<i8:f32:{3:3, 0:1}, {{{{}}1.000000e+00, 2.000000e+00, 3.000000e+00}, {4.000000e+00, 5.000000e+00, 6.000000e+00}}>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Without any block size there is one scale.

!q = !quant.uniform<i8:f32:{}, {{2.0:1}}>

func.func @sub_channel_unranked_one_block(%q: tensor<*x!q>) -> tensor<*xf32> {
  %0 = quant.dcast %q : tensor<*x!q> to tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK:         func.func @sub_channel_unranked_one_block(%q: tensor<*x!quant.uniform<i8:f32:{}, {{{{}}2.000000e+00:1}}>>) -> tensor<*xf32> {
// CHECK-NEXT:      %0 = quant.scast %q : tensor<*x!quant.uniform<i8:f32:{}, {{{{}}2.000000e+00:1}}>> to tensor<*xi8>
// CHECK-NEXT:      %1 = shape.shape_of %0 : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:      %2 = shape.num_elements %1 : tensor<?xindex> -> index
// CHECK-NEXT:      %3 = tensor.from_elements %2 : tensor<1xindex>
// CHECK-NEXT:      %4 = tensor.reshape %0(%3) : (tensor<*xi8>, tensor<1xindex>) -> tensor<?xi8>
// CHECK-NEXT:      %5 = arith.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT:      %6 = arith.constant dense<1> : tensor<i8>
// CHECK-NEXT:      %7 = arith.constant 0 : index
// CHECK-NEXT:      %8 = tensor.dim %4, %7 : tensor<?xi8>
// CHECK-NEXT:      %9 = tensor.empty(%8) : tensor<?xf32>
// CHECK-NEXT:      %10 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%4, %5, %6 : tensor<?xi8>, tensor<f32>, tensor<i8>) outs(%9 : tensor<?xf32>) {
// CHECK-NEXT:      ^bb0(%in: i8, %scale: f32, %zero_point: i8, %out: f32):
// CHECK-NEXT:        %11 = arith.sitofp %in : i8 to f32
// CHECK-NEXT:        %12 = arith.sitofp %zero_point : i8 to f32
// CHECK-NEXT:        %13 = arith.subf %11, %12 : f32
// CHECK-NEXT:        %14 = arith.mulf %13, %scale : f32
// CHECK-NEXT:        linalg.yield %14 : f32
// CHECK-NEXT:      } -> tensor<?xf32>
// CHECK-NEXT:      %15 = tensor.reshape %10(%1) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>
// CHECK-NEXT:      func.return %15 : tensor<*xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Encodings: a storage cast is where they change.

!q = !quant.uniform<i8:f32, 2.0:1>
!p = !quant.uniform<i8:f32:0, {2.0, 3.0:1}>

func.func @encodings(%x: tensor<2xf32, "x">, %q: tensor<2x!p, "q">) -> (tensor<2x!q>, tensor<2xf32, "y">) {
  %0 = quant.qcast %x : tensor<2xf32, "x"> to tensor<2x!q>
  %1 = quant.dcast %q : tensor<2x!p, "q"> to tensor<2xf32, "y">
  return %0, %1 : tensor<2x!q>, tensor<2xf32, "y">
}

// CHECK:         func.func @encodings(%x: tensor<2xf32, "x">, %q: tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00:1}>, "q">) -> (tensor<2x!quant.uniform<i8:f32, 2.000000e+00:1>>, tensor<2xf32, "y">) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 1 : i8
// CHECK-NEXT:      %2 = tensor.splat %0 : tensor<2xf32, "x">
// CHECK-NEXT:      %3 = arith.divf %x, %2 : tensor<2xf32, "x">
// CHECK-NEXT:      %4 = tensor.splat %1 : tensor<2xi8, "x">
// CHECK-NEXT:      %5 = arith.sitofp %4 : tensor<2xi8, "x"> to tensor<2xf32, "x">
// CHECK-NEXT:      %6 = arith.addf %3, %5 : tensor<2xf32, "x">
// CHECK-NEXT:      %7 = arith.fptosi %6 : tensor<2xf32, "x"> to tensor<2xi8, "x">
// CHECK-NEXT:      %8 = quant.scast %7 : tensor<2xi8, "x"> to tensor<2x!quant.uniform<i8:f32, 2.000000e+00:1>>
// CHECK-NEXT:      %9 = quant.scast %q : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00:1}>, "q"> to tensor<2xi8, "y">
// CHECK-NEXT:      %10 = arith.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:      %11 = arith.constant dense<[0, 1]> : tensor<2xi8>
// CHECK-NEXT:      %12 = tensor.empty() : tensor<2xf32, "y">
// CHECK-NEXT:      %13 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%9, %10, %11 : tensor<2xi8, "y">, tensor<2xf32>, tensor<2xi8>) outs(%12 : tensor<2xf32, "y">) {
// CHECK-NEXT:      ^bb0(%in: i8, %scale: f32, %zero_point: i8, %out: f32):
// CHECK-NEXT:        %14 = arith.sitofp %in : i8 to f32
// CHECK-NEXT:        %15 = arith.sitofp %zero_point : i8 to f32
// CHECK-NEXT:        %16 = arith.subf %14, %15 : f32
// CHECK-NEXT:        %17 = arith.mulf %16, %scale : f32
// CHECK-NEXT:        linalg.yield %17 : f32
// CHECK-NEXT:      } -> tensor<2xf32, "y">
// CHECK-NEXT:      func.return %8, %13 : tensor<2x!quant.uniform<i8:f32, 2.000000e+00:1>>, tensor<2xf32, "y">
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Casts that reverse each other fold; storage casts stay.

!q = !quant.uniform<i8:f32, 2.0:1>

func.func @folds(%x: f32, %q: !q, %i: i8) -> (f32, !q, i8, f32) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %0 : !q to f32
  %2 = quant.dcast %q : !q to f32
  %3 = quant.qcast %2 : f32 to !q
  %4 = quant.scast %i : i8 to !q
  %5 = quant.scast %4 : !q to i8
  %6 = quant.qcast %1 : f32 to !q
  %7 = quant.dcast %6 : !q to f32
  return %1, %3, %5, %7 : f32, !q, i8, f32
}

// CHECK:         func.func @folds(%x: f32, %q: !quant.uniform<i8:f32, 2.000000e+00:1>, %i: i8) -> (f32, !quant.uniform<i8:f32, 2.000000e+00:1>, i8, f32) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 1 : i8
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = arith.sitofp %1 : i8 to f32
// CHECK-NEXT:      %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:      %5 = arith.fptosi %4 : f32 to i8
// CHECK-NEXT:      %6 = quant.scast %5 : i8 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:      %7 = quant.scast %q : !quant.uniform<i8:f32, 2.000000e+00:1> to i8
// CHECK-NEXT:      %8 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %9 = arith.constant 1 : i8
// CHECK-NEXT:      %10 = arith.sitofp %7 : i8 to f32
// CHECK-NEXT:      %11 = arith.sitofp %9 : i8 to f32
// CHECK-NEXT:      %12 = arith.subf %10, %11 : f32
// CHECK-NEXT:      %13 = arith.mulf %12, %8 : f32
// CHECK-NEXT:      %14 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:      %15 = quant.scast %14 : !quant.uniform<i8:f32, 2.000000e+00:1> to i8
// CHECK-NEXT:      func.return %x, %q, %15, %x : f32, !quant.uniform<i8:f32, 2.000000e+00:1>, i8, f32
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Casts are lowered wherever they are, not in `func.func` only.

!q = !quant.uniform<i8:f32, 2.0>

func.func @regions(%c: i1, %x: f32, %n: index) -> !q {
  %0 = scf.if %c -> (!q) {
    %1 = quant.qcast %x : f32 to !q
    scf.yield %1 : !q
  } else {
    %2 = "test.region"() ({
      %3 = quant.qcast %x : f32 to !q
      "test.yield"(%3) : (!q) -> ()
    }) : () -> !q
    scf.yield %2 : !q
  }
  return %0 : !q
}

"test.func"() <{name = "g"}> ({
^bb0(%q: !q):
  %0 = quant.dcast %q : !q to f32
  cf.br ^bb1(%0 : f32)
^bb1(%y: f32):
  "test.return"(%y) : (f32) -> ()
}) : () -> ()

builtin.module @inner {
  func.func @h(%q: !q) -> f32 {
    %0 = quant.dcast %q : !q to f32
    return %0 : f32
  }
}

// CHECK:         func.func @regions(%c: i1, %x: f32, %n: index) -> !quant.uniform<i8:f32, 2.000000e+00> {
// CHECK-NEXT:      %0 = scf.if %c -> (!quant.uniform<i8:f32, 2.000000e+00>) {
// CHECK-NEXT:        %1 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:        %2 = arith.constant 0 : i8
// CHECK-NEXT:        %3 = arith.divf %x, %1 : f32
// CHECK-NEXT:        %4 = arith.fptosi %3 : f32 to i8
// CHECK-NEXT:        %5 = quant.scast %4 : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:        scf.yield %5 : !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      } else {
// CHECK-NEXT:        %6 = "test.region"() ({
// CHECK-NEXT:          %7 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:          %8 = arith.constant 0 : i8
// CHECK-NEXT:          %9 = arith.divf %x, %7 : f32
// CHECK-NEXT:          %10 = arith.fptosi %9 : f32 to i8
// CHECK-NEXT:          %11 = quant.scast %10 : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:          "test.yield"(%11) : (!quant.uniform<i8:f32, 2.000000e+00>) -> ()
// CHECK-NEXT:        }) : () -> !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:        scf.yield %6 : !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %0 : !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:    }
// CHECK-NEXT:    "test.func"() <{name = "g"}> ({
// CHECK-NEXT:    ^bb0(%q: !quant.uniform<i8:f32, 2.000000e+00>):
// CHECK-NEXT:      %0 = quant.scast %q : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %1 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %2 = arith.constant 0 : i8
// CHECK-NEXT:      %3 = arith.sitofp %0 : i8 to f32
// CHECK-NEXT:      %4 = arith.mulf %3, %1 : f32
// CHECK-NEXT:      cf.br ^bb1(%4 : f32)
// CHECK-NEXT:    ^bb1(%y: f32):
// CHECK-NEXT:      "test.return"(%y) : (f32) -> ()
// CHECK-NEXT:    }) : () -> ()
// CHECK-NEXT:    builtin.module @inner {
// CHECK-NEXT:      func.func @h(%q_1: !quant.uniform<i8:f32, 2.000000e+00>) -> f32 {
// CHECK-NEXT:        %5 = quant.scast %q_1 : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:        %6 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:        %7 = arith.constant 0 : i8
// CHECK-NEXT:        %8 = arith.sitofp %5 : i8 to f32
// CHECK-NEXT:        %9 = arith.mulf %8, %6 : f32
// CHECK-NEXT:        func.return %9 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Names live on in the results.

!q = !quant.uniform<i8:f32, 2.0>

func.func @names(%x: f32) -> (f32, i8) {
  %quantized = quant.qcast %x : f32 to !q
  %stored = quant.scast %quantized : !q to i8
  %back = quant.scast %stored : i8 to !q
  %dequantized = quant.dcast %back : !q to f32
  return %dequantized, %stored : f32, i8
}

// CHECK:         func.func @names(%x: f32) -> (f32, i8) {
// CHECK-NEXT:      %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %1 = arith.constant 0 : i8
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = arith.fptosi %2 : f32 to i8
// CHECK-NEXT:      %quantized = quant.scast %3 : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %stored = quant.scast %quantized : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %back = quant.scast %stored : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %4 = quant.scast %back : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %5 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %6 = arith.constant 0 : i8
// CHECK-NEXT:      %7 = arith.sitofp %4 : i8 to f32
// CHECK-NEXT:      %dequantized = arith.mulf %7, %5 : f32
// CHECK-NEXT:      func.return %dequantized, %stored : f32, i8
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// What is no cast stays as it is.

func.func @others(%x: f32, %i: tensor<2xi8>) -> (f32, tensor<2x!quant.any<i8>>) {
  %0 = arith.addf %x, %x : f32
  %1 = quant.scast %i : tensor<2xi8> to tensor<2x!quant.any<i8>>
  return %0, %1 : f32, tensor<2x!quant.any<i8>>
}

// CHECK:         func.func @others(%x: f32, %i: tensor<2xi8>) -> (f32, tensor<2x!quant.any<i8>>) {
// CHECK-NEXT:      %0 = arith.addf %x, %x : f32
// CHECK-NEXT:      %1 = quant.scast %i : tensor<2xi8> to tensor<2x!quant.any<i8>>
// CHECK-NEXT:      func.return %0, %1 : f32, tensor<2x!quant.any<i8>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Ops have the location of the cast that they stand for.

func.func @locations(%x: f32, %q: tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>) -> tensor<2xf32> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0> loc("a.tflite":7:3)
  %1 = quant.dcast %q : tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>> to tensor<2xf32> loc("b.tflite":8:4)
  return %1 : tensor<2xf32>
}

// LOC:         func.func @locations(%x: f32 loc(unknown), %q: tensor<2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>> loc(unknown)) -> tensor<2xf32> {
// LOC-NEXT:      %0 = arith.constant 2.000000e+00 : f32 loc("a.tflite":7:3)
// LOC-NEXT:      %1 = arith.constant 0 : i8 loc("a.tflite":7:3)
// LOC-NEXT:      %2 = arith.divf %x, %0 : f32 loc("a.tflite":7:3)
// LOC-NEXT:      %3 = arith.fptosi %2 : f32 to i8 loc("a.tflite":7:3)
// LOC-NEXT:      %4 = quant.scast %3 : i8 to !quant.uniform<i8:f32, 2.000000e+00> loc("a.tflite":7:3)
// LOC-NEXT:      %5 = quant.scast %q : tensor<2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>> to tensor<2xi8> loc("b.tflite":8:4)
// LOC-NEXT:      %6 = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> loc("b.tflite":8:4)
// LOC-NEXT:      %7 = arith.constant dense<0> : tensor<2xi8> loc("b.tflite":8:4)
// LOC-NEXT:      %8 = tensor.empty() : tensor<2xf32> loc("b.tflite":8:4)
// LOC-NEXT:      %9 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%5, %6, %7 : tensor<2xi8>, tensor<2xf32>, tensor<2xi8>) outs(%8 : tensor<2xf32>) {
// LOC-NEXT:      ^bb0(%in: i8 loc(unknown), %scale: f32 loc(unknown), %zero_point: i8 loc(unknown), %out: f32 loc(unknown)):
// LOC-NEXT:        %10 = arith.sitofp %in : i8 to f32 loc("b.tflite":8:4)
// LOC-NEXT:        %11 = arith.sitofp %zero_point : i8 to f32 loc("b.tflite":8:4)
// LOC-NEXT:        %12 = arith.subf %10, %11 : f32 loc("b.tflite":8:4)
// LOC-NEXT:        %13 = arith.mulf %12, %scale : f32 loc("b.tflite":8:4)
// LOC-NEXT:        linalg.yield %13 : f32 loc("b.tflite":8:4)
// LOC-NEXT:      } -> tensor<2xf32> loc("b.tflite":8:4)
// LOC-NEXT:      func.return %9 : tensor<2xf32> loc(unknown)
// LOC-NEXT:    } loc(unknown)
// LOC-NEXT:  } loc(unknown)
