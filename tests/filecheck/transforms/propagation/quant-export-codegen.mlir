// RUN: xdsl-opt %s -p 'quant-export{mode=codegen}' | filecheck %s
// RUN: xdsl-opt %s -p 'quant-export{mode=codegen push-rescales=false}' | filecheck %s --check-prefix=PORTS

!x = !quant.uniform<i8:f32, 0.05:-3>
!s = !quant.uniform<i8:f32, 0.1>
func.func @sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.region "add" (%a = %x : tensor<4xf32> as !x, %b = %y : tensor<4xf32> as !x)
      -> (tensor<4xf32> as !s) {
    %1 = stablehlo.add %a, %b : tensor<4xf32>
    quant.return %1 : tensor<4xf32>
  }
  %2 = quant.region "add" (%a = %0 : tensor<4xf32> as !s, %b = %x : tensor<4xf32> as !x)
      -> (tensor<4xf32> as !s) {
    %3 = stablehlo.add %a, %b : tensor<4xf32>
    quant.return %3 : tensor<4xf32>
  }
  func.return %2 : tensor<4xf32>
}

// The first sum is not rescaled, but has the range of its type.
// CHECK:      builtin.module attributes {quant.rescales = {inserted = 1 : i64, at_ports = 2 : i64, differences = {sums = array<i64: 1>}}} {
// CHECK-NEXT:   func.func @sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:     %0 = quant.qcast %y : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>>
// CHECK-NEXT:     %1 = quant.scast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>> to tensor<4xi8>
// CHECK-NEXT:     %2 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>>
// CHECK-NEXT:     %3 = quant.scast %2 : tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>> to tensor<4xi8>
// CHECK-NEXT:     %4 = tensor.empty() : tensor<4xi32>
// CHECK-NEXT:     %5 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3, %1 : tensor<4xi8>, tensor<4xi8>) outs(%4 : tensor<4xi32>) {
// CHECK-NEXT:     ^bb0(%in: i8, %in_1: i8, %out: i32):
// CHECK-NEXT:       %6 = arith.extsi %in : i8 to i32
// CHECK-NEXT:       %7 = arith.constant -3 : i32
// CHECK-NEXT:       %8 = arith.subi %6, %7 : i32
// CHECK-NEXT:       %9 = arith.extsi %in_1 : i8 to i32
// CHECK-NEXT:       %10 = arith.constant -3 : i32
// CHECK-NEXT:       %11 = arith.subi %9, %10 : i32
// CHECK-NEXT:       %12 = arith.addi %8, %11 : i32
// CHECK-NEXT:       linalg.yield %12 : i32
// CHECK-NEXT:     } -> tensor<4xi32>
// CHECK-NEXT:     %13 = tensor.empty() : tensor<4xi32>
// CHECK-NEXT:     %14 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%5 : tensor<4xi32>) outs(%13 : tensor<4xi32>) {
// CHECK-NEXT:     ^bb0(%in_2: i32, %out_1: i32):
// CHECK-NEXT:       %15 = arith.constant 254 : i32
// CHECK-NEXT:       %16 = arith.minsi %in_2, %15 : i32
// CHECK-NEXT:       linalg.yield %16 : i32
// CHECK-NEXT:     } -> tensor<4xi32>
// CHECK-NEXT:     %17 = tensor.empty() : tensor<4xi32>
// CHECK-NEXT:     %18 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%14, %3 : tensor<4xi32>, tensor<4xi8>) outs(%17 : tensor<4xi32>) {
// CHECK-NEXT:     ^bb0(%in_3: i32, %in_4: i8, %out_2: i32):
// CHECK-NEXT:       %19 = arith.extsi %in_4 : i8 to i32
// CHECK-NEXT:       %20 = arith.constant -3 : i32
// CHECK-NEXT:       %21 = arith.subi %19, %20 : i32
// CHECK-NEXT:       %22 = arith.addi %in_3, %21 : i32
// CHECK-NEXT:       linalg.yield %22 : i32
// CHECK-NEXT:     } -> tensor<4xi32>
// CHECK-NEXT:     %23 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:     %24 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%18 : tensor<4xi32>) outs(%23 : tensor<4xi8>) {
// CHECK-NEXT:     ^bb0(%in_5: i32, %out_3: i8):
// CHECK-NEXT:       %25 = arith.extsi %in_5 : i32 to i64
// CHECK-NEXT:       %26 = arith.constant 1073741824 : i64
// CHECK-NEXT:       %27 = arith.muli %25, %26 : i64
// CHECK-NEXT:       %28 = arith.constant 30 : i64
// CHECK-NEXT:       %29 = arith.shrsi %27, %28 : i64
// CHECK-NEXT:       %30 = arith.trunci %29 : i64 to i32
// CHECK-NEXT:       %31 = arith.constant 1 : i32
// CHECK-NEXT:       %32 = arith.addi %30, %31 : i32
// CHECK-NEXT:       %33 = arith.constant 1 : i32
// CHECK-NEXT:       %34 = arith.shrsi %32, %33 : i32
// CHECK-NEXT:       %35 = arith.constant -128 : i32
// CHECK-NEXT:       %36 = arith.maxsi %34, %35 : i32
// CHECK-NEXT:       %37 = arith.constant 127 : i32
// CHECK-NEXT:       %38 = arith.minsi %36, %37 : i32
// CHECK-NEXT:       %39 = arith.trunci %38 : i32 to i8
// CHECK-NEXT:       linalg.yield %39 : i8
// CHECK-NEXT:     } -> tensor<4xi8>
// CHECK-NEXT:     %40 = quant.scast %24 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>
// CHECK-NEXT:     %41 = quant.dcast %40 : tensor<4x!quant.uniform<i8:f32, 1.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:     func.return %41 : tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }

// Each sum is rescaled.
// PORTS:      builtin.module attributes {quant.rescales = {inserted = 2 : i64}} {
// PORTS-NEXT:   func.func @sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
// PORTS-NEXT:     %0 = quant.qcast %y : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>>
// PORTS-NEXT:     %1 = quant.scast %0 : tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>> to tensor<4xi8>
// PORTS-NEXT:     %2 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>>
// PORTS-NEXT:     %3 = quant.scast %2 : tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-3>> to tensor<4xi8>
// PORTS-NEXT:     %4 = tensor.empty() : tensor<4xi32>
// PORTS-NEXT:     %5 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3, %1 : tensor<4xi8>, tensor<4xi8>) outs(%4 : tensor<4xi32>) {
// PORTS-NEXT:     ^bb0(%in: i8, %in_1: i8, %out: i32):
// PORTS-NEXT:       %6 = arith.extsi %in : i8 to i32
// PORTS-NEXT:       %7 = arith.constant -3 : i32
// PORTS-NEXT:       %8 = arith.subi %6, %7 : i32
// PORTS-NEXT:       %9 = arith.extsi %in_1 : i8 to i32
// PORTS-NEXT:       %10 = arith.constant -3 : i32
// PORTS-NEXT:       %11 = arith.subi %9, %10 : i32
// PORTS-NEXT:       %12 = arith.addi %8, %11 : i32
// PORTS-NEXT:       linalg.yield %12 : i32
// PORTS-NEXT:     } -> tensor<4xi32>
// PORTS-NEXT:     %13 = tensor.empty() : tensor<4xi8>
// PORTS-NEXT:     %14 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%5 : tensor<4xi32>) outs(%13 : tensor<4xi8>) {
// PORTS-NEXT:     ^bb0(%in_2: i32, %out_1: i8):
// PORTS-NEXT:       %15 = arith.extsi %in_2 : i32 to i64
// PORTS-NEXT:       %16 = arith.constant 1073741824 : i64
// PORTS-NEXT:       %17 = arith.muli %15, %16 : i64
// PORTS-NEXT:       %18 = arith.constant 30 : i64
// PORTS-NEXT:       %19 = arith.shrsi %17, %18 : i64
// PORTS-NEXT:       %20 = arith.trunci %19 : i64 to i32
// PORTS-NEXT:       %21 = arith.constant 1 : i32
// PORTS-NEXT:       %22 = arith.addi %20, %21 : i32
// PORTS-NEXT:       %23 = arith.constant 1 : i32
// PORTS-NEXT:       %24 = arith.shrsi %22, %23 : i32
// PORTS-NEXT:       %25 = arith.constant 127 : i32
// PORTS-NEXT:       %26 = arith.minsi %24, %25 : i32
// PORTS-NEXT:       %27 = arith.trunci %26 : i32 to i8
// PORTS-NEXT:       linalg.yield %27 : i8
// PORTS-NEXT:     } -> tensor<4xi8>
// PORTS-NEXT:     %28 = tensor.empty() : tensor<4xi32>
// PORTS-NEXT:     %29 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%14, %3 : tensor<4xi8>, tensor<4xi8>) outs(%28 : tensor<4xi32>) {
// PORTS-NEXT:     ^bb0(%in_3: i8, %in_4: i8, %out_2: i32):
// PORTS-NEXT:       %30 = arith.extsi %in_4 : i8 to i32
// PORTS-NEXT:       %31 = arith.constant -3 : i32
// PORTS-NEXT:       %32 = arith.subi %30, %31 : i32
// PORTS-NEXT:       %33 = arith.extsi %in_3 : i8 to i32
// PORTS-NEXT:       %34 = arith.constant 2 : i32
// PORTS-NEXT:       %35 = arith.muli %33, %34 : i32
// PORTS-NEXT:       %36 = arith.addi %35, %32 : i32
// PORTS-NEXT:       linalg.yield %36 : i32
// PORTS-NEXT:     } -> tensor<4xi32>
// PORTS-NEXT:     %37 = tensor.empty() : tensor<4xi8>
// PORTS-NEXT:     %38 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%29 : tensor<4xi32>) outs(%37 : tensor<4xi8>) {
// PORTS-NEXT:     ^bb0(%in_5: i32, %out_3: i8):
// PORTS-NEXT:       %39 = arith.extsi %in_5 : i32 to i64
// PORTS-NEXT:       %40 = arith.constant 1073741824 : i64
// PORTS-NEXT:       %41 = arith.muli %39, %40 : i64
// PORTS-NEXT:       %42 = arith.constant 30 : i64
// PORTS-NEXT:       %43 = arith.shrsi %41, %42 : i64
// PORTS-NEXT:       %44 = arith.trunci %43 : i64 to i32
// PORTS-NEXT:       %45 = arith.constant 1 : i32
// PORTS-NEXT:       %46 = arith.addi %44, %45 : i32
// PORTS-NEXT:       %47 = arith.constant 1 : i32
// PORTS-NEXT:       %48 = arith.shrsi %46, %47 : i32
// PORTS-NEXT:       %49 = arith.constant -128 : i32
// PORTS-NEXT:       %50 = arith.maxsi %48, %49 : i32
// PORTS-NEXT:       %51 = arith.constant 127 : i32
// PORTS-NEXT:       %52 = arith.minsi %50, %51 : i32
// PORTS-NEXT:       %53 = arith.trunci %52 : i32 to i8
// PORTS-NEXT:       linalg.yield %53 : i8
// PORTS-NEXT:     } -> tensor<4xi8>
// PORTS-NEXT:     %54 = quant.scast %38 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>
// PORTS-NEXT:     %55 = quant.dcast %54 : tensor<4x!quant.uniform<i8:f32, 1.000000e-01>> to tensor<4xf32>
// PORTS-NEXT:     func.return %55 : tensor<4xf32>
// PORTS-NEXT:   }
// PORTS-NEXT: }
