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
// CHECK-NEXT:       %15 = arith.constant -256 : i32
// CHECK-NEXT:       %16 = arith.maxsi %in_2, %15 : i32
// CHECK-NEXT:       %17 = arith.constant 254 : i32
// CHECK-NEXT:       %18 = arith.minsi %16, %17 : i32
// CHECK-NEXT:       linalg.yield %18 : i32
// CHECK-NEXT:     } -> tensor<4xi32>
// CHECK-NEXT:     %19 = tensor.empty() : tensor<4xi32>
// CHECK-NEXT:     %20 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%14, %3 : tensor<4xi32>, tensor<4xi8>) outs(%19 : tensor<4xi32>) {
// CHECK-NEXT:     ^bb0(%in_3: i32, %in_4: i8, %out_2: i32):
// CHECK-NEXT:       %21 = arith.extsi %in_4 : i8 to i32
// CHECK-NEXT:       %22 = arith.constant -3 : i32
// CHECK-NEXT:       %23 = arith.subi %21, %22 : i32
// CHECK-NEXT:       %24 = arith.addi %in_3, %23 : i32
// CHECK-NEXT:       linalg.yield %24 : i32
// CHECK-NEXT:     } -> tensor<4xi32>
// CHECK-NEXT:     %25 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:     %26 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%20 : tensor<4xi32>) outs(%25 : tensor<4xi8>) {
// CHECK-NEXT:     ^bb0(%in_5: i32, %out_3: i8):
// CHECK-NEXT:       %27 = arith.extsi %in_5 : i32 to i64
// CHECK-NEXT:       %28 = arith.constant 1073741824 : i64
// CHECK-NEXT:       %29 = arith.muli %27, %28 : i64
// CHECK-NEXT:       %30 = arith.constant 31 : i64
// CHECK-NEXT:       %31 = arith.constant 1 : i64
// CHECK-NEXT:       %32 = arith.constant 30 : i64
// CHECK-NEXT:       %33 = arith.shrsi %29, %32 : i64
// CHECK-NEXT:       %34 = arith.addi %33, %31 : i64
// CHECK-NEXT:       %35 = arith.shrsi %34, %31 : i64
// CHECK-NEXT:       %36 = arith.constant -128 : i64
// CHECK-NEXT:       %37 = arith.maxsi %35, %36 : i64
// CHECK-NEXT:       %38 = arith.constant 127 : i64
// CHECK-NEXT:       %39 = arith.minsi %37, %38 : i64
// CHECK-NEXT:       %40 = arith.trunci %39 : i64 to i8
// CHECK-NEXT:       linalg.yield %40 : i8
// CHECK-NEXT:     } -> tensor<4xi8>
// CHECK-NEXT:     %41 = quant.scast %26 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>
// CHECK-NEXT:     %42 = quant.dcast %41 : tensor<4x!quant.uniform<i8:f32, 1.000000e-01>> to tensor<4xf32>
// CHECK-NEXT:     func.return %42 : tensor<4xf32>
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
// PORTS-NEXT:       %18 = arith.constant 31 : i64
// PORTS-NEXT:       %19 = arith.constant 1 : i64
// PORTS-NEXT:       %20 = arith.constant 30 : i64
// PORTS-NEXT:       %21 = arith.shrsi %17, %20 : i64
// PORTS-NEXT:       %22 = arith.addi %21, %19 : i64
// PORTS-NEXT:       %23 = arith.shrsi %22, %19 : i64
// PORTS-NEXT:       %24 = arith.constant -128 : i64
// PORTS-NEXT:       %25 = arith.maxsi %23, %24 : i64
// PORTS-NEXT:       %26 = arith.constant 127 : i64
// PORTS-NEXT:       %27 = arith.minsi %25, %26 : i64
// PORTS-NEXT:       %28 = arith.trunci %27 : i64 to i8
// PORTS-NEXT:       linalg.yield %28 : i8
// PORTS-NEXT:     } -> tensor<4xi8>
// PORTS-NEXT:     %29 = tensor.empty() : tensor<4xi32>
// PORTS-NEXT:     %30 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%14, %3 : tensor<4xi8>, tensor<4xi8>) outs(%29 : tensor<4xi32>) {
// PORTS-NEXT:     ^bb0(%in_3: i8, %in_4: i8, %out_2: i32):
// PORTS-NEXT:       %31 = arith.extsi %in_4 : i8 to i32
// PORTS-NEXT:       %32 = arith.constant -3 : i32
// PORTS-NEXT:       %33 = arith.subi %31, %32 : i32
// PORTS-NEXT:       %34 = arith.extsi %in_3 : i8 to i32
// PORTS-NEXT:       %35 = arith.constant 2 : i32
// PORTS-NEXT:       %36 = arith.muli %34, %35 : i32
// PORTS-NEXT:       %37 = arith.addi %36, %33 : i32
// PORTS-NEXT:       linalg.yield %37 : i32
// PORTS-NEXT:     } -> tensor<4xi32>
// PORTS-NEXT:     %38 = tensor.empty() : tensor<4xi8>
// PORTS-NEXT:     %39 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%30 : tensor<4xi32>) outs(%38 : tensor<4xi8>) {
// PORTS-NEXT:     ^bb0(%in_5: i32, %out_3: i8):
// PORTS-NEXT:       %40 = arith.extsi %in_5 : i32 to i64
// PORTS-NEXT:       %41 = arith.constant 1073741824 : i64
// PORTS-NEXT:       %42 = arith.muli %40, %41 : i64
// PORTS-NEXT:       %43 = arith.constant 31 : i64
// PORTS-NEXT:       %44 = arith.constant 1 : i64
// PORTS-NEXT:       %45 = arith.constant 30 : i64
// PORTS-NEXT:       %46 = arith.shrsi %42, %45 : i64
// PORTS-NEXT:       %47 = arith.addi %46, %44 : i64
// PORTS-NEXT:       %48 = arith.shrsi %47, %44 : i64
// PORTS-NEXT:       %49 = arith.constant -128 : i64
// PORTS-NEXT:       %50 = arith.maxsi %48, %49 : i64
// PORTS-NEXT:       %51 = arith.constant 127 : i64
// PORTS-NEXT:       %52 = arith.minsi %50, %51 : i64
// PORTS-NEXT:       %53 = arith.trunci %52 : i64 to i8
// PORTS-NEXT:       linalg.yield %53 : i8
// PORTS-NEXT:     } -> tensor<4xi8>
// PORTS-NEXT:     %54 = quant.scast %39 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.000000e-01>>
// PORTS-NEXT:     %55 = quant.dcast %54 : tensor<4x!quant.uniform<i8:f32, 1.000000e-01>> to tensor<4xf32>
// PORTS-NEXT:     func.return %55 : tensor<4xf32>
// PORTS-NEXT:   }
// PORTS-NEXT: }
