// RUN: xdsl-opt %s -p lower-quant-ops | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even runtime-checks=true}' | filecheck %s --check-prefix=EVEN --match-full-lines

// Scales and zero points that are operands, or chosen for values.

func.func @scalars(%x: f32, %s: f32, %z: i8) -> (i8, f32) {
  %q = quant.dynamic_qcast %x, %s, %z as <i8<-8:7>> : f32, f32, i8 to i8
  %y = quant.dynamic_dcast %q, %s, %z as <i8<-8:7>> : i8, f32, i8 to f32
  return %q, %y : i8, f32
}

func.func @one_scale(%x: tensor<?xf16>, %s: tensor<1xf16>, %z: tensor<1xi8>) -> tensor<?xi8> {
  %q = quant.dynamic_qcast %x, %s, %z as <u8> : tensor<?xf16>, tensor<1xf16>, tensor<1xi8> to tensor<?xi8>
  return %q : tensor<?xi8>
}

func.func @blocks(%x: tensor<2x6xf32>, %s: tensor<3xf32>, %z: tensor<3xi8>) -> tensor<2x6xi8> {
  %q = quant.dynamic_qcast %x, %s, %z {1:2} as <i8> : tensor<2x6xf32>, tensor<3xf32>, tensor<3xi8> to tensor<2x6xi8>
  return %q : tensor<2x6xi8>
}

func.func @all_dimensions(%q: tensor<2x6xi4>, %s: tensor<1x3xf32>) -> tensor<2x6xf32> {
  %y = quant.dynamic_dcast %q, %s {1:2} as <i4> : tensor<2x6xi4>, tensor<1x3xf32> to tensor<2x6xf32>
  return %y : tensor<2x6xf32>
}

func.func @unknown_size(%q: tensor<2x?xi4>, %s: tensor<1x?xf32>) -> tensor<2x?xf32> {
  %y = quant.dynamic_dcast %q, %s {1:2} as <i4> : tensor<2x?xi4>, tensor<1x?xf32> to tensor<2x?xf32>
  return %y : tensor<2x?xf32>
}

func.func @known_and_unknown(%q: tensor<2x?xi8>, %s: tensor<2x?xf32>, %z: tensor<2x?xi8>) -> tensor<2x?xf32> {
  %y = quant.dynamic_dcast %q, %s, %z {0:1, 1:2} as <i8> : tensor<2x?xi8>, tensor<2x?xf32>, tensor<2x?xi8> to tensor<2x?xf32>
  return %y : tensor<2x?xf32>
}

func.func @tokens(%q: tensor<?xi8>, %s: tensor<?xf32>) -> tensor<?xf32> {
  %y = quant.dynamic_dcast %q, %s {0:1} as <i8> : tensor<?xi8>, tensor<?xf32> to tensor<?xf32>
  return %y : tensor<?xf32>
}

func.func @one_range(%x: tensor<?xf32>) -> (f32, i8) {
  %s, %z = quant.choose_parameters %x as <u8> : tensor<?xf32> to f32, i8
  return %s, %z : f32, i8
}

func.func @ranges(%x: tensor<?x5xf16>) -> (tensor<?x2xf16>, tensor<?x2xi4>) {
  %s, %z = quant.choose_parameters %x {0:1, 1:4} as <i4> : tensor<?x5xf16> to tensor<?x2xf16>, tensor<?x2xi4>
  return %s, %z : tensor<?x2xf16>, tensor<?x2xi4>
}

func.func @symmetric(%x: tensor<?xf32>) -> tensor<?xf32> {
  %s = quant.choose_parameters %x {0:32} as <f8E4M3FN> : tensor<?xf32> to tensor<?xf32>
  return %s : tensor<?xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @scalars(%x: f32, %s: f32, %z: i8) -> (i8, f32) {
// CHECK-NEXT:      %0 = arith.sitofp %z : i8 to f32
// CHECK-NEXT:      %1 = arith.divf %x, %s : f32
// CHECK-NEXT:      %2 = arith.addf %1, %0 : f32
// CHECK-NEXT:      %3 = arith.constant -8.000000e+00 : f32
// CHECK-NEXT:      %4 = arith.constant 7.000000e+00 : f32
// CHECK-NEXT:      %5 = arith.maxnumf %2, %3 : f32
// CHECK-NEXT:      %6 = arith.minnumf %5, %4 : f32
// CHECK-NEXT:      %7 = arith.fptosi %6 : f32 to i32
// CHECK-NEXT:      %q = arith.trunci %7 : i32 to i8
// CHECK-NEXT:      %8 = arith.sitofp %z : i8 to f32
// CHECK-NEXT:      %9 = arith.sitofp %q : i8 to f32
// CHECK-NEXT:      %10 = arith.subf %9, %8 : f32
// CHECK-NEXT:      %y = arith.mulf %10, %s : f32
// CHECK-NEXT:      func.return %q, %y : i8, f32
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @one_scale(%x: tensor<?xf16>, %s: tensor<1xf16>, %z: tensor<1xi8>) -> tensor<?xi8> {
// CHECK-NEXT:      %0 = arith.constant 0 : index
// CHECK-NEXT:      %1 = tensor.extract %s[%0] : tensor<1xf16>
// CHECK-NEXT:      %2 = arith.constant 0 : index
// CHECK-NEXT:      %3 = tensor.extract %z[%2] : tensor<1xi8>
// CHECK-NEXT:      %4 = arith.uitofp %3 : i8 to f16
// CHECK-NEXT:      %5 = arith.constant 0 : index
// CHECK-NEXT:      %6 = tensor.dim %x, %5 : tensor<?xf16>
// CHECK-NEXT:      %7 = tensor.splat %1[%6] : tensor<?xf16>
// CHECK-NEXT:      %8 = arith.divf %x, %7 : tensor<?xf16>
// CHECK-NEXT:      %9 = tensor.splat %4[%6] : tensor<?xf16>
// CHECK-NEXT:      %10 = arith.addf %8, %9 : tensor<?xf16>
// CHECK-NEXT:      %11 = arith.constant 0.000000e+00 : f16
// CHECK-NEXT:      %12 = arith.constant 2.550000e+02 : f16
// CHECK-NEXT:      %13 = tensor.splat %11[%6] : tensor<?xf16>
// CHECK-NEXT:      %14 = tensor.splat %12[%6] : tensor<?xf16>
// CHECK-NEXT:      %15 = arith.maxnumf %10, %13 : tensor<?xf16>
// CHECK-NEXT:      %16 = arith.minnumf %15, %14 : tensor<?xf16>
// CHECK-NEXT:      %q = arith.fptoui %16 : tensor<?xf16> to tensor<?xi8>
// CHECK-NEXT:      func.return %q : tensor<?xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @blocks(%x: tensor<2x6xf32>, %s: tensor<3xf32>, %z: tensor<3xi8>) -> tensor<2x6xi8> {
// CHECK-NEXT:      %0 = arith.sitofp %z : tensor<3xi8> to tensor<3xf32>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<2x6xi8>
// CHECK-NEXT:      %q = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ((d1 floordiv 2))>, affine_map<(d0, d1) -> ((d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s, %0 : tensor<2x6xf32>, tensor<3xf32>, tensor<3xf32>) outs(%1 : tensor<2x6xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: f32, %out: i8):
// CHECK-NEXT:        %2 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %3 = arith.addf %2, %zero_point : f32
// CHECK-NEXT:        %4 = arith.constant -1.280000e+02 : f32
// CHECK-NEXT:        %5 = arith.constant 1.270000e+02 : f32
// CHECK-NEXT:        %6 = arith.maxnumf %3, %4 : f32
// CHECK-NEXT:        %7 = arith.minnumf %6, %5 : f32
// CHECK-NEXT:        %8 = arith.fptosi %7 : f32 to i32
// CHECK-NEXT:        %9 = arith.trunci %8 : i32 to i8
// CHECK-NEXT:        linalg.yield %9 : i8
// CHECK-NEXT:      } -> tensor<2x6xi8>
// CHECK-NEXT:      func.return %q : tensor<2x6xi8>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @all_dimensions(%q: tensor<2x6xi4>, %s: tensor<1x3xf32>) -> tensor<2x6xf32> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<2x6xf32>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%q, %s : tensor<2x6xi4>, tensor<1x3xf32>) outs(%0 : tensor<2x6xf32>) {
// CHECK-NEXT:      ^bb0(%in: i4, %scale: f32, %out: f32):
// CHECK-NEXT:        %1 = arith.sitofp %in : i4 to f32
// CHECK-NEXT:        %2 = arith.mulf %1, %scale : f32
// CHECK-NEXT:        linalg.yield %2 : f32
// CHECK-NEXT:      } -> tensor<2x6xf32>
// CHECK-NEXT:      func.return %y : tensor<2x6xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @unknown_size(%q: tensor<2x?xi4>, %s: tensor<1x?xf32>) -> tensor<2x?xf32> {
// CHECK-NEXT:      %0 = arith.constant 1 : index
// CHECK-NEXT:      %1 = tensor.dim %q, %0 : tensor<2x?xi4>
// CHECK-NEXT:      %2 = tensor.empty(%1) : tensor<2x?xf32>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%q, %s : tensor<2x?xi4>, tensor<1x?xf32>) outs(%2 : tensor<2x?xf32>) {
// CHECK-NEXT:      ^bb0(%in: i4, %scale: f32, %out: f32):
// CHECK-NEXT:        %3 = arith.sitofp %in : i4 to f32
// CHECK-NEXT:        %4 = arith.mulf %3, %scale : f32
// CHECK-NEXT:        linalg.yield %4 : f32
// CHECK-NEXT:      } -> tensor<2x?xf32>
// CHECK-NEXT:      func.return %y : tensor<2x?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @known_and_unknown(%q: tensor<2x?xi8>, %s: tensor<2x?xf32>, %z: tensor<2x?xi8>) -> tensor<2x?xf32> {
// CHECK-NEXT:      %0 = arith.sitofp %z : tensor<2x?xi8> to tensor<2x?xf32>
// CHECK-NEXT:      %1 = arith.constant 1 : index
// CHECK-NEXT:      %2 = tensor.dim %q, %1 : tensor<2x?xi8>
// CHECK-NEXT:      %3 = tensor.empty(%2) : tensor<2x?xf32>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%q, %s, %0 : tensor<2x?xi8>, tensor<2x?xf32>, tensor<2x?xf32>) outs(%3 : tensor<2x?xf32>) {
// CHECK-NEXT:      ^bb0(%in: i8, %scale: f32, %zero_point: f32, %out: f32):
// CHECK-NEXT:        %4 = arith.sitofp %in : i8 to f32
// CHECK-NEXT:        %5 = arith.subf %4, %zero_point : f32
// CHECK-NEXT:        %6 = arith.mulf %5, %scale : f32
// CHECK-NEXT:        linalg.yield %6 : f32
// CHECK-NEXT:      } -> tensor<2x?xf32>
// CHECK-NEXT:      func.return %y : tensor<2x?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @tokens(%q: tensor<?xi8>, %s: tensor<?xf32>) -> tensor<?xf32> {
// CHECK-NEXT:      %0 = arith.constant 0 : index
// CHECK-NEXT:      %1 = tensor.dim %q, %0 : tensor<?xi8>
// CHECK-NEXT:      %2 = tensor.empty(%1) : tensor<?xf32>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%q, %s : tensor<?xi8>, tensor<?xf32>) outs(%2 : tensor<?xf32>) {
// CHECK-NEXT:      ^bb0(%in: i8, %scale: f32, %out: f32):
// CHECK-NEXT:        %3 = arith.sitofp %in : i8 to f32
// CHECK-NEXT:        %4 = arith.mulf %3, %scale : f32
// CHECK-NEXT:        linalg.yield %4 : f32
// CHECK-NEXT:      } -> tensor<?xf32>
// CHECK-NEXT:      func.return %y : tensor<?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @one_range(%x: tensor<?xf32>) -> (f32, i8) {
// CHECK-NEXT:      %0 = arith.constant 0 : index
// CHECK-NEXT:      %1 = tensor.dim %x, %0 : tensor<?xf32>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<f32>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%2 : tensor<f32>) {
// CHECK-NEXT:      ^bb0(%out: f32):
// CHECK-NEXT:        %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        linalg.yield %4 : f32
// CHECK-NEXT:      } -> tensor<f32>
// CHECK-NEXT:      %5 = tensor.empty() : tensor<f32>
// CHECK-NEXT:      %6 = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%5 : tensor<f32>) {
// CHECK-NEXT:      ^bb0(%out_1: f32):
// CHECK-NEXT:        %7 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        linalg.yield %7 : f32
// CHECK-NEXT:      } -> tensor<f32>
// CHECK-NEXT:      %8, %9 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<?xf32>) outs(%3, %6 : tensor<f32>, tensor<f32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %out_2: f32, %out_3: f32):
// CHECK-NEXT:        %10 = arith.minnumf %in, %out_2 : f32
// CHECK-NEXT:        %11 = arith.maxnumf %in, %out_3 : f32
// CHECK-NEXT:        linalg.yield %10, %11 : f32, f32
// CHECK-NEXT:      } -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT:      %12 = tensor.extract %8[] : tensor<f32>
// CHECK-NEXT:      %13 = tensor.extract %9[] : tensor<f32>
// CHECK-NEXT:      %14 = arith.cmpf oeq, %12, %13 : f32
// CHECK-NEXT:      %15 = arith.subf %13, %12 : f32
// CHECK-NEXT:      %16 = arith.constant 2.550000e+02 : f32
// CHECK-NEXT:      %17 = arith.divf %15, %16 : f32
// CHECK-NEXT:      %18 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %s = arith.select %14, %18, %17 : f32
// CHECK-NEXT:      %19 = arith.divf %12, %s : f32
// CHECK-NEXT:      %20 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %21 = arith.subf %20, %19 : f32
// CHECK-NEXT:      %22 = arith.constant 2.550000e+02 : f32
// CHECK-NEXT:      %23 = arith.minnumf %21, %22 : f32
// CHECK-NEXT:      %24 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %25 = arith.maxnumf %23, %24 : f32
// CHECK-NEXT:      %26 = math.roundeven %25 : f32
// CHECK-NEXT:      %27 = arith.fptosi %26 : f32 to i32
// CHECK-NEXT:      %z = arith.trunci %27 : i32 to i8
// CHECK-NEXT:      func.return %s, %z : f32, i8
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @ranges(%x: tensor<?x5xf16>) -> (tensor<?x2xf16>, tensor<?x2xi4>) {
// CHECK-NEXT:      %0 = arith.constant 0 : index
// CHECK-NEXT:      %1 = tensor.dim %x, %0 : tensor<?x5xf16>
// CHECK-NEXT:      %2 = arith.constant 0 : index
// CHECK-NEXT:      %3 = tensor.dim %x, %2 : tensor<?x5xf16>
// CHECK-NEXT:      %4 = tensor.empty(%3) : tensor<?x8xf16>
// CHECK-NEXT:      %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%4 : tensor<?x8xf16>) {
// CHECK-NEXT:      ^bb0(%out: f16):
// CHECK-NEXT:        %6 = arith.constant 0.000000e+00 : f16
// CHECK-NEXT:        linalg.yield %6 : f16
// CHECK-NEXT:      } -> tensor<?x8xf16>
// CHECK-NEXT:      %7 = tensor.insert_slice %x into %5[0, 0] [%3, 5] [1, 1] : tensor<?x5xf16> into tensor<?x8xf16>
// CHECK-NEXT:      %8 = arith.constant 0 : index
// CHECK-NEXT:      %9 = tensor.dim %7, %8 : tensor<?x8xf16>
// CHECK-NEXT:      %10 = tensor.expand_shape %7 [[0 : i64], [1 : i64, 2 : i64]] output_shape [%9, 2, 4] : tensor<?x8xf16> into tensor<?x2x4xf16>
// CHECK-NEXT:      %11 = tensor.empty(%1) : tensor<?x2xf16>
// CHECK-NEXT:      %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%11 : tensor<?x2xf16>) {
// CHECK-NEXT:      ^bb0(%out_1: f16):
// CHECK-NEXT:        %13 = arith.constant 0.000000e+00 : f16
// CHECK-NEXT:        linalg.yield %13 : f16
// CHECK-NEXT:      } -> tensor<?x2xf16>
// CHECK-NEXT:      %14 = tensor.empty(%1) : tensor<?x2xf16>
// CHECK-NEXT:      %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%14 : tensor<?x2xf16>) {
// CHECK-NEXT:      ^bb0(%out_2: f16):
// CHECK-NEXT:        %16 = arith.constant 0.000000e+00 : f16
// CHECK-NEXT:        linalg.yield %16 : f16
// CHECK-NEXT:      } -> tensor<?x2xf16>
// CHECK-NEXT:      %17, %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%10 : tensor<?x2x4xf16>) outs(%12, %15 : tensor<?x2xf16>, tensor<?x2xf16>) {
// CHECK-NEXT:      ^bb0(%in: f16, %out_3: f16, %out_4: f16):
// CHECK-NEXT:        %19 = arith.minnumf %in, %out_3 : f16
// CHECK-NEXT:        %20 = arith.maxnumf %in, %out_4 : f16
// CHECK-NEXT:        linalg.yield %19, %20 : f16, f16
// CHECK-NEXT:      } -> (tensor<?x2xf16>, tensor<?x2xf16>)
// CHECK-NEXT:      %21 = arith.constant 0 : index
// CHECK-NEXT:      %22 = tensor.dim %17, %21 : tensor<?x2xf16>
// CHECK-NEXT:      %23 = tensor.empty(%22) : tensor<?x2xf16>
// CHECK-NEXT:      %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%17, %18 : tensor<?x2xf16>, tensor<?x2xf16>) outs(%23 : tensor<?x2xf16>) {
// CHECK-NEXT:      ^bb0(%in_1: f16, %in_2: f16, %out_5: f16):
// CHECK-NEXT:        %24 = arith.extf %in_1 : f16 to f32
// CHECK-NEXT:        %25 = arith.extf %in_2 : f16 to f32
// CHECK-NEXT:        %26 = arith.cmpf oeq, %24, %25 : f32
// CHECK-NEXT:        %27 = arith.subf %25, %24 : f32
// CHECK-NEXT:        %28 = arith.constant 1.500000e+01 : f32
// CHECK-NEXT:        %29 = arith.divf %27, %28 : f32
// CHECK-NEXT:        %30 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:        %31 = arith.select %26, %30, %29 : f32
// CHECK-NEXT:        %32 = arith.truncf %31 : f32 to f16
// CHECK-NEXT:        linalg.yield %32 : f16
// CHECK-NEXT:      } -> tensor<?x2xf16>
// CHECK-NEXT:      %33 = arith.constant 0 : index
// CHECK-NEXT:      %34 = tensor.dim %17, %33 : tensor<?x2xf16>
// CHECK-NEXT:      %35 = tensor.empty(%34) : tensor<?x2xi4>
// CHECK-NEXT:      %z = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%17, %s : tensor<?x2xf16>, tensor<?x2xf16>) outs(%35 : tensor<?x2xi4>) {
// CHECK-NEXT:      ^bb0(%in_3: f16, %in_4: f16, %out_6: i4):
// CHECK-NEXT:        %36 = arith.extf %in_3 : f16 to f32
// CHECK-NEXT:        %37 = arith.extf %in_4 : f16 to f32
// CHECK-NEXT:        %38 = arith.divf %36, %37 : f32
// CHECK-NEXT:        %39 = arith.constant -8.000000e+00 : f32
// CHECK-NEXT:        %40 = arith.subf %39, %38 : f32
// CHECK-NEXT:        %41 = arith.constant 7.000000e+00 : f32
// CHECK-NEXT:        %42 = arith.minnumf %40, %41 : f32
// CHECK-NEXT:        %43 = arith.constant -8.000000e+00 : f32
// CHECK-NEXT:        %44 = arith.maxnumf %42, %43 : f32
// CHECK-NEXT:        %45 = math.roundeven %44 : f32
// CHECK-NEXT:        %46 = arith.fptosi %45 : f32 to i32
// CHECK-NEXT:        %47 = arith.trunci %46 : i32 to i4
// CHECK-NEXT:        linalg.yield %47 : i4
// CHECK-NEXT:      } -> tensor<?x2xi4>
// CHECK-NEXT:      func.return %s, %z : tensor<?x2xf16>, tensor<?x2xi4>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @symmetric(%x: tensor<?xf32>) -> tensor<?xf32> {
// CHECK-NEXT:      %0 = arith.constant 0 : index
// CHECK-NEXT:      %1 = tensor.dim %x, %0 : tensor<?xf32>
// CHECK-NEXT:      %2 = arith.constant 31 : index
// CHECK-NEXT:      %3 = arith.addi %1, %2 : index
// CHECK-NEXT:      %4 = arith.constant 32 : index
// CHECK-NEXT:      %5 = arith.floordivsi %3, %4 : index
// CHECK-NEXT:      %6 = arith.constant 0 : index
// CHECK-NEXT:      %7 = tensor.dim %x, %6 : tensor<?xf32>
// CHECK-NEXT:      %8 = arith.constant 32 : index
// CHECK-NEXT:      %9 = arith.muli %5, %8 : index
// CHECK-NEXT:      %10 = tensor.empty(%9) : tensor<?xf32>
// CHECK-NEXT:      %11 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%10 : tensor<?xf32>) {
// CHECK-NEXT:      ^bb0(%out: f32):
// CHECK-NEXT:        %12 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        linalg.yield %12 : f32
// CHECK-NEXT:      } -> tensor<?xf32>
// CHECK-NEXT:      %13 = tensor.insert_slice %x into %11[0] [%7] [1] : tensor<?xf32> into tensor<?xf32>
// CHECK-NEXT:      %14 = arith.constant 0 : index
// CHECK-NEXT:      %15 = tensor.dim %13, %14 : tensor<?xf32>
// CHECK-NEXT:      %16 = arith.constant 32 : index
// CHECK-NEXT:      %17 = arith.floordivsi %15, %16 : index
// CHECK-NEXT:      %18 = tensor.expand_shape %13 [[0 : i64, 1 : i64]] output_shape [%17, 32] : tensor<?xf32> into tensor<?x32xf32>
// CHECK-NEXT:      %19 = tensor.empty(%5) : tensor<?xf32>
// CHECK-NEXT:      %20 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%19 : tensor<?xf32>) {
// CHECK-NEXT:      ^bb0(%out_1: f32):
// CHECK-NEXT:        %21 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        linalg.yield %21 : f32
// CHECK-NEXT:      } -> tensor<?xf32>
// CHECK-NEXT:      %22 = tensor.empty(%5) : tensor<?xf32>
// CHECK-NEXT:      %23 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%22 : tensor<?xf32>) {
// CHECK-NEXT:      ^bb0(%out_2: f32):
// CHECK-NEXT:        %24 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        linalg.yield %24 : f32
// CHECK-NEXT:      } -> tensor<?xf32>
// CHECK-NEXT:      %25, %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%18 : tensor<?x32xf32>) outs(%20, %23 : tensor<?xf32>, tensor<?xf32>) {
// CHECK-NEXT:      ^bb0(%in: f32, %out_3: f32, %out_4: f32):
// CHECK-NEXT:        %27 = arith.minnumf %in, %out_3 : f32
// CHECK-NEXT:        %28 = arith.maxnumf %in, %out_4 : f32
// CHECK-NEXT:        linalg.yield %27, %28 : f32, f32
// CHECK-NEXT:      } -> (tensor<?xf32>, tensor<?xf32>)
// CHECK-NEXT:      %29 = arith.constant 0 : index
// CHECK-NEXT:      %30 = tensor.dim %25, %29 : tensor<?xf32>
// CHECK-NEXT:      %31 = tensor.empty(%30) : tensor<?xf32>
// CHECK-NEXT:      %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%25, %26 : tensor<?xf32>, tensor<?xf32>) outs(%31 : tensor<?xf32>) {
// CHECK-NEXT:      ^bb0(%in_1: f32, %in_2: f32, %out_5: f32):
// CHECK-NEXT:        %32 = arith.negf %in_1 : f32
// CHECK-NEXT:        %33 = arith.maxnumf %in_2, %32 : f32
// CHECK-NEXT:        %34 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %35 = arith.cmpf oeq, %33, %34 : f32
// CHECK-NEXT:        %36 = arith.constant 4.480000e+02 : f32
// CHECK-NEXT:        %37 = arith.divf %33, %36 : f32
// CHECK-NEXT:        %38 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:        %39 = arith.select %35, %38, %37 : f32
// CHECK-NEXT:        linalg.yield %39 : f32
// CHECK-NEXT:      } -> tensor<?xf32>
// CHECK-NEXT:      func.return %s : tensor<?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// EVEN:       builtin.module {
// EVEN-NEXT:    func.func @scalars(%x: f32, %s: f32, %z: i8) -> (i8, f32) {
// EVEN-NEXT:      %0 = arith.sitofp %z : i8 to f32
// EVEN-NEXT:      %1 = arith.divf %x, %s : f32
// EVEN-NEXT:      %2 = arith.addf %1, %0 : f32
// EVEN-NEXT:      %3 = math.roundeven %2 : f32
// EVEN-NEXT:      %4 = arith.constant -8.000000e+00 : f32
// EVEN-NEXT:      %5 = arith.constant 7.000000e+00 : f32
// EVEN-NEXT:      %6 = arith.maxnumf %3, %4 : f32
// EVEN-NEXT:      %7 = arith.minnumf %6, %5 : f32
// EVEN-NEXT:      %8 = arith.fptosi %7 : f32 to i32
// EVEN-NEXT:      %q = arith.trunci %8 : i32 to i8
// EVEN-NEXT:      %9 = arith.sitofp %z : i8 to f32
// EVEN-NEXT:      %10 = arith.sitofp %q : i8 to f32
// EVEN-NEXT:      %11 = arith.subf %10, %9 : f32
// EVEN-NEXT:      %y = arith.mulf %11, %s : f32
// EVEN-NEXT:      func.return %q, %y : i8, f32
// EVEN-NEXT:    }
// EVEN-NEXT:    func.func @one_scale(%x: tensor<?xf16>, %s: tensor<1xf16>, %z: tensor<1xi8>) -> tensor<?xi8> {
// EVEN-NEXT:      %0 = arith.constant 0 : index
// EVEN-NEXT:      %1 = tensor.extract %s[%0] : tensor<1xf16>
// EVEN-NEXT:      %2 = arith.constant 0 : index
// EVEN-NEXT:      %3 = tensor.extract %z[%2] : tensor<1xi8>
// EVEN-NEXT:      %4 = arith.uitofp %3 : i8 to f16
// EVEN-NEXT:      %5 = arith.constant 0 : index
// EVEN-NEXT:      %6 = tensor.dim %x, %5 : tensor<?xf16>
// EVEN-NEXT:      %7 = tensor.splat %1[%6] : tensor<?xf16>
// EVEN-NEXT:      %8 = arith.divf %x, %7 : tensor<?xf16>
// EVEN-NEXT:      %9 = tensor.splat %4[%6] : tensor<?xf16>
// EVEN-NEXT:      %10 = arith.addf %8, %9 : tensor<?xf16>
// EVEN-NEXT:      %11 = math.roundeven %10 : tensor<?xf16>
// EVEN-NEXT:      %12 = arith.constant 0.000000e+00 : f16
// EVEN-NEXT:      %13 = arith.constant 2.550000e+02 : f16
// EVEN-NEXT:      %14 = tensor.splat %12[%6] : tensor<?xf16>
// EVEN-NEXT:      %15 = tensor.splat %13[%6] : tensor<?xf16>
// EVEN-NEXT:      %16 = arith.maxnumf %11, %14 : tensor<?xf16>
// EVEN-NEXT:      %17 = arith.minnumf %16, %15 : tensor<?xf16>
// EVEN-NEXT:      %q = arith.fptoui %17 : tensor<?xf16> to tensor<?xi8>
// EVEN-NEXT:      func.return %q : tensor<?xi8>
// EVEN-NEXT:    }
// EVEN-NEXT:    func.func @blocks(%x: tensor<2x6xf32>, %s: tensor<3xf32>, %z: tensor<3xi8>) -> tensor<2x6xi8> {
// EVEN-NEXT:      %0 = arith.sitofp %z : tensor<3xi8> to tensor<3xf32>
// EVEN-NEXT:      %1 = tensor.empty() : tensor<2x6xi8>
// EVEN-NEXT:      %q = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ((d1 floordiv 2))>, affine_map<(d0, d1) -> ((d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s, %0 : tensor<2x6xf32>, tensor<3xf32>, tensor<3xf32>) outs(%1 : tensor<2x6xi8>) {
// EVEN-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: f32, %out: i8):
// EVEN-NEXT:        %2 = arith.divf %in, %scale : f32
// EVEN-NEXT:        %3 = arith.addf %2, %zero_point : f32
// EVEN-NEXT:        %4 = math.roundeven %3 : f32
// EVEN-NEXT:        %5 = arith.constant -1.280000e+02 : f32
// EVEN-NEXT:        %6 = arith.constant 1.270000e+02 : f32
// EVEN-NEXT:        %7 = arith.maxnumf %4, %5 : f32
// EVEN-NEXT:        %8 = arith.minnumf %7, %6 : f32
// EVEN-NEXT:        %9 = arith.fptosi %8 : f32 to i32
// EVEN-NEXT:        %10 = arith.trunci %9 : i32 to i8
// EVEN-NEXT:        linalg.yield %10 : i8
// EVEN-NEXT:      } -> tensor<2x6xi8>
// EVEN-NEXT:      func.return %q : tensor<2x6xi8>
// EVEN-NEXT:    }
// EVEN-NEXT:    func.func @all_dimensions(%q: tensor<2x6xi4>, %s: tensor<1x3xf32>) -> tensor<2x6xf32> {
// EVEN-NEXT:      %0 = tensor.empty() : tensor<2x6xf32>
// EVEN-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%q, %s : tensor<2x6xi4>, tensor<1x3xf32>) outs(%0 : tensor<2x6xf32>) {
// EVEN-NEXT:      ^bb0(%in: i4, %scale: f32, %out: f32):
// EVEN-NEXT:        %1 = arith.sitofp %in : i4 to f32
// EVEN-NEXT:        %2 = arith.mulf %1, %scale : f32
// EVEN-NEXT:        linalg.yield %2 : f32
// EVEN-NEXT:      } -> tensor<2x6xf32>
// EVEN-NEXT:      func.return %y : tensor<2x6xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:    func.func @unknown_size(%q: tensor<2x?xi4>, %s: tensor<1x?xf32>) -> tensor<2x?xf32> {
// EVEN-NEXT:      %0 = arith.constant 1 : index
// EVEN-NEXT:      %1 = tensor.dim %q, %0 : tensor<2x?xi4>
// EVEN-NEXT:      %2 = arith.constant 1 : index
// EVEN-NEXT:      %3 = tensor.dim %s, %2 : tensor<1x?xf32>
// EVEN-NEXT:      %4 = arith.constant 2 : index
// EVEN-NEXT:      %5 = arith.ceildivui %1, %4 : index
// EVEN-NEXT:      %6 = arith.cmpi eq, %3, %5 : index
// EVEN-NEXT:      cf.assert %6, "number of scales must be the size of dimension 1 divided by 2, rounded up"
// EVEN-NEXT:      %7 = arith.constant 1 : index
// EVEN-NEXT:      %8 = tensor.dim %q, %7 : tensor<2x?xi4>
// EVEN-NEXT:      %9 = tensor.empty(%8) : tensor<2x?xf32>
// EVEN-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%q, %s : tensor<2x?xi4>, tensor<1x?xf32>) outs(%9 : tensor<2x?xf32>) {
// EVEN-NEXT:      ^bb0(%in: i4, %scale: f32, %out: f32):
// EVEN-NEXT:        %10 = arith.sitofp %in : i4 to f32
// EVEN-NEXT:        %11 = arith.mulf %10, %scale : f32
// EVEN-NEXT:        linalg.yield %11 : f32
// EVEN-NEXT:      } -> tensor<2x?xf32>
// EVEN-NEXT:      func.return %y : tensor<2x?xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:    func.func @known_and_unknown(%q: tensor<2x?xi8>, %s: tensor<2x?xf32>, %z: tensor<2x?xi8>) -> tensor<2x?xf32> {
// EVEN-NEXT:      %0 = arith.constant 1 : index
// EVEN-NEXT:      %1 = tensor.dim %q, %0 : tensor<2x?xi8>
// EVEN-NEXT:      %2 = arith.constant 1 : index
// EVEN-NEXT:      %3 = tensor.dim %s, %2 : tensor<2x?xf32>
// EVEN-NEXT:      %4 = arith.constant 2 : index
// EVEN-NEXT:      %5 = arith.ceildivui %1, %4 : index
// EVEN-NEXT:      %6 = arith.cmpi eq, %3, %5 : index
// EVEN-NEXT:      cf.assert %6, "number of scales must be the size of dimension 1 divided by 2, rounded up"
// EVEN-NEXT:      %7 = arith.constant 1 : index
// EVEN-NEXT:      %8 = tensor.dim %q, %7 : tensor<2x?xi8>
// EVEN-NEXT:      %9 = arith.constant 1 : index
// EVEN-NEXT:      %10 = tensor.dim %z, %9 : tensor<2x?xi8>
// EVEN-NEXT:      %11 = arith.constant 2 : index
// EVEN-NEXT:      %12 = arith.ceildivui %8, %11 : index
// EVEN-NEXT:      %13 = arith.cmpi eq, %10, %12 : index
// EVEN-NEXT:      cf.assert %13, "number of zero points must be the size of dimension 1 divided by 2, rounded up"
// EVEN-NEXT:      %14 = arith.sitofp %z : tensor<2x?xi8> to tensor<2x?xf32>
// EVEN-NEXT:      %15 = arith.constant 1 : index
// EVEN-NEXT:      %16 = tensor.dim %q, %15 : tensor<2x?xi8>
// EVEN-NEXT:      %17 = tensor.empty(%16) : tensor<2x?xf32>
// EVEN-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%q, %s, %14 : tensor<2x?xi8>, tensor<2x?xf32>, tensor<2x?xf32>) outs(%17 : tensor<2x?xf32>) {
// EVEN-NEXT:      ^bb0(%in: i8, %scale: f32, %zero_point: f32, %out: f32):
// EVEN-NEXT:        %18 = arith.sitofp %in : i8 to f32
// EVEN-NEXT:        %19 = arith.subf %18, %zero_point : f32
// EVEN-NEXT:        %20 = arith.mulf %19, %scale : f32
// EVEN-NEXT:        linalg.yield %20 : f32
// EVEN-NEXT:      } -> tensor<2x?xf32>
// EVEN-NEXT:      func.return %y : tensor<2x?xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:    func.func @tokens(%q: tensor<?xi8>, %s: tensor<?xf32>) -> tensor<?xf32> {
// EVEN-NEXT:      %0 = arith.constant 0 : index
// EVEN-NEXT:      %1 = tensor.dim %q, %0 : tensor<?xi8>
// EVEN-NEXT:      %2 = arith.constant 0 : index
// EVEN-NEXT:      %3 = tensor.dim %s, %2 : tensor<?xf32>
// EVEN-NEXT:      %4 = arith.cmpi eq, %3, %1 : index
// EVEN-NEXT:      cf.assert %4, "number of scales must be the size of dimension 0"
// EVEN-NEXT:      %5 = arith.constant 0 : index
// EVEN-NEXT:      %6 = tensor.dim %q, %5 : tensor<?xi8>
// EVEN-NEXT:      %7 = tensor.empty(%6) : tensor<?xf32>
// EVEN-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%q, %s : tensor<?xi8>, tensor<?xf32>) outs(%7 : tensor<?xf32>) {
// EVEN-NEXT:      ^bb0(%in: i8, %scale: f32, %out: f32):
// EVEN-NEXT:        %8 = arith.sitofp %in : i8 to f32
// EVEN-NEXT:        %9 = arith.mulf %8, %scale : f32
// EVEN-NEXT:        linalg.yield %9 : f32
// EVEN-NEXT:      } -> tensor<?xf32>
// EVEN-NEXT:      func.return %y : tensor<?xf32>
// EVEN-NEXT:    }
