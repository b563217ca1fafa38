// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even}' --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even nan=stored-zero}' --split-input-file | filecheck %s --check-prefix=ZERO --match-full-lines

// Casts to and from small floats, and indices of tables: see `tests/unit/transforms/quant`
// for what they compute.

!f8 = !quant.uniform<f8E4M3FN:f32, 0.5>
func.func @float(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!f8>
  %1 = quant.dcast %0 : tensor<4x!f8> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK:       func.func @float(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:     %0 = tensor.empty() : tensor<4xf8E4M3FN>
// CHECK-NEXT:     %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf8E4M3FN>) {
// CHECK-NEXT:     ^bb0(%in: f32, %out: f8E4M3FN):
// CHECK-NEXT:       %2 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:       %3 = arith.mulf %in, %2 : f32
// CHECK-NEXT:       %4 = arith.constant -4.480000e+02 : f32
// CHECK-NEXT:       %5 = arith.maxnumf %3, %4 : f32
// CHECK-NEXT:       %6 = arith.constant 4.480000e+02 : f32
// CHECK-NEXT:       %7 = arith.minnumf %5, %6 : f32
// CHECK-NEXT:       %8 = arith.bitcast %7 : f32 to i32
// CHECK-NEXT:       %9 = math.absf %7 : f32
// CHECK-NEXT:       %10 = arith.bitcast %9 : f32 to i32
// CHECK-NEXT:       %11 = arith.constant 20 : i32
// CHECK-NEXT:       %12 = arith.shrsi %10, %11 : i32
// CHECK-NEXT:       %13 = arith.constant 1 : i32
// CHECK-NEXT:       %14 = arith.andi %12, %13 : i32
// CHECK-NEXT:       %15 = arith.constant -1006108673 : i32
// CHECK-NEXT:       %16 = arith.addi %10, %15 : i32
// CHECK-NEXT:       %17 = arith.addi %16, %14 : i32
// CHECK-NEXT:       %18 = arith.constant 20 : i32
// CHECK-NEXT:       %19 = arith.shrsi %17, %18 : i32
// CHECK-NEXT:       %20 = arith.constant 1.638400e+04 : f32
// CHECK-NEXT:       %21 = arith.addf %9, %20 : f32
// CHECK-NEXT:       %22 = arith.bitcast %21 : f32 to i32
// CHECK-NEXT:       %23 = arith.constant 1182793728 : i32
// CHECK-NEXT:       %24 = arith.subi %22, %23 : i32
// CHECK-NEXT:       %25 = arith.constant 1015021568 : i32
// CHECK-NEXT:       %26 = arith.cmpi sge, %10, %25 : i32
// CHECK-NEXT:       %27 = arith.select %26, %19, %24 : i32
// CHECK-NEXT:       %28 = arith.constant 126 : i32
// CHECK-NEXT:       %29 = arith.minsi %27, %28 : i32
// CHECK-NEXT:       %30 = arith.constant 31 : i32
// CHECK-NEXT:       %31 = arith.shrsi %8, %30 : i32
// CHECK-NEXT:       %32 = arith.constant 128 : i32
// CHECK-NEXT:       %33 = arith.andi %31, %32 : i32
// CHECK-NEXT:       %34 = arith.addi %29, %33 : i32
// CHECK-NEXT:       %35 = arith.trunci %34 : i32 to i8
// CHECK-NEXT:       %36 = arith.bitcast %35 : i8 to f8E4M3FN
// CHECK-NEXT:       linalg.yield %36 : f8E4M3FN
// CHECK-NEXT:     } -> tensor<4xf8E4M3FN>
// CHECK-NEXT:     %37 = quant.scast %1 : tensor<4xf8E4M3FN> to tensor<4x!quant.uniform<f8E4M3FN:f32, 5.000000e-01>>
// CHECK-NEXT:     %38 = quant.scast %37 : tensor<4x!quant.uniform<f8E4M3FN:f32, 5.000000e-01>> to tensor<4xf8E4M3FN>
// CHECK-NEXT:     %39 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:     %40 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%38 : tensor<4xf8E4M3FN>) outs(%39 : tensor<4xf32>) {
// CHECK-NEXT:     ^bb0(%in_1: f8E4M3FN, %out_1: f32):
// CHECK-NEXT:       %41 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:       %42 = arith.bitcast %in_1 : f8E4M3FN to i8
// CHECK-NEXT:       %43 = arith.constant -16512 : i16
// CHECK-NEXT:       %44 = arith.extsi %42 : i8 to i16
// CHECK-NEXT:       %45 = arith.constant 7 : i16
// CHECK-NEXT:       %46 = arith.shli %44, %45 : i16
// CHECK-NEXT:       %47 = arith.andi %46, %43 : i16
// CHECK-NEXT:       %48 = arith.bitcast %47 : i16 to f16
// CHECK-NEXT:       %49 = arith.extf %48 : f16 to f32
// CHECK-NEXT:       %50 = arith.constant 2.560000e+02 : f32
// CHECK-NEXT:       %51 = arith.mulf %49, %50 : f32
// CHECK-NEXT:       %52 = arith.extsi %42 : i8 to i32
// CHECK-NEXT:       %53 = arith.constant 127 : i32
// CHECK-NEXT:       %54 = arith.andi %52, %53 : i32
// CHECK-NEXT:       %55 = arith.constant 126 : i32
// CHECK-NEXT:       %56 = arith.cmpi sgt, %54, %55 : i32
// CHECK-NEXT:       %57 = arith.constant 0x7fc00000 : f32
// CHECK-NEXT:       %58 = math.copysign %57, %51 : f32
// CHECK-NEXT:       %59 = arith.select %56, %58, %51 : f32
// CHECK-NEXT:       %60 = arith.mulf %59, %41 : f32
// CHECK-NEXT:       linalg.yield %60 : f32
// CHECK-NEXT:     } -> tensor<4xf32>
// CHECK-NEXT:     func.return %40 : tensor<4xf32>
// CHECK-NEXT:   }

// ZERO:       func.func @float(%x: tensor<4xf32>) -> tensor<4xf32> {
// ZERO-NEXT:     %0 = tensor.empty() : tensor<4xf8E4M3FN>
// ZERO-NEXT:     %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf8E4M3FN>) {
// ZERO-NEXT:     ^bb0(%in: f32, %out: f8E4M3FN):
// ZERO-NEXT:       %2 = arith.constant 2.000000e+00 : f32
// ZERO-NEXT:       %3 = arith.mulf %in, %2 : f32
// ZERO-NEXT:       %4 = arith.cmpf une, %3, %3 : f32
// ZERO-NEXT:       %5 = arith.constant 0.000000e+00 : f32
// ZERO-NEXT:       %6 = arith.select %4, %5, %3 : f32
// ZERO-NEXT:       %7 = arith.constant -4.480000e+02 : f32
// ZERO-NEXT:       %8 = arith.maxnumf %6, %7 : f32
// ZERO-NEXT:       %9 = arith.constant 4.480000e+02 : f32
// ZERO-NEXT:       %10 = arith.minnumf %8, %9 : f32

// -----


// Either of both zeros may be the maximum of them.
!f8 = !quant.uniform<f8E5M2<0:9>:f32, 0.5>
func.func @positive(%x: f32) -> f32 {
  %0 = quant.qcast %x : f32 to !f8
  %1 = quant.dcast %0 : !f8 to f32
  return %1 : f32
}

// CHECK:       func.func @positive(%x: f32) -> f32 {
// CHECK-NEXT:     %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:     %1 = arith.mulf %x, %0 : f32
// CHECK-NEXT:     %2 = arith.constant -0.000000e+00 : f32
// CHECK-NEXT:     %3 = arith.maxnumf %1, %2 : f32
// CHECK-NEXT:     %4 = arith.constant 8.000000e+00 : f32
// CHECK-NEXT:     %5 = arith.minnumf %3, %4 : f32
// CHECK-NEXT:     %6 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %7 = arith.addf %5, %6 : f32
// CHECK-NEXT:     %8 = arith.bitcast %7 : f32 to i32
// CHECK-NEXT:     %9 = math.absf %7 : f32
// CHECK-NEXT:     %10 = arith.bitcast %9 : f32 to i32
// CHECK-NEXT:     %11 = arith.constant 21 : i32
// CHECK-NEXT:     %12 = arith.shrsi %10, %11 : i32
// CHECK-NEXT:     %13 = arith.constant 1 : i32
// CHECK-NEXT:     %14 = arith.andi %12, %13 : i32
// CHECK-NEXT:     %15 = arith.constant -938475521 : i32
// CHECK-NEXT:     %16 = arith.addi %10, %15 : i32
// CHECK-NEXT:     %17 = arith.addi %16, %14 : i32
// CHECK-NEXT:     %18 = arith.constant 21 : i32
// CHECK-NEXT:     %19 = arith.shrsi %17, %18 : i32
// CHECK-NEXT:     %20 = arith.constant 1.280000e+02 : f32
// CHECK-NEXT:     %21 = arith.addf %9, %20 : f32
// CHECK-NEXT:     %22 = arith.bitcast %21 : f32 to i32
// CHECK-NEXT:     %23 = arith.constant 1124073472 : i32
// CHECK-NEXT:     %24 = arith.subi %22, %23 : i32
// CHECK-NEXT:     %25 = arith.constant 947912704 : i32
// CHECK-NEXT:     %26 = arith.cmpi sge, %10, %25 : i32
// CHECK-NEXT:     %27 = arith.select %26, %19, %24 : i32
// CHECK-NEXT:     %28 = arith.constant 123 : i32
// CHECK-NEXT:     %29 = arith.minsi %27, %28 : i32
// CHECK-NEXT:     %30 = arith.constant 31 : i32
// CHECK-NEXT:     %31 = arith.shrsi %8, %30 : i32
// CHECK-NEXT:     %32 = arith.constant 128 : i32
// CHECK-NEXT:     %33 = arith.andi %31, %32 : i32
// CHECK-NEXT:     %34 = arith.trunci %29 : i32 to i8
// CHECK-NEXT:     %35 = arith.bitcast %34 : i8 to f8E5M2
// CHECK-NEXT:     %36 = quant.scast %35 : f8E5M2 to !quant.uniform<f8E5M2<0:9>:f32, 5.000000e-01>
// CHECK-NEXT:     %37 = quant.scast %36 : !quant.uniform<f8E5M2<0:9>:f32, 5.000000e-01> to f8E5M2
// CHECK-NEXT:     %38 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:     %39 = arith.bitcast %37 : f8E5M2 to i8
// CHECK-NEXT:     %40 = arith.constant -256 : i16
// CHECK-NEXT:     %41 = arith.extsi %39 : i8 to i16
// CHECK-NEXT:     %42 = arith.constant 8 : i16
// CHECK-NEXT:     %43 = arith.shli %41, %42 : i16
// CHECK-NEXT:     %44 = arith.andi %43, %40 : i16
// CHECK-NEXT:     %45 = arith.bitcast %44 : i16 to f16
// CHECK-NEXT:     %46 = arith.extf %45 : f16 to f32
// CHECK-NEXT:     %47 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %48 = arith.mulf %46, %47 : f32
// CHECK-NEXT:     %49 = arith.mulf %48, %38 : f32
// CHECK-NEXT:     func.return %49 : f32
// CHECK-NEXT:   }

// -----


!f4 = !quant.uniform<f4E2M1FN<-2:0>:f16, 0.5>
func.func @negative(%x: f16) -> f16 {
  %0 = quant.qcast %x : f16 to !f4
  %1 = quant.dcast %0 : !f4 to f16
  return %1 : f16
}

// CHECK:       func.func @negative(%x: f16) -> f16 {
// CHECK-NEXT:     %0 = arith.constant 2.000000e+00 : f16
// CHECK-NEXT:     %1 = arith.mulf %x, %0 : f16
// CHECK-NEXT:     %2 = arith.constant -2.000000e+00 : f16
// CHECK-NEXT:     %3 = arith.maxnumf %1, %2 : f16
// CHECK-NEXT:     %4 = arith.constant -0.000000e+00 : f16
// CHECK-NEXT:     %5 = arith.minnumf %3, %4 : f16
// CHECK-NEXT:     %6 = arith.constant 0.000000e+00 : f16
// CHECK-NEXT:     %7 = arith.addf %5, %6 : f16
// CHECK-NEXT:     %8 = arith.extf %7 : f16 to f32
// CHECK-NEXT:     %9 = arith.bitcast %8 : f32 to i32
// CHECK-NEXT:     %10 = math.absf %8 : f32
// CHECK-NEXT:     %11 = arith.bitcast %10 : f32 to i32
// CHECK-NEXT:     %12 = arith.constant 22 : i32
// CHECK-NEXT:     %13 = arith.shrsi %11, %12 : i32
// CHECK-NEXT:     %14 = arith.constant 1 : i32
// CHECK-NEXT:     %15 = arith.andi %13, %14 : i32
// CHECK-NEXT:     %16 = arith.constant -1054867457 : i32
// CHECK-NEXT:     %17 = arith.addi %11, %16 : i32
// CHECK-NEXT:     %18 = arith.addi %17, %15 : i32
// CHECK-NEXT:     %19 = arith.constant 22 : i32
// CHECK-NEXT:     %20 = arith.shrsi %18, %19 : i32
// CHECK-NEXT:     %21 = arith.constant 0x4A800000 : f32
// CHECK-NEXT:     %22 = arith.addf %10, %21 : f32
// CHECK-NEXT:     %23 = arith.bitcast %22 : f32 to i32
// CHECK-NEXT:     %24 = arith.constant 1249902592 : i32
// CHECK-NEXT:     %25 = arith.subi %23, %24 : i32
// CHECK-NEXT:     %26 = arith.constant 1065353216 : i32
// CHECK-NEXT:     %27 = arith.cmpi sge, %11, %26 : i32
// CHECK-NEXT:     %28 = arith.select %27, %20, %25 : i32
// CHECK-NEXT:     %29 = arith.constant 7 : i32
// CHECK-NEXT:     %30 = arith.minsi %28, %29 : i32
// CHECK-NEXT:     %31 = arith.constant 31 : i32
// CHECK-NEXT:     %32 = arith.shrsi %9, %31 : i32
// CHECK-NEXT:     %33 = arith.constant 8 : i32
// CHECK-NEXT:     %34 = arith.andi %32, %33 : i32
// CHECK-NEXT:     %35 = arith.constant 8 : i32
// CHECK-NEXT:     %36 = arith.subi %35, %34 : i32
// CHECK-NEXT:     %37 = arith.addi %30, %34 : i32
// CHECK-NEXT:     %38 = arith.trunci %37 : i32 to i4
// CHECK-NEXT:     %39 = arith.bitcast %38 : i4 to f4E2M1FN
// CHECK-NEXT:     %40 = quant.scast %39 : f4E2M1FN to !quant.uniform<f4E2M1FN<-2:0>:f16, 5.000000e-01>
// CHECK-NEXT:     %41 = quant.scast %40 : !quant.uniform<f4E2M1FN<-2:0>:f16, 5.000000e-01> to f4E2M1FN
// CHECK-NEXT:     %42 = arith.constant 5.000000e-01 : f16
// CHECK-NEXT:     %43 = arith.bitcast %41 : f4E2M1FN to i4
// CHECK-NEXT:     %44 = arith.constant -29184 : i16
// CHECK-NEXT:     %45 = arith.extsi %43 : i4 to i16
// CHECK-NEXT:     %46 = arith.constant 9 : i16
// CHECK-NEXT:     %47 = arith.shli %45, %46 : i16
// CHECK-NEXT:     %48 = arith.andi %47, %44 : i16
// CHECK-NEXT:     %49 = arith.bitcast %48 : i16 to f16
// CHECK-NEXT:     %50 = arith.extf %49 : f16 to f32
// CHECK-NEXT:     %51 = arith.constant 1.638400e+04 : f32
// CHECK-NEXT:     %52 = arith.mulf %50, %51 : f32
// CHECK-NEXT:     %53 = arith.truncf %52 : f32 to f16
// CHECK-NEXT:     %54 = arith.mulf %53, %42 : f16
// CHECK-NEXT:     func.return %54 : f16
// CHECK-NEXT:   }

// ZERO:       func.func @negative(%x: f16) -> f16 {
// ZERO-NEXT:     %0 = arith.constant 2.000000e+00 : f16
// ZERO-NEXT:     %1 = arith.mulf %x, %0 : f16
// ZERO-NEXT:     %2 = arith.cmpf une, %1, %1 : f16
// ZERO-NEXT:     %3 = arith.constant 0.000000e+00 : f16
// ZERO-NEXT:     %4 = arith.select %2, %3, %1 : f16
// ZERO-NEXT:     %5 = arith.constant -2.000000e+00 : f16
// ZERO-NEXT:     %6 = arith.maxnumf %4, %5 : f16
// ZERO-NEXT:     %7 = arith.constant -0.000000e+00 : f16
// ZERO-NEXT:     %8 = arith.minnumf %6, %7 : f16

// -----


!table = !quant.uniform<!quant.quantile<i2:i8, {-1.0, 0.5, 1.0}, <1:3>>:f32, 0.5>
func.func @ascending(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!table>
  %1 = quant.dcast %0 : tensor<4x!table> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK:       func.func @ascending(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:     %0 = arith.constant dense<[-2.500000e-01, 7.500000e-01, 0x7f800000]> : tensor<3xf32>
// CHECK-NEXT:     %1 = tensor.empty() : tensor<4xi2>
// CHECK-NEXT:     %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%1 : tensor<4xi2>) {
// CHECK-NEXT:     ^bb0(%in: f32, %out: i2):
// CHECK-NEXT:       %3 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:       %4 = arith.mulf %in, %3 : f32
// CHECK-NEXT:       %5 = arith.constant 0 : i32
// CHECK-NEXT:       %6 = arith.constant 1 : i32
// CHECK-NEXT:       %7 = arith.addi %5, %6 : i32
// CHECK-NEXT:       %8 = arith.index_cast %7 : i32 to index
// CHECK-NEXT:       %9 = tensor.extract %0[%8] : tensor<3xf32>
// CHECK-NEXT:       %10 = arith.cmpf ogt, %4, %9 : f32
// CHECK-NEXT:       %11 = arith.extui %10 : i1 to i32
// CHECK-NEXT:       %12 = arith.constant 1 : i32
// CHECK-NEXT:       %13 = arith.shli %11, %12 : i32
// CHECK-NEXT:       %14 = arith.index_cast %13 : i32 to index
// CHECK-NEXT:       %15 = tensor.extract %0[%14] : tensor<3xf32>
// CHECK-NEXT:       %16 = arith.cmpf ogt, %4, %15 : f32
// CHECK-NEXT:       %17 = arith.extui %16 : i1 to i32
// CHECK-NEXT:       %18 = arith.addi %13, %17 : i32
// CHECK-NEXT:       %19 = arith.constant 1 : i32
// CHECK-NEXT:       %20 = arith.addi %18, %19 : i32
// CHECK-NEXT:       %21 = arith.trunci %20 : i32 to i2
// CHECK-NEXT:       linalg.yield %21 : i2
// CHECK-NEXT:     } -> tensor<4xi2>
// CHECK-NEXT:     %22 = quant.scast %2 : tensor<4xi2> to tensor<4x!quant.uniform<!quant.quantile<i2:i8, {-1.000000e+00,5.000000e-01,1.000000e+00}, <1:3>>:f32, 5.000000e-01>>
// CHECK-NEXT:     %23 = quant.scast %22 : tensor<4x!quant.uniform<!quant.quantile<i2:i8, {-1.000000e+00,5.000000e-01,1.000000e+00}, <1:3>>:f32, 5.000000e-01>> to tensor<4xi2>
// CHECK-NEXT:     %24 = arith.constant dense<[-1.000000e+00, 5.000000e-01, 1.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:     %25 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:     %26 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%23 : tensor<4xi2>) outs(%25 : tensor<4xf32>) {
// CHECK-NEXT:     ^bb0(%in_1: i2, %out_1: f32):
// CHECK-NEXT:       %27 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:       %28 = arith.extsi %in_1 : i2 to i32
// CHECK-NEXT:       %29 = arith.constant 3 : i32
// CHECK-NEXT:       %30 = arith.andi %28, %29 : i32
// CHECK-NEXT:       %31 = arith.constant 1 : i32
// CHECK-NEXT:       %32 = arith.subi %30, %31 : i32
// CHECK-NEXT:       %33 = arith.constant 0 : i32
// CHECK-NEXT:       %34 = arith.maxsi %32, %33 : i32
// CHECK-NEXT:       %35 = arith.index_cast %34 : i32 to index
// CHECK-NEXT:       %36 = tensor.extract %24[%35] : tensor<3xf32>
// CHECK-NEXT:       %37 = arith.mulf %36, %27 : f32
// CHECK-NEXT:       linalg.yield %37 : f32
// CHECK-NEXT:     } -> tensor<4xf32>
// CHECK-NEXT:     func.return %26 : tensor<4xf32>
// CHECK-NEXT:   }

// -----


!table = !quant.uniform<!quant.quantile<si4:f16, {3.0, 1.0, 2.0, 0.0, 5.0}, <-3:1>>:f32, 0.5>
func.func @any_order(%x: f32) -> f32 {
  %0 = quant.qcast %x : f32 to !table
  %1 = quant.dcast %0 : !table to f32
  return %1 : f32
}

// CHECK:       func.func @any_order(%x: f32) -> f32 {
// CHECK-NEXT:     %0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:     %1 = arith.mulf %x, %0 : f32
// CHECK-NEXT:     %2 = arith.constant dense<[0.49999997, 1.500000e+00, 2.49999976, 4.000000e+00, 0x7f800000, 0x7f800000, 0x7f800000]> : tensor<7xf32>
// CHECK-NEXT:     %3 = arith.constant dense<[0, -2, -1, -3, 1]> : tensor<5xi32>
// CHECK-NEXT:     %4 = arith.constant 0 : i32
// CHECK-NEXT:     %5 = arith.constant 3 : i32
// CHECK-NEXT:     %6 = arith.addi %4, %5 : i32
// CHECK-NEXT:     %7 = arith.index_cast %6 : i32 to index
// CHECK-NEXT:     %8 = tensor.extract %2[%7] : tensor<7xf32>
// CHECK-NEXT:     %9 = arith.cmpf ogt, %1, %8 : f32
// CHECK-NEXT:     %10 = arith.extui %9 : i1 to i32
// CHECK-NEXT:     %11 = arith.constant 2 : i32
// CHECK-NEXT:     %12 = arith.shli %10, %11 : i32
// CHECK-NEXT:     %13 = arith.constant 1 : i32
// CHECK-NEXT:     %14 = arith.addi %12, %13 : i32
// CHECK-NEXT:     %15 = arith.index_cast %14 : i32 to index
// CHECK-NEXT:     %16 = tensor.extract %2[%15] : tensor<7xf32>
// CHECK-NEXT:     %17 = arith.cmpf ogt, %1, %16 : f32
// CHECK-NEXT:     %18 = arith.extui %17 : i1 to i32
// CHECK-NEXT:     %19 = arith.constant 1 : i32
// CHECK-NEXT:     %20 = arith.shli %18, %19 : i32
// CHECK-NEXT:     %21 = arith.addi %12, %20 : i32
// CHECK-NEXT:     %22 = arith.index_cast %21 : i32 to index
// CHECK-NEXT:     %23 = tensor.extract %2[%22] : tensor<7xf32>
// CHECK-NEXT:     %24 = arith.cmpf ogt, %1, %23 : f32
// CHECK-NEXT:     %25 = arith.extui %24 : i1 to i32
// CHECK-NEXT:     %26 = arith.addi %21, %25 : i32
// CHECK-NEXT:     %27 = arith.index_cast %26 : i32 to index
// CHECK-NEXT:     %28 = tensor.extract %3[%27] : tensor<5xi32>
// CHECK-NEXT:     %29 = arith.cmpf une, %1, %1 : f32
// CHECK-NEXT:     %30 = arith.constant -3 : i32
// CHECK-NEXT:     %31 = arith.select %29, %30, %28 : i32
// CHECK-NEXT:     %32 = arith.trunci %31 : i32 to i4
// CHECK-NEXT:     %33 = quant.scast %32 : i4 to !quant.uniform<!quant.quantile<si4:f16, {3.000000e+00,1.000000e+00,2.000000e+00,0.000000e+00,5.000000e+00}, <-3:1>>:f32, 5.000000e-01>
// CHECK-NEXT:     %34 = quant.scast %33 : !quant.uniform<!quant.quantile<si4:f16, {3.000000e+00,1.000000e+00,2.000000e+00,0.000000e+00,5.000000e+00}, <-3:1>>:f32, 5.000000e-01> to i4
// CHECK-NEXT:     %35 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:     %36 = arith.constant dense<[3.000000e+00, 1.000000e+00, 2.000000e+00, 0.000000e+00, 5.000000e+00]> : tensor<5xf32>
// CHECK-NEXT:     %37 = arith.extsi %34 : i4 to i32
// CHECK-NEXT:     %38 = arith.constant -3 : i32
// CHECK-NEXT:     %39 = arith.subi %37, %38 : i32
// CHECK-NEXT:     %40 = arith.constant 0 : i32
// CHECK-NEXT:     %41 = arith.maxsi %39, %40 : i32
// CHECK-NEXT:     %42 = arith.constant 4 : i32
// CHECK-NEXT:     %43 = arith.minsi %41, %42 : i32
// CHECK-NEXT:     %44 = arith.index_cast %43 : i32 to index
// CHECK-NEXT:     %45 = tensor.extract %36[%44] : tensor<5xf32>
// CHECK-NEXT:     %46 = arith.mulf %45, %35 : f32
// CHECK-NEXT:     func.return %46 : f32
// CHECK-NEXT:   }

// ZERO:       func.func @any_order(%x: f32) -> f32 {
// ZERO-NEXT:     %0 = arith.constant 2.000000e+00 : f32
// ZERO-NEXT:     %1 = arith.mulf %x, %0 : f32
// ZERO-NEXT:     %2 = arith.constant dense<[0.49999997, 1.500000e+00, 2.49999976, 4.000000e+00, 0x7f800000, 0x7f800000, 0x7f800000]> : tensor<7xf32>
// ZERO-NEXT:     %3 = arith.constant dense<[0, -2, -1, -3, 1]> : tensor<5xi32>
// ZERO-NEXT:     %4 = arith.constant 0 : i32
// ZERO-NEXT:     %5 = arith.constant 3 : i32
// ZERO-NEXT:     %6 = arith.addi %4, %5 : i32
// ZERO-NEXT:     %7 = arith.index_cast %6 : i32 to index
// ZERO-NEXT:     %8 = tensor.extract %2[%7] : tensor<7xf32>
// ZERO-NEXT:     %9 = arith.cmpf ogt, %1, %8 : f32
// ZERO-NEXT:     %10 = arith.extui %9 : i1 to i32
// ZERO-NEXT:     %11 = arith.constant 2 : i32
// ZERO-NEXT:     %12 = arith.shli %10, %11 : i32
// ZERO-NEXT:     %13 = arith.constant 1 : i32
// ZERO-NEXT:     %14 = arith.addi %12, %13 : i32
// ZERO-NEXT:     %15 = arith.index_cast %14 : i32 to index
// ZERO-NEXT:     %16 = tensor.extract %2[%15] : tensor<7xf32>
// ZERO-NEXT:     %17 = arith.cmpf ogt, %1, %16 : f32
// ZERO-NEXT:     %18 = arith.extui %17 : i1 to i32
// ZERO-NEXT:     %19 = arith.constant 1 : i32
// ZERO-NEXT:     %20 = arith.shli %18, %19 : i32
// ZERO-NEXT:     %21 = arith.addi %12, %20 : i32
// ZERO-NEXT:     %22 = arith.index_cast %21 : i32 to index
// ZERO-NEXT:     %23 = tensor.extract %2[%22] : tensor<7xf32>
// ZERO-NEXT:     %24 = arith.cmpf ogt, %1, %23 : f32
// ZERO-NEXT:     %25 = arith.extui %24 : i1 to i32
// ZERO-NEXT:     %26 = arith.addi %21, %25 : i32
// ZERO-NEXT:     %27 = arith.index_cast %26 : i32 to index
// ZERO-NEXT:     %28 = tensor.extract %3[%27] : tensor<5xi32>
// ZERO-NEXT:     %29 = arith.trunci %28 : i32 to i4
// ZERO-NEXT:     %30 = quant.scast %29 : i4 to !quant.uniform<!quant.quantile<si4:f16, {3.000000e+00,1.000000e+00,2.000000e+00,0.000000e+00,5.000000e+00}, <-3:1>>:f32, 5.000000e-01>
