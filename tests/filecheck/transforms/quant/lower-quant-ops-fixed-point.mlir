// RUN: xdsl-opt %s -p lower-quant-ops,canonicalize --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{scale-rounding=double},canonicalize' --split-input-file | filecheck %s --check-prefix=DOUBLE

// Scalars.

!a = !quant.fixed_point<i8:f32, 1717986918p-34:10>
!b = !quant.fixed_point<u8<1:254>:f32, 1073741824p-32:5>
func.func @scalar(%x: i8) -> i8 {
  %q = quant.scast %x : i8 to !a
  %e = quant.dcast %q : !a to f32
  %r = quant.qcast %e : f32 to !b
  %y = quant.scast %r : !b to i8
  return %y : i8
}

// CHECK:         func.func @scalar(%x: i8) -> i8 {
// CHECK-NEXT:      %0 = arith.constant 1717986918 : i64
// CHECK-NEXT:      %1 = arith.constant 10 : i64
// CHECK-NEXT:      %2 = arith.constant 5 : i64
// CHECK-NEXT:      %3 = arith.extsi %x : i8 to i64
// CHECK-NEXT:      %4 = arith.subi %3, %1 : i64
// CHECK-NEXT:      %5 = arith.muli %4, %0 : i64
// CHECK-NEXT:      %6 = arith.constant 1 : i64
// CHECK-NEXT:      %7 = arith.constant 31 : i64
// CHECK-NEXT:      %8 = arith.shrsi %5, %7 : i64
// CHECK-NEXT:      %9 = arith.addi %8, %6 : i64
// CHECK-NEXT:      %10 = arith.shrsi %9, %6 : i64
// CHECK-NEXT:      %11 = arith.addi %10, %2 : i64
// CHECK-NEXT:      %12 = arith.constant 1 : i64
// CHECK-NEXT:      %13 = arith.maxsi %11, %12 : i64
// CHECK-NEXT:      %14 = arith.constant 254 : i64
// CHECK-NEXT:      %15 = arith.minsi %13, %14 : i64
// CHECK-NEXT:      %y = arith.trunci %15 : i64 to i8
// CHECK-NEXT:      func.return %y : i8
// CHECK-NEXT:    }

// DOUBLE:         func.func @scalar(%x: i8) -> i8 {
// DOUBLE-NEXT:      %0 = arith.constant 1717986918 : i64
// DOUBLE-NEXT:      %1 = arith.constant 10 : i64
// DOUBLE-NEXT:      %2 = arith.constant 5 : i64
// DOUBLE-NEXT:      %3 = arith.extsi %x : i8 to i64
// DOUBLE-NEXT:      %4 = arith.subi %3, %1 : i64
// DOUBLE-NEXT:      %5 = arith.muli %4, %0 : i64
// DOUBLE-NEXT:      %6 = arith.constant 63 : i64
// DOUBLE-NEXT:      %7 = arith.shrsi %4, %6 : i64
// DOUBLE-NEXT:      %8 = arith.constant 1 : i64
// DOUBLE-NEXT:      %9 = arith.ori %7, %8 : i64
// DOUBLE-NEXT:      %10 = arith.constant 30 : i64
// DOUBLE-NEXT:      %11 = arith.shli %9, %10 : i64
// DOUBLE-NEXT:      %12 = arith.addi %5, %11 : i64
// DOUBLE-NEXT:      %13 = arith.constant 1 : i64
// DOUBLE-NEXT:      %14 = arith.constant 31 : i64
// DOUBLE-NEXT:      %15 = arith.shrsi %12, %14 : i64
// DOUBLE-NEXT:      %16 = arith.addi %15, %13 : i64
// DOUBLE-NEXT:      %17 = arith.shrsi %16, %13 : i64
// DOUBLE-NEXT:      %18 = arith.addi %17, %2 : i64
// DOUBLE-NEXT:      %19 = arith.constant 1 : i64
// DOUBLE-NEXT:      %20 = arith.maxsi %18, %19 : i64
// DOUBLE-NEXT:      %21 = arith.constant 254 : i64
// DOUBLE-NEXT:      %22 = arith.minsi %20, %21 : i64
// DOUBLE-NEXT:      %y = arith.trunci %22 : i64 to i8
// DOUBLE-NEXT:      func.return %y : i8
// DOUBLE-NEXT:    }

// -----

// A generic op for tensors. A zero point of 0 is neither subtracted nor added.

!a = !quant.fixed_point<i4:f32, 1717986918p-34>
!b = !quant.fixed_point<i16:f32, 1073741824p-40>
func.func @tensor(%x: tensor<?x2xi4>) -> tensor<?x2xi16> {
  %q = quant.scast %x : tensor<?x2xi4> to tensor<?x2x!a>
  %e = quant.dcast %q : tensor<?x2x!a> to tensor<?x2xf32>
  %r = quant.qcast %e : tensor<?x2xf32> to tensor<?x2x!b>
  %y = quant.scast %r : tensor<?x2x!b> to tensor<?x2xi16>
  return %y : tensor<?x2xi16>
}

// CHECK:         func.func @tensor(%x: tensor<?x2xi4>) -> tensor<?x2xi16> {
// CHECK-NEXT:      %0 = arith.constant 0 : index
// CHECK-NEXT:      %1 = tensor.dim %x, %0 : tensor<?x2xi4>
// CHECK-NEXT:      %2 = tensor.empty(%1) : tensor<?x2xi16>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x2xi4>) outs(%2 : tensor<?x2xi16>) {
// CHECK-NEXT:      ^bb0(%in: i4, %out: i16):
// CHECK-NEXT:        %3 = arith.constant 1717986918 : i64
// CHECK-NEXT:        %4 = arith.extsi %in : i4 to i64
// CHECK-NEXT:        %5 = arith.muli %4, %3 : i64
// CHECK-NEXT:        %6 = arith.constant 1 : i64
// CHECK-NEXT:        %7 = arith.constant 23 : i64
// CHECK-NEXT:        %8 = arith.shrsi %5, %7 : i64
// CHECK-NEXT:        %9 = arith.addi %8, %6 : i64
// CHECK-NEXT:        %10 = arith.shrsi %9, %6 : i64
// CHECK-NEXT:        %11 = arith.constant -32768 : i64
// CHECK-NEXT:        %12 = arith.maxsi %10, %11 : i64
// CHECK-NEXT:        %13 = arith.constant 32767 : i64
// CHECK-NEXT:        %14 = arith.minsi %12, %13 : i64
// CHECK-NEXT:        %15 = arith.trunci %14 : i64 to i16
// CHECK-NEXT:        linalg.yield %15 : i16
// CHECK-NEXT:      } -> tensor<?x2xi16>
// CHECK-NEXT:      func.return %y : tensor<?x2xi16>
// CHECK-NEXT:    }

// -----

// What differs between the channels is read from a tensor: here there is one shift.

!a = !quant.fixed_point<u8:f32, 1717986918p-34:10>
!b = !quant.fixed_point<i8:f32:0, {1073741824p-32:1,1610612736p-32}>
func.func @per_axis(%x: tensor<2xi8>) -> tensor<2xi8> {
  %q = quant.scast %x : tensor<2xi8> to tensor<2x!a>
  %e = quant.dcast %q : tensor<2x!a> to tensor<2xf32>
  %r = quant.qcast %e : tensor<2xf32> to tensor<2x!b>
  %y = quant.scast %r : tensor<2x!b> to tensor<2xi8>
  return %y : tensor<2xi8>
}

// CHECK:         func.func @per_axis(%x: tensor<2xi8>) -> tensor<2xi8> {
// CHECK-NEXT:      %0 = arith.constant dense<[1717986918, 1145324612]> : tensor<2xi64>
// CHECK-NEXT:      %1 = arith.constant dense<[1, 0]> : tensor<2xi64>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<2xi8>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %0, %1 : tensor<2xi8>, tensor<2xi64>, tensor<2xi64>) outs(%2 : tensor<2xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %multiplier: i64, %zero_point: i64, %out: i8):
// CHECK-NEXT:        %3 = arith.constant 10 : i64
// CHECK-NEXT:        %4 = arith.extui %in : i8 to i64
// CHECK-NEXT:        %5 = arith.subi %4, %3 : i64
// CHECK-NEXT:        %6 = arith.muli %5, %multiplier : i64
// CHECK-NEXT:        %7 = arith.constant 1 : i64
// CHECK-NEXT:        %8 = arith.constant 31 : i64
// CHECK-NEXT:        %9 = arith.shrsi %6, %8 : i64
// CHECK-NEXT:        %10 = arith.addi %9, %7 : i64
// CHECK-NEXT:        %11 = arith.shrsi %10, %7 : i64
// CHECK-NEXT:        %12 = arith.addi %11, %zero_point : i64
// CHECK-NEXT:        %13 = arith.constant -128 : i64
// CHECK-NEXT:        %14 = arith.maxsi %12, %13 : i64
// CHECK-NEXT:        %15 = arith.constant 127 : i64
// CHECK-NEXT:        %16 = arith.minsi %14, %15 : i64
// CHECK-NEXT:        %17 = arith.trunci %16 : i64 to i8
// CHECK-NEXT:        linalg.yield %17 : i8
// CHECK-NEXT:      } -> tensor<2xi8>
// CHECK-NEXT:      func.return %y : tensor<2xi8>
// CHECK-NEXT:    }

// -----

// Two dimensions.

!a = !quant.fixed_point<i8:f32:1, {1073741824p-30,1073741824p-31,1073741824p-32}>
!b = !quant.fixed_point<i8:f32:0, {1073741824p-30,1073741824p-31}>
func.func @both_axes(%x: tensor<2x3xi8>) -> tensor<2x3xi8> {
  %q = quant.scast %x : tensor<2x3xi8> to tensor<2x3x!a>
  %e = quant.dcast %q : tensor<2x3x!a> to tensor<2x3xf32>
  %r = quant.qcast %e : tensor<2x3xf32> to tensor<2x3x!b>
  %y = quant.scast %r : tensor<2x3x!b> to tensor<2x3xi8>
  return %y : tensor<2x3xi8>
}

// CHECK:         func.func @both_axes(%x: tensor<2x3xi8>) -> tensor<2x3xi8> {
// CHECK-NEXT:      %0 = arith.constant dense<[[30, 31, 32], [29, 30, 31]]> : tensor<2x3xi64>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<2x3xi8>
// CHECK-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<2x3xi8>, tensor<2x3xi64>) outs(%1 : tensor<2x3xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %shift: i64, %out: i8):
// CHECK-NEXT:        %2 = arith.constant 1073741824 : i64
// CHECK-NEXT:        %3 = arith.extsi %in : i8 to i64
// CHECK-NEXT:        %4 = arith.muli %3, %2 : i64
// CHECK-NEXT:        %5 = arith.constant 1 : i64
// CHECK-NEXT:        %6 = arith.subi %shift, %5 : i64
// CHECK-NEXT:        %7 = arith.shrsi %4, %6 : i64
// CHECK-NEXT:        %8 = arith.addi %7, %5 : i64
// CHECK-NEXT:        %9 = arith.shrsi %8, %5 : i64
// CHECK-NEXT:        %10 = arith.constant -128 : i64
// CHECK-NEXT:        %11 = arith.maxsi %9, %10 : i64
// CHECK-NEXT:        %12 = arith.constant 127 : i64
// CHECK-NEXT:        %13 = arith.minsi %11, %12 : i64
// CHECK-NEXT:        %14 = arith.trunci %13 : i64 to i8
// CHECK-NEXT:        linalg.yield %14 : i8
// CHECK-NEXT:      } -> tensor<2x3xi8>
// CHECK-NEXT:      func.return %y : tensor<2x3xi8>
// CHECK-NEXT:    }

// DOUBLE:         func.func @both_axes(%x: tensor<2x3xi8>) -> tensor<2x3xi8> {
// DOUBLE-NEXT:      %0 = arith.constant dense<[[30, 31, 32], [29, 30, 31]]> : tensor<2x3xi64>
// DOUBLE-NEXT:      %1 = tensor.empty() : tensor<2x3xi8>
// DOUBLE-NEXT:      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<2x3xi8>, tensor<2x3xi64>) outs(%1 : tensor<2x3xi8>) {
// DOUBLE-NEXT:      ^bb0(%in: i8, %shift: i64, %out: i8):
// DOUBLE-NEXT:        %2 = arith.constant 1073741824 : i64
// DOUBLE-NEXT:        %3 = arith.extsi %in : i8 to i64
// DOUBLE-NEXT:        %4 = arith.muli %3, %2 : i64
// DOUBLE-NEXT:        %5 = arith.constant 63 : i64
// DOUBLE-NEXT:        %6 = arith.shrsi %3, %5 : i64
// DOUBLE-NEXT:        %7 = arith.constant 1 : i64
// DOUBLE-NEXT:        %8 = arith.ori %6, %7 : i64
// DOUBLE-NEXT:        %9 = arith.constant 30 : i64
// DOUBLE-NEXT:        %10 = arith.shli %8, %9 : i64
// DOUBLE-NEXT:        %11 = arith.constant 31 : i64
// DOUBLE-NEXT:        %12 = arith.subi %11, %shift : i64
// DOUBLE-NEXT:        %13 = arith.constant 63 : i64
// DOUBLE-NEXT:        %14 = arith.shrsi %12, %13 : i64
// DOUBLE-NEXT:        %15 = arith.andi %10, %14 : i64
// DOUBLE-NEXT:        %16 = arith.addi %4, %15 : i64
// DOUBLE-NEXT:        %17 = arith.constant 1 : i64
// DOUBLE-NEXT:        %18 = arith.subi %shift, %17 : i64
// DOUBLE-NEXT:        %19 = arith.shrsi %16, %18 : i64
// DOUBLE-NEXT:        %20 = arith.addi %19, %17 : i64
// DOUBLE-NEXT:        %21 = arith.shrsi %20, %17 : i64
// DOUBLE-NEXT:        %22 = arith.constant -128 : i64
// DOUBLE-NEXT:        %23 = arith.maxsi %21, %22 : i64
// DOUBLE-NEXT:        %24 = arith.constant 127 : i64
// DOUBLE-NEXT:        %25 = arith.minsi %23, %24 : i64
// DOUBLE-NEXT:        %26 = arith.trunci %25 : i64 to i8
// DOUBLE-NEXT:        linalg.yield %26 : i8
// DOUBLE-NEXT:      } -> tensor<2x3xi8>
// DOUBLE-NEXT:      func.return %y : tensor<2x3xi8>
// DOUBLE-NEXT:    }

// -----

!a = !quant.fixed_point<i8:f32, 1717986918p-34>
!b = !quant.fixed_point<i8:f32:1, {1073741824p-32,1610612736p-32}>
func.func @unranked(%x: tensor<*xi8>) -> tensor<*xi8> {
  %q = quant.scast %x : tensor<*xi8> to tensor<*x!a>
  %e = quant.dcast %q : tensor<*x!a> to tensor<*xf32>
  %r = quant.qcast %e : tensor<*xf32> to tensor<*x!b>
  %y = quant.scast %r : tensor<*x!b> to tensor<*xi8>
  return %y : tensor<*xi8>
}

// CHECK:         func.func @unranked(%x: tensor<*xi8>) -> tensor<*xi8> {
// CHECK-NEXT:      %0 = shape.shape_of %x : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:      %1 = arith.constant 1 : index
// CHECK-NEXT:      %2 = arith.constant 2 : index
// CHECK-NEXT:      %3, %4 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %5 = shape.num_elements %3 : tensor<?xindex> -> index
// CHECK-NEXT:      %6, %7 = "shape.split_at"(%0, %2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:      %8 = shape.num_elements %7 : tensor<?xindex> -> index
// CHECK-NEXT:      %9 = arith.constant 2 : index
// CHECK-NEXT:      %10 = tensor.from_elements %5, %9, %8 : tensor<3xindex>
// CHECK-NEXT:      %11 = tensor.reshape %x(%10) : (tensor<*xi8>, tensor<3xindex>) -> tensor<?x2x?xi8>
// CHECK-NEXT:      %12 = arith.constant dense<[1717986918, 1145324612]> : tensor<2xi64>
// CHECK-NEXT:      %13 = tensor.empty(%5, %8) : tensor<?x2x?xi8>
// CHECK-NEXT:      %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11, %12 : tensor<?x2x?xi8>, tensor<2xi64>) outs(%13 : tensor<?x2x?xi8>) {
// CHECK-NEXT:      ^bb0(%in: i8, %multiplier: i64, %out: i8):
// CHECK-NEXT:        %15 = arith.extsi %in : i8 to i64
// CHECK-NEXT:        %16 = arith.muli %15, %multiplier : i64
// CHECK-NEXT:        %17 = arith.constant 1 : i64
// CHECK-NEXT:        %18 = arith.constant 31 : i64
// CHECK-NEXT:        %19 = arith.shrsi %16, %18 : i64
// CHECK-NEXT:        %20 = arith.addi %19, %17 : i64
// CHECK-NEXT:        %21 = arith.shrsi %20, %17 : i64
// CHECK-NEXT:        %22 = arith.constant -128 : i64
// CHECK-NEXT:        %23 = arith.maxsi %21, %22 : i64
// CHECK-NEXT:        %24 = arith.constant 127 : i64
// CHECK-NEXT:        %25 = arith.minsi %23, %24 : i64
// CHECK-NEXT:        %26 = arith.trunci %25 : i64 to i8
// CHECK-NEXT:        linalg.yield %26 : i8
// CHECK-NEXT:      } -> tensor<?x2x?xi8>
// CHECK-NEXT:      %y = tensor.reshape %14(%0) : (tensor<?x2x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:      func.return %y : tensor<*xi8>
// CHECK-NEXT:    }

// -----

// Where an expressed value is needed it is computed with the same scale as a float.

!a = !quant.fixed_point<i8:f32, 1073741824p-31:10>
func.func @border(%x: f32) -> !a {
  %q = quant.qcast %x : f32 to !a
  return %q : !a
}

// CHECK:         func.func @border(%x: f32) -> !quant.fixed_point<i8:f32, 1073741824p-31:10> {
// CHECK-NEXT:      %0 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:      %1 = arith.constant 10 : i8
// CHECK-NEXT:      %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:      %3 = arith.sitofp %1 : i8 to f32
// CHECK-NEXT:      %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:      %5 = arith.fptosi %4 : f32 to i8
// CHECK-NEXT:      %q = quant.scast %5 : i8 to !quant.fixed_point<i8:f32, 1073741824p-31:10>
// CHECK-NEXT:      func.return %q : !quant.fixed_point<i8:f32, 1073741824p-31:10>
// CHECK-NEXT:    }
