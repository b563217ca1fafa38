// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even zero-point-order=after-rounding}' | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{zero-point-order=after-rounding}' --verify-diagnostics | filecheck %s --check-prefix=TRUNCATE --match-full-lines

// TRUNCATE:      unsupported zero point order 'after-rounding' for rounding mode 'truncate'; use 'nearest-even' or 'nearest-away'

func.func @scalar(%x: f32) -> !quant.uniform<i8:f32, 0.1:10> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.1:10>
  return %0 : !quant.uniform<i8:f32, 0.1:10>
}

func.func @per_axis(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32:0, {0.5:3, 0.1}>> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32:0, {0.5:3, 0.1}>>
  return %0 : tensor<2x!quant.uniform<u8:f32:0, {0.5:3, 0.1}>>
}
func.func @no_zero_point(%x: f32) -> !quant.uniform<i8:f32, 0.1> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.1>
  return %0 : !quant.uniform<i8:f32, 0.1>
}

!blocks = !quant.block_scaled<u4:f16:{0:2}, scales = dense<[0.5, 0.0]> : tensor<2xf16>, zero_points = dense<[1, 8]> : tensor<2xi8>, offsets = dense<[0.0, -1.0]> : tensor<2xf16>>
func.func @blocks(%x: tensor<4xf16>) -> tensor<4x!blocks> {
  %0 = quant.qcast %x : tensor<4xf16> to tensor<4x!blocks>
  return %0 : tensor<4x!blocks>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @scalar(%x: f32) -> !quant.uniform<i8:f32, 1.000000e-01:10> {
// CHECK-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// CHECK-NEXT:      %1 = arith.constant 1.000000e+01 : f32
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = math.roundeven %2 : f32
// CHECK-NEXT:      %4 = arith.addf %3, %1 : f32
// CHECK-NEXT:      %5 = arith.constant -1.280000e+02 : f32
// CHECK-NEXT:      %6 = arith.constant 1.270000e+02 : f32
// CHECK-NEXT:      %7 = arith.maxnumf %4, %5 : f32
// CHECK-NEXT:      %8 = arith.minnumf %7, %6 : f32
// CHECK-NEXT:      %9 = arith.fptosi %8 : f32 to i32
// CHECK-NEXT:      %10 = arith.trunci %9 : i32 to i8
// CHECK-NEXT:      %11 = quant.scast %10 : i8 to !quant.uniform<i8:f32, 1.000000e-01:10>
// CHECK-NEXT:      func.return %11 : !quant.uniform<i8:f32, 1.000000e-01:10>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @per_axis(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32:0, {5.000000e-01:3,1.000000e-01}>> {
// CHECK-NEXT:      %0 = arith.constant dense<[5.000000e-01, 1.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:      %1 = arith.constant dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<2xi8>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %0, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) outs(%2 : tensor<2xi8>) {
// CHECK-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: f32, %out: i8):
// CHECK-NEXT:        %4 = arith.divf %in, %scale : f32
// CHECK-NEXT:        %5 = math.roundeven %4 : f32
// CHECK-NEXT:        %6 = arith.addf %5, %zero_point : f32
// CHECK-NEXT:        %7 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %8 = arith.constant 2.550000e+02 : f32
// CHECK-NEXT:        %9 = arith.maxnumf %6, %7 : f32
// CHECK-NEXT:        %10 = arith.minnumf %9, %8 : f32
// CHECK-NEXT:        %11 = arith.fptosi %10 : f32 to i32
// CHECK-NEXT:        %12 = arith.trunci %11 : i32 to i8
// CHECK-NEXT:        linalg.yield %12 : i8
// CHECK-NEXT:      } -> tensor<2xi8>
// CHECK-NEXT:      %13 = quant.scast %3 : tensor<2xi8> to tensor<2x!quant.uniform<u8:f32:0, {5.000000e-01:3,1.000000e-01}>>
// CHECK-NEXT:      func.return %13 : tensor<2x!quant.uniform<u8:f32:0, {5.000000e-01:3,1.000000e-01}>>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @no_zero_point(%x: f32) -> !quant.uniform<i8:f32, 1.000000e-01> {
// CHECK-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// CHECK-NEXT:      %1 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %2 = math.roundeven %1 : f32
// CHECK-NEXT:      %3 = arith.constant -1.280000e+02 : f32
// CHECK-NEXT:      %4 = arith.constant 1.270000e+02 : f32
// CHECK-NEXT:      %5 = arith.maxnumf %2, %3 : f32
// CHECK-NEXT:      %6 = arith.minnumf %5, %4 : f32
// CHECK-NEXT:      %7 = arith.fptosi %6 : f32 to i32
// CHECK-NEXT:      %8 = arith.trunci %7 : i32 to i8
// CHECK-NEXT:      %9 = quant.scast %8 : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// CHECK-NEXT:      func.return %9 : !quant.uniform<i8:f32, 1.000000e-01>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func @blocks(%x: tensor<4xf16>) -> tensor<4x!quant.block_scaled<u4:f16:{0:2}, scales = dense<[5.000000e-01, 0.000000e+00]> : tensor<2xf16>, zero_points = dense<[1, 8]> : tensor<2xi8>, offsets = dense<[0.000000e+00, -1.000000e+00]> : tensor<2xf16>>> {
// CHECK-NEXT:      %0 = arith.constant dense<[5.000000e-01, 0.000000e+00]> : tensor<2xf16>
// CHECK-NEXT:      %1 = arith.constant dense<[1.000000e+00, 8.000000e+00]> : tensor<2xf16>
// CHECK-NEXT:      %2 = arith.constant dense<[0.000000e+00, -1.000000e+00]> : tensor<2xf16>
// CHECK-NEXT:      %3 = tensor.empty() : tensor<4xi4>
// CHECK-NEXT:      %4 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ((d0 floordiv 2))>, affine_map<(d0) -> ((d0 floordiv 2))>, affine_map<(d0) -> ((d0 floordiv 2))>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %0, %1, %2 : tensor<4xf16>, tensor<2xf16>, tensor<2xf16>, tensor<2xf16>) outs(%3 : tensor<4xi4>) {
// CHECK-NEXT:      ^bb0(%in: f16, %scales: f16, %zero_points: f16, %offsets: f16, %out: i4):
// CHECK-NEXT:        %5 = arith.subf %in, %offsets : f16
// CHECK-NEXT:        %6 = arith.divf %5, %scales : f16
// CHECK-NEXT:        %7 = arith.constant 0.000000e+00 : f16
// CHECK-NEXT:        %8 = arith.cmpf oeq, %scales, %7 : f16
// CHECK-NEXT:        %9 = arith.select %8, %7, %6 : f16
// CHECK-NEXT:        %10 = math.roundeven %9 : f16
// CHECK-NEXT:        %11 = arith.addf %10, %zero_points : f16
// CHECK-NEXT:        %12 = arith.constant 0.000000e+00 : f16
// CHECK-NEXT:        %13 = arith.constant 1.500000e+01 : f16
// CHECK-NEXT:        %14 = arith.maxnumf %11, %12 : f16
// CHECK-NEXT:        %15 = arith.minnumf %14, %13 : f16
// CHECK-NEXT:        %16 = arith.fptosi %15 : f16 to i32
// CHECK-NEXT:        %17 = arith.trunci %16 : i32 to i4
// CHECK-NEXT:        linalg.yield %17 : i4
// CHECK-NEXT:      } -> tensor<4xi4>
// CHECK-NEXT:      %18 = quant.scast %4 : tensor<4xi4> to tensor<4x!quant.block_scaled<u4:f16:{0:2}, scales = dense<[5.000000e-01, 0.000000e+00]> : tensor<2xf16>, zero_points = dense<[1, 8]> : tensor<2xi8>, offsets = dense<[0.000000e+00, -1.000000e+00]> : tensor<2xf16>>>
// CHECK-NEXT:      func.return %18 : tensor<4x!quant.block_scaled<u4:f16:{0:2}, scales = dense<[5.000000e-01, 0.000000e+00]> : tensor<2xf16>, zero_points = dense<[1, 8]> : tensor<2xi8>, offsets = dense<[0.000000e+00, -1.000000e+00]> : tensor<2xf16>>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
