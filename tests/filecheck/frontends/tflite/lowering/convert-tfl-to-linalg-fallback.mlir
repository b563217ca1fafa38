// RUN: xdsl-opt %s -p 'convert-tfl-to-linalg,canonicalize,cse,strip-func-quant-types,canonicalize' | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'convert-tfl-to-linalg{fallback=off}' --verify-diagnostics | filecheck %s --check-prefix=OFF

// Division has no integer kernel: operands are dequantized, the result is quantized. No cast
// is left. The attribute says why.

func.func @div(%a: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x!quant.uniform<i8:f32, 0.125:-1>> {
  %quotient = tfl.div(%a, %b) <{fused_activation_function = "NONE"}> : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x!quant.uniform<i8:f32, 0.125:-1>>
  return %quotient : tensor<4x!quant.uniform<i8:f32, 0.125:-1>>
}

// CHECK:       builtin.module attributes {tfl.fallback = [{op = "tfl.div", name = "quotient", reason = "has no integer kernel"}]} {
// CHECK-NEXT:    func.func @div(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi8>) outs(%0 : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%in: i8, %out: f32):
// CHECK-NEXT:        %2 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:        %3 = arith.constant 3.000000e+00 : f32
// CHECK-NEXT:        %4 = arith.sitofp %in : i8 to f32
// CHECK-NEXT:        %5 = arith.subf %4, %3 : f32
// CHECK-NEXT:        %6 = arith.mulf %5, %2 : f32
// CHECK-NEXT:        linalg.yield %6 : f32
// CHECK-NEXT:      } -> tensor<4xf32>
// CHECK-NEXT:      %7 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%b : tensor<4xi8>) outs(%0 : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: i8, %out_1: f32):
// CHECK-NEXT:        %8 = arith.constant 2.500000e-01 : f32
// CHECK-NEXT:        %9 = arith.sitofp %in_1 : i8 to f32
// CHECK-NEXT:        %10 = arith.mulf %9, %8 : f32
// CHECK-NEXT:        linalg.yield %10 : f32
// CHECK-NEXT:      } -> tensor<4xf32>
// CHECK-NEXT:      %11 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1, %7 : tensor<4xf32>, tensor<4xf32>) outs(%0 : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%in_2: f32, %in_3: f32, %out_2: f32):
// CHECK-NEXT:        %12 = arith.divf %in_2, %in_3 : f32
// CHECK-NEXT:        linalg.yield %12 : f32
// CHECK-NEXT:      } -> tensor<4xf32>
// CHECK-NEXT:      %13 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:      %quotient = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%11 : tensor<4xf32>) outs(%13 : tensor<4xi8>) {
// CHECK-NEXT:      ^bb0(%in_4: f32, %out_3: i8):
// CHECK-NEXT:        %14 = arith.constant 8.000000e+00 : f32
// CHECK-NEXT:        %15 = arith.constant -1.000000e+00 : f32
// CHECK-NEXT:        %16 = arith.mulf %in_4, %14 : f32
// CHECK-NEXT:        %17 = arith.addf %16, %15 : f32
// CHECK-NEXT:        %18 = math.roundeven %17 : f32
// CHECK-NEXT:        %19 = arith.constant -1.280000e+02 : f32
// CHECK-NEXT:        %20 = arith.constant 1.270000e+02 : f32
// CHECK-NEXT:        %21 = arith.maxnumf %18, %19 : f32
// CHECK-NEXT:        %22 = arith.minnumf %21, %20 : f32
// CHECK-NEXT:        %23 = arith.fptosi %22 : f32 to i32
// CHECK-NEXT:        %24 = arith.trunci %23 : i32 to i8
// CHECK-NEXT:        linalg.yield %24 : i8
// CHECK-NEXT:      } -> tensor<4xi8>
// CHECK-NEXT:      func.return %quotient : tensor<4xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// OFF: 'tfl.div' op has no integer kernel; use 'fallback=on' to compute it with floats
