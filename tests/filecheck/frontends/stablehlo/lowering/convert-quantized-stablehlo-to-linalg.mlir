// RUN: xdsl-opt %s -p 'convert-quantized-stablehlo-to-linalg,strip-func-quant-types,canonicalize' | filecheck %s --match-full-lines

func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %y: tensor<4x!quant.uniform<i8:f32, 0.25>>, %z: tensor<4x!quant.uniform<i16:f32, 0.5:3>>) -> (tensor<4xi1>, tensor<4x!quant.uniform<i16:f32, 0.01>>) {
  %0 = stablehlo.compare LT, %x, %y : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4xi1>
  %1 = stablehlo.tanh %z : (tensor<4x!quant.uniform<i16:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i16:f32, 0.01>>
  return %0, %1 : tensor<4xi1>, tensor<4x!quant.uniform<i16:f32, 0.01>>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @f(%x: tensor<4xi8>, %y: tensor<4xi8>, %z: tensor<4xi16>) -> (tensor<4xi1>, tensor<4xi16>) {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xi1>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xi8>, tensor<4xi8>) outs(%0 : tensor<4xi1>) {
// CHECK-NEXT:      ^bb0(%in: i8, %in_1: i8, %out: i1):
// CHECK-NEXT:        %2 = arith.extsi %in : i8 to i32
// CHECK-NEXT:        %3 = arith.constant 3 : i32
// CHECK-NEXT:        %4 = arith.subi %2, %3 : i32
// CHECK-NEXT:        %5 = arith.constant 2 : i32
// CHECK-NEXT:        %6 = arith.muli %4, %5 : i32
// CHECK-NEXT:        %7 = arith.extsi %in_1 : i8 to i32
// CHECK-NEXT:        %8 = arith.cmpi slt, %6, %7 : i32
// CHECK-NEXT:        linalg.yield %8 : i1
// CHECK-NEXT:      } -> tensor<4xi1>
// CHECK-NEXT:      %9 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %z_f32 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%z : tensor<4xi16>) outs(%9 : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%in_2: i16, %out_1: f32):
// CHECK-NEXT:        %10 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:        %11 = arith.constant 3.000000e+00 : f32
// CHECK-NEXT:        %12 = arith.sitofp %in_2 : i16 to f32
// CHECK-NEXT:        %13 = arith.subf %12, %11 : f32
// CHECK-NEXT:        %14 = arith.mulf %13, %10 : f32
// CHECK-NEXT:        linalg.yield %14 : f32
// CHECK-NEXT:      } -> tensor<4xf32>
// CHECK-NEXT:      %15 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %16 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%z_f32 : tensor<4xf32>) outs(%15 : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%in_3: f32, %out_2: f32):
// CHECK-NEXT:        %17 = math.tanh %in_3 : f32
// CHECK-NEXT:        linalg.yield %17 : f32
// CHECK-NEXT:      } -> tensor<4xf32>
// CHECK-NEXT:      %18 = tensor.empty() : tensor<4xi16>
// CHECK-NEXT:      %19 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%16 : tensor<4xf32>) outs(%18 : tensor<4xi16>) {
// CHECK-NEXT:      ^bb0(%in_4: f32, %out_3: i16):
// CHECK-NEXT:        %20 = arith.constant 1.000000e-02 : f32
// CHECK-NEXT:        %21 = arith.divf %in_4, %20 : f32
// CHECK-NEXT:        %22 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %23 = arith.maxnumf %21, %22 : f32
// CHECK-NEXT:        %24 = arith.minnumf %21, %22 : f32
// CHECK-NEXT:        %25 = arith.addf %23, %24 : f32
// CHECK-NEXT:        %26 = math.roundeven %25 : f32
// CHECK-NEXT:        %27 = arith.constant -3.276800e+04 : f32
// CHECK-NEXT:        %28 = arith.constant 3.276700e+04 : f32
// CHECK-NEXT:        %29 = arith.maxnumf %26, %27 : f32
// CHECK-NEXT:        %30 = arith.minnumf %29, %28 : f32
// CHECK-NEXT:        %31 = arith.fptosi %30 : f32 to i32
// CHECK-NEXT:        %32 = arith.trunci %31 : i32 to i16
// CHECK-NEXT:        linalg.yield %32 : i16
// CHECK-NEXT:      } -> tensor<4xi16>
// CHECK-NEXT:      func.return %1, %19 : tensor<4xi1>, tensor<4xi16>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
