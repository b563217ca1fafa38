// RUN: xdsl-opt %s -p lower-quant-ops | mlir-opt | filecheck %s --match-full-lines
// RUN: mlir-opt --pass-pipeline='builtin.module(func.func(lower-quant-ops))' < %s | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p lower-quant-ops | mlir-opt | xdsl-opt | mlir-opt | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even fuse=true runtime-checks=true},strip-func-quant-types,canonicalize' | mlir-opt | xdsl-opt | filecheck %s --check-prefix=STRIP --match-full-lines

// Both lower to the same module, and xDSL reads it again.

!layer = !quant.uniform<i8<-8:7>:f32, 2.0:10>
!axis = !quant.uniform<u8:f32:1, {2.0, 0.1:200}>
!channel = !quant.uniform<i8:f16:{1:2}, {{0.1:1, 2.0}}>

func.func @quantize(
  %x: f32, %a: tensor<?x2xf32>, %c: tensor<2x4xf16>, %u: tensor<*xf32>
) -> (!layer, tensor<?x2x!layer>, tensor<?x2x!axis>, tensor<2x4x!channel>, tensor<*x!layer>, tensor<*x!axis>) {
  %0 = quant.qcast %x : f32 to !layer
  %1 = quant.qcast %a : tensor<?x2xf32> to tensor<?x2x!layer>
  %2 = quant.qcast %a : tensor<?x2xf32> to tensor<?x2x!axis>
  %3 = quant.qcast %c : tensor<2x4xf16> to tensor<2x4x!channel>
  %4 = quant.qcast %u : tensor<*xf32> to tensor<*x!layer>
  %5 = quant.qcast %u : tensor<*xf32> to tensor<*x!axis>
  return %0, %1, %2, %3, %4, %5 : !layer, tensor<?x2x!layer>, tensor<?x2x!axis>, tensor<2x4x!channel>, tensor<*x!layer>, tensor<*x!axis>
}

// CHECK:       #map = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-NEXT:  #map1 = affine_map<(d0, d1) -> (d1)>
// CHECK-NEXT:  #map2 = affine_map<(d0, d1) -> (0, d1 floordiv 2)>
// CHECK-NEXT:  #map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-NEXT:  #map4 = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-NEXT:  module {
// CHECK-NEXT:    func.func @quantize(%arg0: f32, %arg1: tensor<?x2xf32>, %arg2: tensor<2x4xf16>, %arg3: tensor<*xf32>) -> (!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>, tensor<?x2x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<?x2x!quant.uniform<u8:f32:1, {2.000000e+00,1.000000e-01:200}>>, tensor<2x4x!quant.uniform<i8:f16:{1:2}, {{{{}}9.997550e-02:1, 2.000000e+00}}>>, tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<*x!quant.uniform<u8:f32:1, {2.000000e+00,1.000000e-01:200}>>) {
// CHECK-NEXT:      %cst = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %c10_i8 = arith.constant 10 : i8
// CHECK-NEXT:      %0 = arith.divf %arg0, %cst : f32
// CHECK-NEXT:      %1 = arith.sitofp %c10_i8 : i8 to f32
// CHECK-NEXT:      %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:      %3 = arith.fptosi %2 : f32 to i8
// CHECK-NEXT:      %c-8_i8 = arith.constant -8 : i8
// CHECK-NEXT:      %c7_i8 = arith.constant 7 : i8
// CHECK-NEXT:      %4 = arith.maxsi %3, %c-8_i8 : i8
// CHECK-NEXT:      %5 = arith.minsi %4, %c7_i8 : i8
// CHECK-NEXT:      %6 = quant.scast %5 : i8 to !quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>
// CHECK-NEXT:      %cst_0 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %c10_i8_1 = arith.constant 10 : i8
// CHECK-NEXT:      %c0 = arith.constant 0 : index
// CHECK-NEXT:      %dim = tensor.dim %arg1, %c0 : tensor<?x2xf32>
// CHECK-NEXT:      %splat = tensor.splat %cst_0[%dim] : tensor<?x2xf32>
// CHECK-NEXT:      %7 = arith.divf %arg1, %splat : tensor<?x2xf32>
// CHECK-NEXT:      %splat_2 = tensor.splat %c10_i8_1[%dim] : tensor<?x2xi8>
// CHECK-NEXT:      %8 = arith.sitofp %splat_2 : tensor<?x2xi8> to tensor<?x2xf32>
// CHECK-NEXT:      %9 = arith.addf %7, %8 : tensor<?x2xf32>
// CHECK-NEXT:      %10 = arith.fptosi %9 : tensor<?x2xf32> to tensor<?x2xi8>
// CHECK-NEXT:      %c-8_i8_3 = arith.constant -8 : i8
// CHECK-NEXT:      %c7_i8_4 = arith.constant 7 : i8
// CHECK-NEXT:      %splat_5 = tensor.splat %c-8_i8_3[%dim] : tensor<?x2xi8>
// CHECK-NEXT:      %splat_6 = tensor.splat %c7_i8_4[%dim] : tensor<?x2xi8>
// CHECK-NEXT:      %11 = arith.maxsi %10, %splat_5 : tensor<?x2xi8>
// CHECK-NEXT:      %12 = arith.minsi %11, %splat_6 : tensor<?x2xi8>
// CHECK-NEXT:      %13 = quant.scast %12 : tensor<?x2xi8> to tensor<?x2x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>
// CHECK-NEXT:      %cst_7 = arith.constant dense<[2.000000e+00, 1.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:      %cst_8 = arith.constant dense<[0, -56]> : tensor<2xi8>
// CHECK-NEXT:      %c0_9 = arith.constant 0 : index
// CHECK-NEXT:      %dim_10 = tensor.dim %arg1, %c0_9 : tensor<?x2xf32>
// CHECK-NEXT:      %14 = tensor.empty(%dim_10) : tensor<?x2xi8>
// CHECK-NEXT:      %15 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1, %cst_7, %cst_8 : tensor<?x2xf32>, tensor<2xf32>, tensor<2xi8>) outs(%14 : tensor<?x2xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %in_36: f32, %in_37: i8, %out: i8):
// CHECK-NEXT:        %35 = arith.divf %in, %in_36 : f32
// CHECK-NEXT:        %36 = arith.uitofp %in_37 : i8 to f32
// CHECK-NEXT:        %37 = arith.addf %35, %36 : f32
// CHECK-NEXT:        %38 = arith.fptoui %37 : f32 to i8
// CHECK-NEXT:        linalg.yield %38 : i8
// CHECK-NEXT:      } -> tensor<?x2xi8>
// CHECK-NEXT:      %16 = quant.scast %15 : tensor<?x2xi8> to tensor<?x2x!quant.uniform<u8:f32:1, {2.000000e+00,1.000000e-01:200}>>
// CHECK-NEXT:      %cst_11 = arith.constant dense<{{\[\[}}9.997550e-02, 2.000000e+00]]> : tensor<1x2xf16>
// CHECK-NEXT:      %cst_12 = arith.constant dense<{{\[\[}}1, 0]]> : tensor<1x2xi8>
// CHECK-NEXT:      %17 = tensor.empty() : tensor<2x4xi8>
// CHECK-NEXT:      %18 = linalg.generic {indexing_maps = [#map, #map2, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2, %cst_11, %cst_12 : tensor<2x4xf16>, tensor<1x2xf16>, tensor<1x2xi8>) outs(%17 : tensor<2x4xi8>) {
// CHECK-NEXT:      ^bb0(%in: f16, %in_36: f16, %in_37: i8, %out: i8):
// CHECK-NEXT:        %35 = arith.divf %in, %in_36 : f16
// CHECK-NEXT:        %36 = arith.sitofp %in_37 : i8 to f16
// CHECK-NEXT:        %37 = arith.addf %35, %36 : f16
// CHECK-NEXT:        %38 = arith.fptosi %37 : f16 to i8
// CHECK-NEXT:        linalg.yield %38 : i8
// CHECK-NEXT:      } -> tensor<2x4xi8>
// CHECK-NEXT:      %19 = quant.scast %18 : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f16:{1:2}, {{{{}}9.997550e-02:1, 2.000000e+00}}>>
// CHECK-NEXT:      %20 = shape.shape_of %arg3 : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:      %21 = shape.num_elements %20 : tensor<?xindex> -> index
// CHECK-NEXT:      %from_elements = tensor.from_elements %21 : tensor<1xindex>
// CHECK-NEXT:      %reshape = tensor.reshape %arg3(%from_elements) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// CHECK-NEXT:      %cst_13 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %c10_i8_14 = arith.constant 10 : i8
// CHECK-NEXT:      %c0_15 = arith.constant 0 : index
// CHECK-NEXT:      %dim_16 = tensor.dim %reshape, %c0_15 : tensor<?xf32>
// CHECK-NEXT:      %splat_17 = tensor.splat %cst_13[%dim_16] : tensor<?xf32>
// CHECK-NEXT:      %22 = arith.divf %reshape, %splat_17 : tensor<?xf32>
// CHECK-NEXT:      %splat_18 = tensor.splat %c10_i8_14[%dim_16] : tensor<?xi8>
// CHECK-NEXT:      %23 = arith.sitofp %splat_18 : tensor<?xi8> to tensor<?xf32>
// CHECK-NEXT:      %24 = arith.addf %22, %23 : tensor<?xf32>
// CHECK-NEXT:      %25 = arith.fptosi %24 : tensor<?xf32> to tensor<?xi8>
// CHECK-NEXT:      %c-8_i8_19 = arith.constant -8 : i8
// CHECK-NEXT:      %c7_i8_20 = arith.constant 7 : i8
// CHECK-NEXT:      %splat_21 = tensor.splat %c-8_i8_19[%dim_16] : tensor<?xi8>
// CHECK-NEXT:      %splat_22 = tensor.splat %c7_i8_20[%dim_16] : tensor<?xi8>
// CHECK-NEXT:      %26 = arith.maxsi %25, %splat_21 : tensor<?xi8>
// CHECK-NEXT:      %27 = arith.minsi %26, %splat_22 : tensor<?xi8>
// CHECK-NEXT:      %reshape_23 = tensor.reshape %27(%20) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:      %28 = quant.scast %reshape_23 : tensor<*xi8> to tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>
// CHECK-NEXT:      %29 = shape.shape_of %arg3 : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:      %c1 = arith.constant 1 : index
// CHECK-NEXT:      %c2 = arith.constant 2 : index
// CHECK-NEXT:      %head, %tail = "shape.split_at"(%29, %c1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %30 = shape.num_elements %head : tensor<?xindex> -> index
// CHECK-NEXT:      %head_24, %tail_25 = "shape.split_at"(%29, %c2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %31 = shape.num_elements %tail_25 : tensor<?xindex> -> index
// CHECK-NEXT:      %c2_26 = arith.constant 2 : index
// CHECK-NEXT:      %from_elements_27 = tensor.from_elements %30, %c2_26, %31 : tensor<3xindex>
// CHECK-NEXT:      %reshape_28 = tensor.reshape %arg3(%from_elements_27) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x2x?xf32>
// CHECK-NEXT:      %cst_29 = arith.constant dense<[2.000000e+00, 1.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:      %cst_30 = arith.constant dense<[0, -56]> : tensor<2xi8>
// CHECK-NEXT:      %c0_31 = arith.constant 0 : index
// CHECK-NEXT:      %dim_32 = tensor.dim %reshape_28, %c0_31 : tensor<?x2x?xf32>
// CHECK-NEXT:      %c2_33 = arith.constant 2 : index
// CHECK-NEXT:      %dim_34 = tensor.dim %reshape_28, %c2_33 : tensor<?x2x?xf32>
// CHECK-NEXT:      %32 = tensor.empty(%dim_32, %dim_34) : tensor<?x2x?xi8>
// CHECK-NEXT:      %33 = linalg.generic {indexing_maps = [#map3, #map4, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%reshape_28, %cst_29, %cst_30 : tensor<?x2x?xf32>, tensor<2xf32>, tensor<2xi8>) outs(%32 : tensor<?x2x?xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %in_36: f32, %in_37: i8, %out: i8):
// CHECK-NEXT:        %35 = arith.divf %in, %in_36 : f32
// CHECK-NEXT:        %36 = arith.uitofp %in_37 : i8 to f32
// CHECK-NEXT:        %37 = arith.addf %35, %36 : f32
// CHECK-NEXT:        %38 = arith.fptoui %37 : f32 to i8
// CHECK-NEXT:        linalg.yield %38 : i8
// CHECK-NEXT:      } -> tensor<?x2x?xi8>
// CHECK-NEXT:      %reshape_35 = tensor.reshape %33(%29) : (tensor<?x2x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:      %34 = quant.scast %reshape_35 : tensor<*xi8> to tensor<*x!quant.uniform<u8:f32:1, {2.000000e+00,1.000000e-01:200}>>
// CHECK-NEXT:      return %6, %13, %16, %19, %28, %34 : !quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>, tensor<?x2x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<?x2x!quant.uniform<u8:f32:1, {2.000000e+00,1.000000e-01:200}>>, tensor<2x4x!quant.uniform<i8:f16:{1:2}, {{{{}}9.997550e-02:1, 2.000000e+00}}>>, tensor<*x!quant.uniform<i8<-8:7>:f32, 2.000000e+00:10>>, tensor<*x!quant.uniform<u8:f32:1, {2.000000e+00,1.000000e-01:200}>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// STRIP:       builtin.module {
// STRIP-NEXT:    func.func @quantize(%arg0: f32, %arg1: tensor<?x2xf32>, %arg2: tensor<2x4xf16>, %arg3: tensor<*xf32>) -> (i8, tensor<?x2xi8>, tensor<?x2xi8>, tensor<2x4xi8>, tensor<*xi8>, tensor<*xi8>) {
// STRIP-NEXT:      %cst = arith.constant 5.000000e-01 : f32
// STRIP-NEXT:      %cst_1 = arith.constant 1.000000e+01 : f32
// STRIP-NEXT:      %0 = arith.mulf %arg0, %cst : f32
// STRIP-NEXT:      %1 = arith.addf %0, %cst_1 : f32
// STRIP-NEXT:      %2 = math.roundeven %1 : f32
// STRIP-NEXT:      %cst_2 = arith.constant -8.000000e+00 : f32
// STRIP-NEXT:      %cst_3 = arith.constant 7.000000e+00 : f32
// STRIP-NEXT:      %3 = arith.maxnumf %2, %cst_2 : f32
// STRIP-NEXT:      %4 = arith.minnumf %3, %cst_3 : f32
// STRIP-NEXT:      %5 = arith.fptosi %4 : f32 to i32
// STRIP-NEXT:      %6 = arith.trunci %5 : i32 to i8
// STRIP-NEXT:      %c0 = arith.constant 0 : index
// STRIP-NEXT:      %dim = tensor.dim %arg1, %c0 : tensor<?x2xf32>
// STRIP-NEXT:      %7 = tensor.empty(%dim) : tensor<?x2xi8>
// STRIP-NEXT:      %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<?x2xf32>) outs(%7 : tensor<?x2xi8>) {
// STRIP-NEXT:      ^bb0(%in: f32, %out: i8):
// STRIP-NEXT:        %cst_4 = arith.constant 5.000000e-01 : f32
// STRIP-NEXT:        %cst_5 = arith.constant 1.000000e+01 : f32
// STRIP-NEXT:        %9 = arith.mulf %in, %cst_4 : f32
// STRIP-NEXT:        %10 = arith.addf %9, %cst_5 : f32
// STRIP-NEXT:        %11 = math.roundeven %10 : f32
// STRIP-NEXT:        %cst_6 = arith.constant -8.000000e+00 : f32
// STRIP-NEXT:        %cst_7 = arith.constant 7.000000e+00 : f32
// STRIP-NEXT:        %12 = arith.maxnumf %11, %cst_6 : f32
// STRIP-NEXT:        %13 = arith.minnumf %12, %cst_7 : f32
// STRIP-NEXT:        %14 = arith.fptosi %13 : f32 to i32
// STRIP-NEXT:        %15 = arith.trunci %14 : i32 to i8
// STRIP-NEXT:        linalg.yield %15 : i8
// STRIP-NEXT:      } -> tensor<?x2xi8>
// STRIP-NEXT:      %cst_8 = arith.constant dense<[2.000000e+00, 1.000000e-01]> : tensor<2xf32>
// STRIP-NEXT:      %cst_9 = arith.constant dense<[0.000000e+00, 2.000000e+02]> : tensor<2xf32>
// STRIP-NEXT:      %c0_1 = arith.constant 0 : index
// STRIP-NEXT:      %dim_1 = tensor.dim %arg1, %c0_1 : tensor<?x2xf32>
// STRIP-NEXT:      %16 = tensor.empty(%dim_1) : tensor<?x2xi8>
// STRIP-NEXT:      %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg1, %cst_8, %cst_9 : tensor<?x2xf32>, tensor<2xf32>, tensor<2xf32>) outs(%16 : tensor<?x2xi8>) {
// STRIP-NEXT:      ^bb0(%in_1: f32, %in_2: f32, %in_3: f32, %out_1: i8):
// STRIP-NEXT:        %18 = arith.divf %in_1, %in_2 : f32
// STRIP-NEXT:        %19 = arith.addf %18, %in_3 : f32
// STRIP-NEXT:        %20 = math.roundeven %19 : f32
// STRIP-NEXT:        %cst_10 = arith.constant 0.000000e+00 : f32
// STRIP-NEXT:        %cst_11 = arith.constant 2.550000e+02 : f32
// STRIP-NEXT:        %21 = arith.maxnumf %20, %cst_10 : f32
// STRIP-NEXT:        %22 = arith.minnumf %21, %cst_11 : f32
// STRIP-NEXT:        %23 = arith.fptosi %22 : f32 to i32
// STRIP-NEXT:        %24 = arith.trunci %23 : i32 to i8
// STRIP-NEXT:        linalg.yield %24 : i8
// STRIP-NEXT:      } -> tensor<?x2xi8>
// STRIP-NEXT:      %cst_12 = arith.constant dense<{{\[\[}}9.997560e-02, 2.000000e+00]]> : tensor<1x2xf16>
// STRIP-NEXT:      %cst_13 = arith.constant dense<{{\[\[}}1.000000e+00, 0.000000e+00]]> : tensor<1x2xf16>
// STRIP-NEXT:      %25 = tensor.empty() : tensor<2x4xi8>
// STRIP-NEXT:      %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg2, %cst_12, %cst_13 : tensor<2x4xf16>, tensor<1x2xf16>, tensor<1x2xf16>) outs(%25 : tensor<2x4xi8>) {
// STRIP-NEXT:      ^bb0(%in_4: f16, %in_5: f16, %in_6: f16, %out_2: i8):
// STRIP-NEXT:        %27 = arith.divf %in_4, %in_5 : f16
// STRIP-NEXT:        %28 = arith.addf %27, %in_6 : f16
// STRIP-NEXT:        %29 = math.roundeven %28 : f16
// STRIP-NEXT:        %cst_14 = arith.constant -1.280000e+02 : f16
// STRIP-NEXT:        %cst_15 = arith.constant 1.270000e+02 : f16
// STRIP-NEXT:        %30 = arith.maxnumf %29, %cst_14 : f16
// STRIP-NEXT:        %31 = arith.minnumf %30, %cst_15 : f16
// STRIP-NEXT:        %32 = arith.fptosi %31 : f16 to i32
// STRIP-NEXT:        %33 = arith.trunci %32 : i32 to i8
// STRIP-NEXT:        linalg.yield %33 : i8
// STRIP-NEXT:      } -> tensor<2x4xi8>
// STRIP-NEXT:      %34 = shape.shape_of %arg3 : tensor<*xf32> -> tensor<?xindex>
// STRIP-NEXT:      %35 = shape.num_elements %34 : tensor<?xindex> -> index
// STRIP-NEXT:      %from_elements = tensor.from_elements %35 : tensor<1xindex>
// STRIP-NEXT:      %reshape = tensor.reshape %arg3(%from_elements) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// STRIP-NEXT:      %36 = tensor.empty(%35) : tensor<?xi8>
// STRIP-NEXT:      %37 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%reshape : tensor<?xf32>) outs(%36 : tensor<?xi8>) {
// STRIP-NEXT:      ^bb0(%in_7: f32, %out_3: i8):
// STRIP-NEXT:        %cst_16 = arith.constant 5.000000e-01 : f32
// STRIP-NEXT:        %cst_17 = arith.constant 1.000000e+01 : f32
// STRIP-NEXT:        %38 = arith.mulf %in_7, %cst_16 : f32
// STRIP-NEXT:        %39 = arith.addf %38, %cst_17 : f32
// STRIP-NEXT:        %40 = math.roundeven %39 : f32
// STRIP-NEXT:        %cst_18 = arith.constant -8.000000e+00 : f32
// STRIP-NEXT:        %cst_19 = arith.constant 7.000000e+00 : f32
// STRIP-NEXT:        %41 = arith.maxnumf %40, %cst_18 : f32
// STRIP-NEXT:        %42 = arith.minnumf %41, %cst_19 : f32
// STRIP-NEXT:        %43 = arith.fptosi %42 : f32 to i32
// STRIP-NEXT:        %44 = arith.trunci %43 : i32 to i8
// STRIP-NEXT:        linalg.yield %44 : i8
// STRIP-NEXT:      } -> tensor<?xi8>
// STRIP-NEXT:      %reshape_1 = tensor.reshape %37(%34) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// STRIP-NEXT:      %45 = shape.shape_of %arg3 : tensor<*xf32> -> tensor<?xindex>
// STRIP-NEXT:      %c0_2 = arith.constant 0 : index
// STRIP-NEXT:      %dim_2 = tensor.dim %45, %c0_2 : tensor<?xindex>
// STRIP-NEXT:      %c1 = arith.constant 1 : index
// STRIP-NEXT:      %46 = arith.cmpi ugt, %dim_2, %c1 : index
// STRIP-NEXT:      cf.assert %46, "rank must be greater than 1: the last quantized dimension"
// STRIP-NEXT:      %c1_1 = arith.constant 1 : index
// STRIP-NEXT:      %extracted = tensor.extract %45[%c1_1] : tensor<?xindex>
// STRIP-NEXT:      %c2 = arith.constant 2 : index
// STRIP-NEXT:      %47 = arith.cmpi eq, %extracted, %c2 : index
// STRIP-NEXT:      cf.assert %47, "size of dimension 1 must be 2: the number of scales"
// STRIP-NEXT:      %c1_2 = arith.constant 1 : index
// STRIP-NEXT:      %c2_1 = arith.constant 2 : index
// STRIP-NEXT:      %head, %tail = "shape.split_at"(%45, %c1_2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// STRIP-NEXT:      %48 = shape.num_elements %head : tensor<?xindex> -> index
// STRIP-NEXT:      %head_1, %tail_1 = "shape.split_at"(%45, %c2_1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// STRIP-NEXT:      %49 = shape.num_elements %tail_1 : tensor<?xindex> -> index
// STRIP-NEXT:      %c2_2 = arith.constant 2 : index
// STRIP-NEXT:      %from_elements_1 = tensor.from_elements %48, %c2_2, %49 : tensor<3xindex>
// STRIP-NEXT:      %reshape_2 = tensor.reshape %arg3(%from_elements_1) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x2x?xf32>
// STRIP-NEXT:      %cst_20 = arith.constant dense<[2.000000e+00, 1.000000e-01]> : tensor<2xf32>
// STRIP-NEXT:      %cst_21 = arith.constant dense<[0.000000e+00, 2.000000e+02]> : tensor<2xf32>
// STRIP-NEXT:      %50 = tensor.empty(%48, %49) : tensor<?x2x?xi8>
// STRIP-NEXT:      %51 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%reshape_2, %cst_20, %cst_21 : tensor<?x2x?xf32>, tensor<2xf32>, tensor<2xf32>) outs(%50 : tensor<?x2x?xi8>) {
// STRIP-NEXT:      ^bb0(%in_8: f32, %in_9: f32, %in_10: f32, %out_4: i8):
// STRIP-NEXT:        %52 = arith.divf %in_8, %in_9 : f32
// STRIP-NEXT:        %53 = arith.addf %52, %in_10 : f32
// STRIP-NEXT:        %54 = math.roundeven %53 : f32
// STRIP-NEXT:        %cst_22 = arith.constant 0.000000e+00 : f32
// STRIP-NEXT:        %cst_23 = arith.constant 2.550000e+02 : f32
// STRIP-NEXT:        %55 = arith.maxnumf %54, %cst_22 : f32
// STRIP-NEXT:        %56 = arith.minnumf %55, %cst_23 : f32
// STRIP-NEXT:        %57 = arith.fptosi %56 : f32 to i32
// STRIP-NEXT:        %58 = arith.trunci %57 : i32 to i8
// STRIP-NEXT:        linalg.yield %58 : i8
// STRIP-NEXT:      } -> tensor<?x2x?xi8>
// STRIP-NEXT:      %reshape_3 = tensor.reshape %51(%45) : (tensor<?x2x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// STRIP-NEXT:      func.return %6, %8, %17, %26, %reshape_1, %reshape_3 : i8, tensor<?x2xi8>, tensor<?x2xi8>, tensor<2x4xi8>, tensor<*xi8>, tensor<*xi8>
// STRIP-NEXT:    }
// STRIP-NEXT:  }
