// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even}' --split-input-file | filecheck %s --check-prefix=EVEN --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-away fuse=true}' --split-input-file | filecheck %s --check-prefix=AWAY --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{fuse=true runtime-checks=true}' --split-input-file | filecheck %s --check-prefix=FUSE --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{keep-qdq=true}' --split-input-file | filecheck %s --check-prefix=KEEP --match-full-lines
// RUN: xdsl-opt %s -p 'lower-quant-ops{rounding-mode=nearest-even keep-qdq=false}' --split-input-file | filecheck %s --check-prefix=FOLD --match-full-lines

!q = !quant.uniform<i8<-8:7>:f32, 0.1:10>

func.func @scalar(%x: f32, %q: !q) -> (!q, f32) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %q : !q to f32
  return %0, %1 : !q, f32
}

// EVEN:         func.func @scalar(%x: f32, %q: !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>) -> (!quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>, f32) {
// EVEN-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %1 = arith.constant 1.000000e+01 : f32
// EVEN-NEXT:      %2 = arith.divf %x, %0 : f32
// EVEN-NEXT:      %3 = arith.addf %2, %1 : f32
// EVEN-NEXT:      %4 = math.roundeven %3 : f32
// EVEN-NEXT:      %5 = arith.constant -8.000000e+00 : f32
// EVEN-NEXT:      %6 = arith.constant 7.000000e+00 : f32
// EVEN-NEXT:      %7 = arith.maxnumf %4, %5 : f32
// EVEN-NEXT:      %8 = arith.minnumf %7, %6 : f32
// EVEN-NEXT:      %9 = arith.fptosi %8 : f32 to i32
// EVEN-NEXT:      %10 = arith.trunci %9 : i32 to i8
// EVEN-NEXT:      %11 = quant.scast %10 : i8 to !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>
// EVEN-NEXT:      %12 = quant.scast %q : !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10> to i8
// EVEN-NEXT:      %13 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %14 = arith.constant 1.000000e+01 : f32
// EVEN-NEXT:      %15 = arith.sitofp %12 : i8 to f32
// EVEN-NEXT:      %16 = arith.subf %15, %14 : f32
// EVEN-NEXT:      %17 = arith.mulf %16, %13 : f32
// EVEN-NEXT:      func.return %11, %17 : !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>, f32
// EVEN-NEXT:    }
// EVEN-NEXT:  }
// FUSE:         func.func @scalar(%x: f32, %q: !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>) -> (!quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>, f32) {
// FUSE-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:      %1 = arith.constant 10 : i8
// FUSE-NEXT:      %2 = arith.divf %x, %0 : f32
// FUSE-NEXT:      %3 = arith.sitofp %1 : i8 to f32
// FUSE-NEXT:      %4 = arith.addf %2, %3 : f32
// FUSE-NEXT:      %5 = arith.fptosi %4 : f32 to i32
// FUSE-NEXT:      %6 = arith.constant -8 : i32
// FUSE-NEXT:      %7 = arith.constant 7 : i32
// FUSE-NEXT:      %8 = arith.maxsi %5, %6 : i32
// FUSE-NEXT:      %9 = arith.minsi %8, %7 : i32
// FUSE-NEXT:      %10 = arith.trunci %9 : i32 to i8
// FUSE-NEXT:      %11 = quant.scast %10 : i8 to !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>
// FUSE-NEXT:      %12 = quant.scast %q : !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10> to i8
// FUSE-NEXT:      %13 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:      %14 = arith.constant 10 : i8
// FUSE-NEXT:      %15 = arith.sitofp %12 : i8 to f32
// FUSE-NEXT:      %16 = arith.sitofp %14 : i8 to f32
// FUSE-NEXT:      %17 = arith.subf %15, %16 : f32
// FUSE-NEXT:      %18 = arith.mulf %17, %13 : f32
// FUSE-NEXT:      func.return %11, %18 : !quant.uniform<i8<-8:7>:f32, 1.000000e-01:10>, f32
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

// A zero point of 0 is left out.

!q = !quant.uniform<u16:f32, 0.1>

func.func @static(%x: tensor<3x5xf32>, %q: tensor<3x5x!q>) -> (tensor<3x5x!q>, tensor<3x5xf32>) {
  %0 = quant.qcast %x : tensor<3x5xf32> to tensor<3x5x!q>
  %1 = quant.dcast %q : tensor<3x5x!q> to tensor<3x5xf32>
  return %0, %1 : tensor<3x5x!q>, tensor<3x5xf32>
}

// EVEN:         func.func @static(%x: tensor<3x5xf32>, %q: tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>) -> (tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>, tensor<3x5xf32>) {
// EVEN-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %1 = tensor.splat %0 : tensor<3x5xf32>
// EVEN-NEXT:      %2 = arith.divf %x, %1 : tensor<3x5xf32>
// EVEN-NEXT:      %3 = math.roundeven %2 : tensor<3x5xf32>
// EVEN-NEXT:      %4 = arith.constant 0.000000e+00 : f32
// EVEN-NEXT:      %5 = arith.constant 6.553500e+04 : f32
// EVEN-NEXT:      %6 = tensor.splat %4 : tensor<3x5xf32>
// EVEN-NEXT:      %7 = tensor.splat %5 : tensor<3x5xf32>
// EVEN-NEXT:      %8 = arith.maxnumf %3, %6 : tensor<3x5xf32>
// EVEN-NEXT:      %9 = arith.minnumf %8, %7 : tensor<3x5xf32>
// EVEN-NEXT:      %10 = arith.fptoui %9 : tensor<3x5xf32> to tensor<3x5xi16>
// EVEN-NEXT:      %11 = quant.scast %10 : tensor<3x5xi16> to tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>
// EVEN-NEXT:      %12 = quant.scast %q : tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>> to tensor<3x5xi16>
// EVEN-NEXT:      %13 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %14 = tensor.splat %13 : tensor<3x5xf32>
// EVEN-NEXT:      %15 = arith.uitofp %12 : tensor<3x5xi16> to tensor<3x5xf32>
// EVEN-NEXT:      %16 = arith.mulf %15, %14 : tensor<3x5xf32>
// EVEN-NEXT:      func.return %11, %16 : tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>, tensor<3x5xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:  }
// AWAY:         func.func @static(%x: tensor<3x5xf32>, %q: tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>) -> (tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>, tensor<3x5xf32>) {
// AWAY-NEXT:      %0 = tensor.empty() : tensor<3x5xi16>
// AWAY-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x5xf32>) outs(%0 : tensor<3x5xi16>) {
// AWAY-NEXT:      ^bb0(%in: f32, %out: i16):
// AWAY-NEXT:        %2 = arith.constant 1.000000e-01 : f32
// AWAY-NEXT:        %3 = arith.divf %in, %2 : f32
// AWAY-NEXT:        %4 = math.round %3 : f32
// AWAY-NEXT:        %5 = arith.constant 0.000000e+00 : f32
// AWAY-NEXT:        %6 = arith.constant 6.553500e+04 : f32
// AWAY-NEXT:        %7 = arith.maxnumf %4, %5 : f32
// AWAY-NEXT:        %8 = arith.minnumf %7, %6 : f32
// AWAY-NEXT:        %9 = arith.fptosi %8 : f32 to i32
// AWAY-NEXT:        %10 = arith.trunci %9 : i32 to i16
// AWAY-NEXT:        linalg.yield %10 : i16
// AWAY-NEXT:      } -> tensor<3x5xi16>
// AWAY-NEXT:      %11 = quant.scast %1 : tensor<3x5xi16> to tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>
// AWAY-NEXT:      %12 = quant.scast %q : tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>> to tensor<3x5xi16>
// AWAY-NEXT:      %13 = tensor.empty() : tensor<3x5xf32>
// AWAY-NEXT:      %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<3x5xi16>) outs(%13 : tensor<3x5xf32>) {
// AWAY-NEXT:      ^bb0(%in_1: i16, %out_1: f32):
// AWAY-NEXT:        %15 = arith.constant 1.000000e-01 : f32
// AWAY-NEXT:        %16 = arith.uitofp %in_1 : i16 to f32
// AWAY-NEXT:        %17 = arith.mulf %16, %15 : f32
// AWAY-NEXT:        linalg.yield %17 : f32
// AWAY-NEXT:      } -> tensor<3x5xf32>
// AWAY-NEXT:      func.return %11, %14 : tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>, tensor<3x5xf32>
// AWAY-NEXT:    }
// AWAY-NEXT:  }
// FUSE:         func.func @static(%x: tensor<3x5xf32>, %q: tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>) -> (tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>, tensor<3x5xf32>) {
// FUSE-NEXT:      %0 = tensor.empty() : tensor<3x5xi16>
// FUSE-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x5xf32>) outs(%0 : tensor<3x5xi16>) {
// FUSE-NEXT:      ^bb0(%in: f32, %out: i16):
// FUSE-NEXT:        %2 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:        %3 = arith.divf %in, %2 : f32
// FUSE-NEXT:        %4 = arith.fptosi %3 : f32 to i32
// FUSE-NEXT:        %5 = arith.trunci %4 : i32 to i16
// FUSE-NEXT:        linalg.yield %5 : i16
// FUSE-NEXT:      } -> tensor<3x5xi16>
// FUSE-NEXT:      %6 = quant.scast %1 : tensor<3x5xi16> to tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>
// FUSE-NEXT:      %7 = quant.scast %q : tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>> to tensor<3x5xi16>
// FUSE-NEXT:      %8 = tensor.empty() : tensor<3x5xf32>
// FUSE-NEXT:      %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<3x5xi16>) outs(%8 : tensor<3x5xf32>) {
// FUSE-NEXT:      ^bb0(%in_1: i16, %out_1: f32):
// FUSE-NEXT:        %10 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:        %11 = arith.uitofp %in_1 : i16 to f32
// FUSE-NEXT:        %12 = arith.mulf %11, %10 : f32
// FUSE-NEXT:        linalg.yield %12 : f32
// FUSE-NEXT:      } -> tensor<3x5xf32>
// FUSE-NEXT:      func.return %6, %9 : tensor<3x5x!quant.uniform<u16:f32, 1.000000e-01>>, tensor<3x5xf32>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

// A dynamic size that is of no concern is not checked. Narrow storage is converted by i32.

!q = !quant.uniform<u8<3:250>:f32, 0.1:200>

func.func @dynamic(%x: tensor<?x5xf32>, %q: tensor<?x5x!q>) -> (tensor<?x5x!q>, tensor<?x5xf32>) {
  %0 = quant.qcast %x : tensor<?x5xf32> to tensor<?x5x!q>
  %1 = quant.dcast %q : tensor<?x5x!q> to tensor<?x5xf32>
  return %0, %1 : tensor<?x5x!q>, tensor<?x5xf32>
}

// EVEN:         func.func @dynamic(%x: tensor<?x5xf32>, %q: tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>) -> (tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>, tensor<?x5xf32>) {
// EVEN-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %1 = arith.constant 2.000000e+02 : f32
// EVEN-NEXT:      %2 = arith.constant 0 : index
// EVEN-NEXT:      %3 = tensor.dim %x, %2 : tensor<?x5xf32>
// EVEN-NEXT:      %4 = tensor.splat %0[%3] : tensor<?x5xf32>
// EVEN-NEXT:      %5 = arith.divf %x, %4 : tensor<?x5xf32>
// EVEN-NEXT:      %6 = tensor.splat %1[%3] : tensor<?x5xf32>
// EVEN-NEXT:      %7 = arith.addf %5, %6 : tensor<?x5xf32>
// EVEN-NEXT:      %8 = math.roundeven %7 : tensor<?x5xf32>
// EVEN-NEXT:      %9 = arith.constant 3.000000e+00 : f32
// EVEN-NEXT:      %10 = arith.constant 2.500000e+02 : f32
// EVEN-NEXT:      %11 = tensor.splat %9[%3] : tensor<?x5xf32>
// EVEN-NEXT:      %12 = tensor.splat %10[%3] : tensor<?x5xf32>
// EVEN-NEXT:      %13 = arith.maxnumf %8, %11 : tensor<?x5xf32>
// EVEN-NEXT:      %14 = arith.minnumf %13, %12 : tensor<?x5xf32>
// EVEN-NEXT:      %15 = arith.fptoui %14 : tensor<?x5xf32> to tensor<?x5xi8>
// EVEN-NEXT:      %16 = quant.scast %15 : tensor<?x5xi8> to tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>
// EVEN-NEXT:      %17 = quant.scast %q : tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>> to tensor<?x5xi8>
// EVEN-NEXT:      %18 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %19 = arith.constant 2.000000e+02 : f32
// EVEN-NEXT:      %20 = arith.constant 0 : index
// EVEN-NEXT:      %21 = tensor.dim %17, %20 : tensor<?x5xi8>
// EVEN-NEXT:      %22 = tensor.splat %18[%21] : tensor<?x5xf32>
// EVEN-NEXT:      %23 = arith.uitofp %17 : tensor<?x5xi8> to tensor<?x5xf32>
// EVEN-NEXT:      %24 = tensor.splat %19[%21] : tensor<?x5xf32>
// EVEN-NEXT:      %25 = arith.subf %23, %24 : tensor<?x5xf32>
// EVEN-NEXT:      %26 = arith.mulf %25, %22 : tensor<?x5xf32>
// EVEN-NEXT:      func.return %16, %26 : tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>, tensor<?x5xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:  }
// AWAY:         func.func @dynamic(%x: tensor<?x5xf32>, %q: tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>) -> (tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>, tensor<?x5xf32>) {
// AWAY-NEXT:      %0 = arith.constant 0 : index
// AWAY-NEXT:      %1 = tensor.dim %x, %0 : tensor<?x5xf32>
// AWAY-NEXT:      %2 = tensor.empty(%1) : tensor<?x5xi8>
// AWAY-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x5xf32>) outs(%2 : tensor<?x5xi8>) {
// AWAY-NEXT:      ^bb0(%in: f32, %out: i8):
// AWAY-NEXT:        %4 = arith.constant 1.000000e-01 : f32
// AWAY-NEXT:        %5 = arith.constant 2.000000e+02 : f32
// AWAY-NEXT:        %6 = arith.divf %in, %4 : f32
// AWAY-NEXT:        %7 = arith.addf %6, %5 : f32
// AWAY-NEXT:        %8 = math.round %7 : f32
// AWAY-NEXT:        %9 = arith.constant 3.000000e+00 : f32
// AWAY-NEXT:        %10 = arith.constant 2.500000e+02 : f32
// AWAY-NEXT:        %11 = arith.maxnumf %8, %9 : f32
// AWAY-NEXT:        %12 = arith.minnumf %11, %10 : f32
// AWAY-NEXT:        %13 = arith.fptosi %12 : f32 to i32
// AWAY-NEXT:        %14 = arith.trunci %13 : i32 to i8
// AWAY-NEXT:        linalg.yield %14 : i8
// AWAY-NEXT:      } -> tensor<?x5xi8>
// AWAY-NEXT:      %15 = quant.scast %3 : tensor<?x5xi8> to tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>
// AWAY-NEXT:      %16 = quant.scast %q : tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>> to tensor<?x5xi8>
// AWAY-NEXT:      %17 = arith.constant 0 : index
// AWAY-NEXT:      %18 = tensor.dim %16, %17 : tensor<?x5xi8>
// AWAY-NEXT:      %19 = tensor.empty(%18) : tensor<?x5xf32>
// AWAY-NEXT:      %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%16 : tensor<?x5xi8>) outs(%19 : tensor<?x5xf32>) {
// AWAY-NEXT:      ^bb0(%in_1: i8, %out_1: f32):
// AWAY-NEXT:        %21 = arith.constant 1.000000e-01 : f32
// AWAY-NEXT:        %22 = arith.constant 2.000000e+02 : f32
// AWAY-NEXT:        %23 = arith.uitofp %in_1 : i8 to f32
// AWAY-NEXT:        %24 = arith.subf %23, %22 : f32
// AWAY-NEXT:        %25 = arith.mulf %24, %21 : f32
// AWAY-NEXT:        linalg.yield %25 : f32
// AWAY-NEXT:      } -> tensor<?x5xf32>
// AWAY-NEXT:      func.return %15, %20 : tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>, tensor<?x5xf32>
// AWAY-NEXT:    }
// AWAY-NEXT:  }
// FUSE:         func.func @dynamic(%x: tensor<?x5xf32>, %q: tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>) -> (tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>, tensor<?x5xf32>) {
// FUSE-NEXT:      %0 = arith.constant 0 : index
// FUSE-NEXT:      %1 = tensor.dim %x, %0 : tensor<?x5xf32>
// FUSE-NEXT:      %2 = tensor.empty(%1) : tensor<?x5xi8>
// FUSE-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x5xf32>) outs(%2 : tensor<?x5xi8>) {
// FUSE-NEXT:      ^bb0(%in: f32, %out: i8):
// FUSE-NEXT:        %4 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:        %5 = arith.constant -56 : i8
// FUSE-NEXT:        %6 = arith.divf %in, %4 : f32
// FUSE-NEXT:        %7 = arith.uitofp %5 : i8 to f32
// FUSE-NEXT:        %8 = arith.addf %6, %7 : f32
// FUSE-NEXT:        %9 = arith.fptosi %8 : f32 to i32
// FUSE-NEXT:        %10 = arith.constant 3 : i32
// FUSE-NEXT:        %11 = arith.constant 250 : i32
// FUSE-NEXT:        %12 = arith.maxsi %9, %10 : i32
// FUSE-NEXT:        %13 = arith.minsi %12, %11 : i32
// FUSE-NEXT:        %14 = arith.trunci %13 : i32 to i8
// FUSE-NEXT:        linalg.yield %14 : i8
// FUSE-NEXT:      } -> tensor<?x5xi8>
// FUSE-NEXT:      %15 = quant.scast %3 : tensor<?x5xi8> to tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>
// FUSE-NEXT:      %16 = quant.scast %q : tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>> to tensor<?x5xi8>
// FUSE-NEXT:      %17 = arith.constant 0 : index
// FUSE-NEXT:      %18 = tensor.dim %16, %17 : tensor<?x5xi8>
// FUSE-NEXT:      %19 = tensor.empty(%18) : tensor<?x5xf32>
// FUSE-NEXT:      %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%16 : tensor<?x5xi8>) outs(%19 : tensor<?x5xf32>) {
// FUSE-NEXT:      ^bb0(%in_1: i8, %out_1: f32):
// FUSE-NEXT:        %21 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:        %22 = arith.constant -56 : i8
// FUSE-NEXT:        %23 = arith.uitofp %in_1 : i8 to f32
// FUSE-NEXT:        %24 = arith.uitofp %22 : i8 to f32
// FUSE-NEXT:        %25 = arith.subf %23, %24 : f32
// FUSE-NEXT:        %26 = arith.mulf %25, %21 : f32
// FUSE-NEXT:        linalg.yield %26 : f32
// FUSE-NEXT:      } -> tensor<?x5xf32>
// FUSE-NEXT:      func.return %15, %20 : tensor<?x5x!quant.uniform<u8<3:250>:f32, 1.000000e-01:200>>, tensor<?x5xf32>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

// Where 1 / scale is exact it is a factor.

!q = !quant.uniform<i8:f32, 0.25:1>
!p = !quant.uniform<i8:f32:0, {0.5, 4.0}>

func.func @reciprocals(%x: tensor<f32>, %y: tensor<2xf32>, %p: tensor<2x!p>) -> (tensor<!q>, tensor<2x!p>, tensor<2xf32>) {
  %0 = quant.qcast %x : tensor<f32> to tensor<!q>
  %1 = quant.qcast %y : tensor<2xf32> to tensor<2x!p>
  %2 = quant.dcast %p : tensor<2x!p> to tensor<2xf32>
  return %0, %1, %2 : tensor<!q>, tensor<2x!p>, tensor<2xf32>
}

// AWAY:         func.func @reciprocals(%x: tensor<f32>, %y: tensor<2xf32>, %p: tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>) -> (tensor<!quant.uniform<i8:f32, 2.500000e-01:1>>, tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>, tensor<2xf32>) {
// AWAY-NEXT:      %0 = tensor.empty() : tensor<i8>
// AWAY-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%0 : tensor<i8>) {
// AWAY-NEXT:      ^bb0(%in: f32, %out: i8):
// AWAY-NEXT:        %2 = arith.constant 4.000000e+00 : f32
// AWAY-NEXT:        %3 = arith.constant 1.000000e+00 : f32
// AWAY-NEXT:        %4 = arith.mulf %in, %2 : f32
// AWAY-NEXT:        %5 = arith.addf %4, %3 : f32
// AWAY-NEXT:        %6 = math.round %5 : f32
// AWAY-NEXT:        %7 = arith.constant -1.280000e+02 : f32
// AWAY-NEXT:        %8 = arith.constant 1.270000e+02 : f32
// AWAY-NEXT:        %9 = arith.maxnumf %6, %7 : f32
// AWAY-NEXT:        %10 = arith.minnumf %9, %8 : f32
// AWAY-NEXT:        %11 = arith.fptosi %10 : f32 to i32
// AWAY-NEXT:        %12 = arith.trunci %11 : i32 to i8
// AWAY-NEXT:        linalg.yield %12 : i8
// AWAY-NEXT:      } -> tensor<i8>
// AWAY-NEXT:      %13 = quant.scast %1 : tensor<i8> to tensor<!quant.uniform<i8:f32, 2.500000e-01:1>>
// AWAY-NEXT:      %14 = arith.constant dense<[2.000000e+00, 2.500000e-01]> : tensor<2xf32>
// AWAY-NEXT:      %15 = tensor.empty() : tensor<2xi8>
// AWAY-NEXT:      %16 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%y, %14 : tensor<2xf32>, tensor<2xf32>) outs(%15 : tensor<2xi8>) {
// AWAY-NEXT:      ^bb0(%in_1: f32, %scale: f32, %out_1: i8):
// AWAY-NEXT:        %17 = arith.mulf %in_1, %scale : f32
// AWAY-NEXT:        %18 = math.round %17 : f32
// AWAY-NEXT:        %19 = arith.constant -1.280000e+02 : f32
// AWAY-NEXT:        %20 = arith.constant 1.270000e+02 : f32
// AWAY-NEXT:        %21 = arith.maxnumf %18, %19 : f32
// AWAY-NEXT:        %22 = arith.minnumf %21, %20 : f32
// AWAY-NEXT:        %23 = arith.fptosi %22 : f32 to i32
// AWAY-NEXT:        %24 = arith.trunci %23 : i32 to i8
// AWAY-NEXT:        linalg.yield %24 : i8
// AWAY-NEXT:      } -> tensor<2xi8>
// AWAY-NEXT:      %25 = quant.scast %16 : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>
// AWAY-NEXT:      %26 = quant.scast %p : tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>> to tensor<2xi8>
// AWAY-NEXT:      %27 = arith.constant dense<[5.000000e-01, 4.000000e+00]> : tensor<2xf32>
// AWAY-NEXT:      %28 = tensor.empty() : tensor<2xf32>
// AWAY-NEXT:      %29 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%26, %27 : tensor<2xi8>, tensor<2xf32>) outs(%28 : tensor<2xf32>) {
// AWAY-NEXT:      ^bb0(%in_2: i8, %scale_1: f32, %out_2: f32):
// AWAY-NEXT:        %30 = arith.sitofp %in_2 : i8 to f32
// AWAY-NEXT:        %31 = arith.mulf %30, %scale_1 : f32
// AWAY-NEXT:        linalg.yield %31 : f32
// AWAY-NEXT:      } -> tensor<2xf32>
// AWAY-NEXT:      func.return %13, %25, %29 : tensor<!quant.uniform<i8:f32, 2.500000e-01:1>>, tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>, tensor<2xf32>
// AWAY-NEXT:    }
// AWAY-NEXT:  }
// FUSE:         func.func @reciprocals(%x: tensor<f32>, %y: tensor<2xf32>, %p: tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>) -> (tensor<!quant.uniform<i8:f32, 2.500000e-01:1>>, tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>, tensor<2xf32>) {
// FUSE-NEXT:      %0 = tensor.empty() : tensor<i8>
// FUSE-NEXT:      %1 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%0 : tensor<i8>) {
// FUSE-NEXT:      ^bb0(%in: f32, %out: i8):
// FUSE-NEXT:        %2 = arith.constant 4.000000e+00 : f32
// FUSE-NEXT:        %3 = arith.constant 1 : i8
// FUSE-NEXT:        %4 = arith.mulf %in, %2 : f32
// FUSE-NEXT:        %5 = arith.sitofp %3 : i8 to f32
// FUSE-NEXT:        %6 = arith.addf %4, %5 : f32
// FUSE-NEXT:        %7 = arith.fptosi %6 : f32 to i32
// FUSE-NEXT:        %8 = arith.trunci %7 : i32 to i8
// FUSE-NEXT:        linalg.yield %8 : i8
// FUSE-NEXT:      } -> tensor<i8>
// FUSE-NEXT:      %9 = quant.scast %1 : tensor<i8> to tensor<!quant.uniform<i8:f32, 2.500000e-01:1>>
// FUSE-NEXT:      %10 = arith.constant dense<[2.000000e+00, 2.500000e-01]> : tensor<2xf32>
// FUSE-NEXT:      %11 = tensor.empty() : tensor<2xi8>
// FUSE-NEXT:      %12 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%y, %10 : tensor<2xf32>, tensor<2xf32>) outs(%11 : tensor<2xi8>) {
// FUSE-NEXT:      ^bb0(%in_1: f32, %scale: f32, %out_1: i8):
// FUSE-NEXT:        %13 = arith.mulf %in_1, %scale : f32
// FUSE-NEXT:        %14 = arith.fptosi %13 : f32 to i32
// FUSE-NEXT:        %15 = arith.trunci %14 : i32 to i8
// FUSE-NEXT:        linalg.yield %15 : i8
// FUSE-NEXT:      } -> tensor<2xi8>
// FUSE-NEXT:      %16 = quant.scast %12 : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>
// FUSE-NEXT:      %17 = quant.scast %p : tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>> to tensor<2xi8>
// FUSE-NEXT:      %18 = arith.constant dense<[5.000000e-01, 4.000000e+00]> : tensor<2xf32>
// FUSE-NEXT:      %19 = tensor.empty() : tensor<2xf32>
// FUSE-NEXT:      %20 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%17, %18 : tensor<2xi8>, tensor<2xf32>) outs(%19 : tensor<2xf32>) {
// FUSE-NEXT:      ^bb0(%in_2: i8, %scale_1: f32, %out_2: f32):
// FUSE-NEXT:        %21 = arith.sitofp %in_2 : i8 to f32
// FUSE-NEXT:        %22 = arith.mulf %21, %scale_1 : f32
// FUSE-NEXT:        linalg.yield %22 : f32
// FUSE-NEXT:      } -> tensor<2xf32>
// FUSE-NEXT:      func.return %9, %16, %20 : tensor<!quant.uniform<i8:f32, 2.500000e-01:1>>, tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,4.000000e+00}>>, tensor<2xf32>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

// 1 / scale is not exact for all of the scales, or no normal number.

!p = !quant.uniform<i8:f32:0, {0.5, 3.0}>
!q = !quant.uniform<i8:f32, 1.7014118346046923e+38>
!r = !quant.uniform<i8:f32, 1.4012984643248171e-45>

func.func @no_reciprocals(%x: tensor<2xf32>, %y: f32) -> (tensor<2x!p>, !q, !r) {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!p>
  %1 = quant.qcast %y : f32 to !q
  %2 = quant.qcast %y : f32 to !r
  return %0, %1, %2 : tensor<2x!p>, !q, !r
}

// AWAY:         func.func @no_reciprocals(%x: tensor<2xf32>, %y: f32) -> (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,3.000000e+00}>>, !quant.uniform<i8:f32, 1.7014118346046923E+38>, !quant.uniform<i8:f32, 1.4012984643248171E-45>) {
// AWAY-NEXT:      %0 = arith.constant dense<[5.000000e-01, 3.000000e+00]> : tensor<2xf32>
// AWAY-NEXT:      %1 = tensor.empty() : tensor<2xi8>
// AWAY-NEXT:      %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %0 : tensor<2xf32>, tensor<2xf32>) outs(%1 : tensor<2xi8>) {
// AWAY-NEXT:      ^bb0(%in: f32, %scale: f32, %out: i8):
// AWAY-NEXT:        %3 = arith.divf %in, %scale : f32
// AWAY-NEXT:        %4 = math.round %3 : f32
// AWAY-NEXT:        %5 = arith.constant -1.280000e+02 : f32
// AWAY-NEXT:        %6 = arith.constant 1.270000e+02 : f32
// AWAY-NEXT:        %7 = arith.maxnumf %4, %5 : f32
// AWAY-NEXT:        %8 = arith.minnumf %7, %6 : f32
// AWAY-NEXT:        %9 = arith.fptosi %8 : f32 to i32
// AWAY-NEXT:        %10 = arith.trunci %9 : i32 to i8
// AWAY-NEXT:        linalg.yield %10 : i8
// AWAY-NEXT:      } -> tensor<2xi8>
// AWAY-NEXT:      %11 = quant.scast %2 : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,3.000000e+00}>>
// AWAY-NEXT:      %12 = arith.constant 1.70141183e+38 : f32
// AWAY-NEXT:      %13 = arith.divf %y, %12 : f32
// AWAY-NEXT:      %14 = math.round %13 : f32
// AWAY-NEXT:      %15 = arith.constant -1.280000e+02 : f32
// AWAY-NEXT:      %16 = arith.constant 1.270000e+02 : f32
// AWAY-NEXT:      %17 = arith.maxnumf %14, %15 : f32
// AWAY-NEXT:      %18 = arith.minnumf %17, %16 : f32
// AWAY-NEXT:      %19 = arith.fptosi %18 : f32 to i32
// AWAY-NEXT:      %20 = arith.trunci %19 : i32 to i8
// AWAY-NEXT:      %21 = quant.scast %20 : i8 to !quant.uniform<i8:f32, 1.7014118346046923E+38>
// AWAY-NEXT:      %22 = arith.constant 1.401300e-45 : f32
// AWAY-NEXT:      %23 = arith.divf %y, %22 : f32
// AWAY-NEXT:      %24 = math.round %23 : f32
// AWAY-NEXT:      %25 = arith.constant -1.280000e+02 : f32
// AWAY-NEXT:      %26 = arith.constant 1.270000e+02 : f32
// AWAY-NEXT:      %27 = arith.maxnumf %24, %25 : f32
// AWAY-NEXT:      %28 = arith.minnumf %27, %26 : f32
// AWAY-NEXT:      %29 = arith.fptosi %28 : f32 to i32
// AWAY-NEXT:      %30 = arith.trunci %29 : i32 to i8
// AWAY-NEXT:      %31 = quant.scast %30 : i8 to !quant.uniform<i8:f32, 1.4012984643248171E-45>
// AWAY-NEXT:      func.return %11, %21, %31 : tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,3.000000e+00}>>, !quant.uniform<i8:f32, 1.7014118346046923E+38>, !quant.uniform<i8:f32, 1.4012984643248171E-45>
// AWAY-NEXT:    }
// AWAY-NEXT:  }

// -----

// The float type to compute in holds all stored values and their distances to zero points.

!f16 = !quant.uniform<i8:f16, 0.1:1>
!f16_i16 = !quant.uniform<i16:f16, 0.1>
!bf16 = !quant.uniform<i8:bf16, 0.1>
!bf16_u8 = !quant.uniform<u8:bf16, 0.1:255>
!bf16_i9 = !quant.uniform<i9:bf16, 0.1:1>
!i24 = !quant.uniform<i24:f32, 0.1>
!i32 = !quant.uniform<i32:f32, 0.1:1>
!u32 = !quant.uniform<u32<0:4294967294>:f64, 0.1:4294967295>
!f8 = !quant.uniform<i4:f8E4M3FN, 0.1>
!f8_i8 = !quant.uniform<i8:f8E4M3FN, 0.1>

func.func @compute_types(
  %f16: f16, %bf16: bf16, %f32: f32, %f64: f64, %f8: f8E4M3FN
) -> (!f16, !f16_i16, !bf16, !bf16_u8, !bf16_i9, !i24, !i32, !u32, !f8, !f8_i8) {
  %0 = quant.qcast %f16 : f16 to !f16
  %1 = quant.qcast %f16 : f16 to !f16_i16
  %2 = quant.qcast %bf16 : bf16 to !bf16
  %3 = quant.qcast %bf16 : bf16 to !bf16_u8
  %4 = quant.qcast %bf16 : bf16 to !bf16_i9
  %5 = quant.qcast %f32 : f32 to !i24
  %6 = quant.qcast %f32 : f32 to !i32
  %7 = quant.qcast %f64 : f64 to !u32
  %8 = quant.qcast %f8 : f8E4M3FN to !f8
  %9 = quant.qcast %f8 : f8E4M3FN to !f8_i8
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : !f16, !f16_i16, !bf16, !bf16_u8, !bf16_i9, !i24, !i32, !u32, !f8, !f8_i8
}

// EVEN:         func.func @compute_types(%f16: f16, %bf16: bf16, %f32: f32, %f64: f64, %f8: f8E4M3FN) -> (!quant.uniform<i8:f16, 1.000000e-01:1>, !quant.uniform<i16:f16, 1.000000e-01>, !quant.uniform<i8:bf16, 1.000000e-01>, !quant.uniform<u8:bf16, 1.000000e-01:255>, !quant.uniform<i9:bf16, 1.000000e-01:1>, !quant.uniform<i24:f32, 1.000000e-01>, !quant.uniform<i32:f32, 1.000000e-01:1>, !quant.uniform<u32<0:4294967294>:f64, 1.000000e-01:4294967295>, !quant.uniform<i4:f8E4M3FN, 1.000000e-01>, !quant.uniform<i8:f8E4M3FN, 1.000000e-01>) {
// EVEN-NEXT:      %0 = arith.constant 9.997560e-02 : f16
// EVEN-NEXT:      %1 = arith.constant 1.000000e+00 : f16
// EVEN-NEXT:      %2 = arith.divf %f16, %0 : f16
// EVEN-NEXT:      %3 = arith.addf %2, %1 : f16
// EVEN-NEXT:      %4 = math.roundeven %3 : f16
// EVEN-NEXT:      %5 = arith.constant -1.280000e+02 : f16
// EVEN-NEXT:      %6 = arith.constant 1.270000e+02 : f16
// EVEN-NEXT:      %7 = arith.maxnumf %4, %5 : f16
// EVEN-NEXT:      %8 = arith.minnumf %7, %6 : f16
// EVEN-NEXT:      %9 = arith.fptosi %8 : f16 to i32
// EVEN-NEXT:      %10 = arith.trunci %9 : i32 to i8
// EVEN-NEXT:      %11 = quant.scast %10 : i8 to !quant.uniform<i8:f16, 1.000000e-01:1>
// EVEN-NEXT:      %12 = arith.constant 0.0999755859 : f32
// EVEN-NEXT:      %13 = arith.extf %f16 : f16 to f32
// EVEN-NEXT:      %14 = arith.divf %13, %12 : f32
// EVEN-NEXT:      %15 = math.roundeven %14 : f32
// EVEN-NEXT:      %16 = arith.constant -3.276800e+04 : f32
// EVEN-NEXT:      %17 = arith.constant 3.276700e+04 : f32
// EVEN-NEXT:      %18 = arith.maxnumf %15, %16 : f32
// EVEN-NEXT:      %19 = arith.minnumf %18, %17 : f32
// EVEN-NEXT:      %20 = arith.fptosi %19 : f32 to i32
// EVEN-NEXT:      %21 = arith.trunci %20 : i32 to i16
// EVEN-NEXT:      %22 = quant.scast %21 : i16 to !quant.uniform<i16:f16, 1.000000e-01>
// EVEN-NEXT:      %23 = arith.constant 1.000980e-01 : bf16
// EVEN-NEXT:      %24 = arith.divf %bf16, %23 : bf16
// EVEN-NEXT:      %25 = math.roundeven %24 : bf16
// EVEN-NEXT:      %26 = arith.constant -1.280000e+02 : bf16
// EVEN-NEXT:      %27 = arith.constant 1.270000e+02 : bf16
// EVEN-NEXT:      %28 = arith.maxnumf %25, %26 : bf16
// EVEN-NEXT:      %29 = arith.minnumf %28, %27 : bf16
// EVEN-NEXT:      %30 = arith.fptosi %29 : bf16 to i32
// EVEN-NEXT:      %31 = arith.trunci %30 : i32 to i8
// EVEN-NEXT:      %32 = quant.scast %31 : i8 to !quant.uniform<i8:bf16, 1.000000e-01>
// EVEN-NEXT:      %33 = arith.constant 0.100097656 : f32
// EVEN-NEXT:      %34 = arith.constant 2.550000e+02 : f32
// EVEN-NEXT:      %35 = arith.extf %bf16 : bf16 to f32
// EVEN-NEXT:      %36 = arith.divf %35, %33 : f32
// EVEN-NEXT:      %37 = arith.addf %36, %34 : f32
// EVEN-NEXT:      %38 = math.roundeven %37 : f32
// EVEN-NEXT:      %39 = arith.constant 0.000000e+00 : f32
// EVEN-NEXT:      %40 = arith.constant 2.550000e+02 : f32
// EVEN-NEXT:      %41 = arith.maxnumf %38, %39 : f32
// EVEN-NEXT:      %42 = arith.minnumf %41, %40 : f32
// EVEN-NEXT:      %43 = arith.fptosi %42 : f32 to i32
// EVEN-NEXT:      %44 = arith.trunci %43 : i32 to i8
// EVEN-NEXT:      %45 = quant.scast %44 : i8 to !quant.uniform<u8:bf16, 1.000000e-01:255>
// EVEN-NEXT:      %46 = arith.constant 0.100097656 : f32
// EVEN-NEXT:      %47 = arith.constant 1.000000e+00 : f32
// EVEN-NEXT:      %48 = arith.extf %bf16 : bf16 to f32
// EVEN-NEXT:      %49 = arith.divf %48, %46 : f32
// EVEN-NEXT:      %50 = arith.addf %49, %47 : f32
// EVEN-NEXT:      %51 = math.roundeven %50 : f32
// EVEN-NEXT:      %52 = arith.constant -2.560000e+02 : f32
// EVEN-NEXT:      %53 = arith.constant 2.550000e+02 : f32
// EVEN-NEXT:      %54 = arith.maxnumf %51, %52 : f32
// EVEN-NEXT:      %55 = arith.minnumf %54, %53 : f32
// EVEN-NEXT:      %56 = arith.fptosi %55 : f32 to i32
// EVEN-NEXT:      %57 = arith.trunci %56 : i32 to i9
// EVEN-NEXT:      %58 = quant.scast %57 : i9 to !quant.uniform<i9:bf16, 1.000000e-01:1>
// EVEN-NEXT:      %59 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %60 = arith.divf %f32, %59 : f32
// EVEN-NEXT:      %61 = math.roundeven %60 : f32
// EVEN-NEXT:      %62 = arith.constant 0xCB000000 : f32
// EVEN-NEXT:      %63 = arith.constant 0x4AFFFFFE : f32
// EVEN-NEXT:      %64 = arith.maxnumf %61, %62 : f32
// EVEN-NEXT:      %65 = arith.minnumf %64, %63 : f32
// EVEN-NEXT:      %66 = arith.fptosi %65 : f32 to i24
// EVEN-NEXT:      %67 = quant.scast %66 : i24 to !quant.uniform<i24:f32, 1.000000e-01>
// EVEN-NEXT:      %68 = arith.constant 0.10000000149011612 : f64
// EVEN-NEXT:      %69 = arith.constant 1.000000e+00 : f64
// EVEN-NEXT:      %70 = arith.extf %f32 : f32 to f64
// EVEN-NEXT:      %71 = arith.divf %70, %68 : f64
// EVEN-NEXT:      %72 = arith.addf %71, %69 : f64
// EVEN-NEXT:      %73 = math.roundeven %72 : f64
// EVEN-NEXT:      %74 = arith.constant 0xC1E0000000000000 : f64
// EVEN-NEXT:      %75 = arith.constant 0x41DFFFFFFFC00000 : f64
// EVEN-NEXT:      %76 = arith.maxnumf %73, %74 : f64
// EVEN-NEXT:      %77 = arith.minnumf %76, %75 : f64
// EVEN-NEXT:      %78 = arith.fptosi %77 : f64 to i32
// EVEN-NEXT:      %79 = quant.scast %78 : i32 to !quant.uniform<i32:f32, 1.000000e-01:1>
// EVEN-NEXT:      %80 = arith.constant 1.000000e-01 : f64
// EVEN-NEXT:      %81 = arith.constant 0x41EFFFFFFFE00000 : f64
// EVEN-NEXT:      %82 = arith.divf %f64, %80 : f64
// EVEN-NEXT:      %83 = arith.addf %82, %81 : f64
// EVEN-NEXT:      %84 = math.roundeven %83 : f64
// EVEN-NEXT:      %85 = arith.constant 0.000000e+00 : f64
// EVEN-NEXT:      %86 = arith.constant 0x41EFFFFFFFC00000 : f64
// EVEN-NEXT:      %87 = arith.maxnumf %84, %85 : f64
// EVEN-NEXT:      %88 = arith.minnumf %87, %86 : f64
// EVEN-NEXT:      %89 = arith.fptoui %88 : f64 to i32
// EVEN-NEXT:      %90 = quant.scast %89 : i32 to !quant.uniform<u32<0:4294967294>:f64, 1.000000e-01:4294967295>
// EVEN-NEXT:      %91 = arith.constant 0.1015625 : f32
// EVEN-NEXT:      %92 = arith.extf %f8 : f8E4M3FN to f32
// EVEN-NEXT:      %93 = arith.divf %92, %91 : f32
// EVEN-NEXT:      %94 = math.roundeven %93 : f32
// EVEN-NEXT:      %95 = arith.constant -8.000000e+00 : f32
// EVEN-NEXT:      %96 = arith.constant 7.000000e+00 : f32
// EVEN-NEXT:      %97 = arith.maxnumf %94, %95 : f32
// EVEN-NEXT:      %98 = arith.minnumf %97, %96 : f32
// EVEN-NEXT:      %99 = arith.fptosi %98 : f32 to i32
// EVEN-NEXT:      %100 = arith.trunci %99 : i32 to i4
// EVEN-NEXT:      %101 = quant.scast %100 : i4 to !quant.uniform<i4:f8E4M3FN, 1.000000e-01>
// EVEN-NEXT:      %102 = arith.constant 0.1015625 : f32
// EVEN-NEXT:      %103 = arith.extf %f8 : f8E4M3FN to f32
// EVEN-NEXT:      %104 = arith.divf %103, %102 : f32
// EVEN-NEXT:      %105 = math.roundeven %104 : f32
// EVEN-NEXT:      %106 = arith.constant -1.280000e+02 : f32
// EVEN-NEXT:      %107 = arith.constant 1.270000e+02 : f32
// EVEN-NEXT:      %108 = arith.maxnumf %105, %106 : f32
// EVEN-NEXT:      %109 = arith.minnumf %108, %107 : f32
// EVEN-NEXT:      %110 = arith.fptosi %109 : f32 to i32
// EVEN-NEXT:      %111 = arith.trunci %110 : i32 to i8
// EVEN-NEXT:      %112 = quant.scast %111 : i8 to !quant.uniform<i8:f8E4M3FN, 1.000000e-01>
// EVEN-NEXT:      func.return %11, %22, %32, %45, %58, %67, %79, %90, %101, %112 : !quant.uniform<i8:f16, 1.000000e-01:1>, !quant.uniform<i16:f16, 1.000000e-01>, !quant.uniform<i8:bf16, 1.000000e-01>, !quant.uniform<u8:bf16, 1.000000e-01:255>, !quant.uniform<i9:bf16, 1.000000e-01:1>, !quant.uniform<i24:f32, 1.000000e-01>, !quant.uniform<i32:f32, 1.000000e-01:1>, !quant.uniform<u32<0:4294967294>:f64, 1.000000e-01:4294967295>, !quant.uniform<i4:f8E4M3FN, 1.000000e-01>, !quant.uniform<i8:f8E4M3FN, 1.000000e-01>
// EVEN-NEXT:    }

// -----

// The expressed value is computed in that type, too, and rounded to its own.

!f16_i16 = !quant.uniform<i16:f16, 0.1:-3>
!u32 = !quant.uniform<u32:f32:0, {0.1:4294967295, 2.0}>

func.func @compute_types_of_dequantization(%a: !f16_i16, %b: tensor<2x!u32>) -> (f16, tensor<2xf32>) {
  %0 = quant.dcast %a : !f16_i16 to f16
  %1 = quant.dcast %b : tensor<2x!u32> to tensor<2xf32>
  return %0, %1 : f16, tensor<2xf32>
}

// EVEN:         func.func @compute_types_of_dequantization(%a: !quant.uniform<i16:f16, 1.000000e-01:-3>, %b: tensor<2x!quant.uniform<u32:f32:0, {1.000000e-01:4294967295,2.000000e+00}>>) -> (f16, tensor<2xf32>) {
// EVEN-NEXT:      %0 = quant.scast %a : !quant.uniform<i16:f16, 1.000000e-01:-3> to i16
// EVEN-NEXT:      %1 = arith.constant 0.0999755859 : f32
// EVEN-NEXT:      %2 = arith.constant -3.000000e+00 : f32
// EVEN-NEXT:      %3 = arith.sitofp %0 : i16 to f32
// EVEN-NEXT:      %4 = arith.subf %3, %2 : f32
// EVEN-NEXT:      %5 = arith.mulf %4, %1 : f32
// EVEN-NEXT:      %6 = arith.truncf %5 : f32 to f16
// EVEN-NEXT:      %7 = quant.scast %b : tensor<2x!quant.uniform<u32:f32:0, {1.000000e-01:4294967295,2.000000e+00}>> to tensor<2xi32>
// EVEN-NEXT:      %8 = arith.constant dense<[0.10000000149011612, 2.000000e+00]> : tensor<2xf64>
// EVEN-NEXT:      %9 = arith.constant dense<[0x41EFFFFFFFE00000, 0.000000e+00]> : tensor<2xf64>
// EVEN-NEXT:      %10 = tensor.empty() : tensor<2xf32>
// EVEN-NEXT:      %11 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%7, %8, %9 : tensor<2xi32>, tensor<2xf64>, tensor<2xf64>) outs(%10 : tensor<2xf32>) {
// EVEN-NEXT:      ^bb0(%in: i32, %scale: f64, %zero_point: f64, %out: f32):
// EVEN-NEXT:        %12 = arith.uitofp %in : i32 to f64
// EVEN-NEXT:        %13 = arith.subf %12, %zero_point : f64
// EVEN-NEXT:        %14 = arith.mulf %13, %scale : f64
// EVEN-NEXT:        %15 = arith.truncf %14 : f64 to f32
// EVEN-NEXT:        linalg.yield %15 : f32
// EVEN-NEXT:      } -> tensor<2xf32>
// EVEN-NEXT:      func.return %6, %11 : f16, tensor<2xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:  }

// -----

// One bit.

!i1 = !quant.uniform<i1:f32, 0.1>
!u1 = !quant.uniform<u1:f32, 0.1:1>

func.func @one_bit(%x: f32, %i: !i1, %u: !u1) -> (!i1, !u1, f32, f32) {
  %0 = quant.qcast %x : f32 to !i1
  %1 = quant.qcast %x : f32 to !u1
  %2 = quant.dcast %i : !i1 to f32
  %3 = quant.dcast %u : !u1 to f32
  return %0, %1, %2, %3 : !i1, !u1, f32, f32
}

// EVEN:         func.func @one_bit(%x: f32, %i: !quant.uniform<i1:f32, 1.000000e-01>, %u: !quant.uniform<u1:f32, 1.000000e-01:1>) -> (!quant.uniform<i1:f32, 1.000000e-01>, !quant.uniform<u1:f32, 1.000000e-01:1>, f32, f32) {
// EVEN-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %1 = arith.divf %x, %0 : f32
// EVEN-NEXT:      %2 = math.roundeven %1 : f32
// EVEN-NEXT:      %3 = arith.constant -1.000000e+00 : f32
// EVEN-NEXT:      %4 = arith.constant 0.000000e+00 : f32
// EVEN-NEXT:      %5 = arith.maxnumf %2, %3 : f32
// EVEN-NEXT:      %6 = arith.minnumf %5, %4 : f32
// EVEN-NEXT:      %7 = arith.fptosi %6 : f32 to i32
// EVEN-NEXT:      %8 = arith.trunci %7 : i32 to i1
// EVEN-NEXT:      %9 = quant.scast %8 : i1 to !quant.uniform<i1:f32, 1.000000e-01>
// EVEN-NEXT:      %10 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %11 = arith.constant 1.000000e+00 : f32
// EVEN-NEXT:      %12 = arith.divf %x, %10 : f32
// EVEN-NEXT:      %13 = arith.addf %12, %11 : f32
// EVEN-NEXT:      %14 = math.roundeven %13 : f32
// EVEN-NEXT:      %15 = arith.constant 0.000000e+00 : f32
// EVEN-NEXT:      %16 = arith.constant 1.000000e+00 : f32
// EVEN-NEXT:      %17 = arith.maxnumf %14, %15 : f32
// EVEN-NEXT:      %18 = arith.minnumf %17, %16 : f32
// EVEN-NEXT:      %19 = arith.fptosi %18 : f32 to i32
// EVEN-NEXT:      %20 = arith.trunci %19 : i32 to i1
// EVEN-NEXT:      %21 = quant.scast %20 : i1 to !quant.uniform<u1:f32, 1.000000e-01:1>
// EVEN-NEXT:      %22 = quant.scast %i : !quant.uniform<i1:f32, 1.000000e-01> to i1
// EVEN-NEXT:      %23 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %24 = arith.sitofp %22 : i1 to f32
// EVEN-NEXT:      %25 = arith.mulf %24, %23 : f32
// EVEN-NEXT:      %26 = quant.scast %u : !quant.uniform<u1:f32, 1.000000e-01:1> to i1
// EVEN-NEXT:      %27 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %28 = arith.constant 1.000000e+00 : f32
// EVEN-NEXT:      %29 = arith.uitofp %26 : i1 to f32
// EVEN-NEXT:      %30 = arith.subf %29, %28 : f32
// EVEN-NEXT:      %31 = arith.mulf %30, %27 : f32
// EVEN-NEXT:      func.return %9, %21, %25, %31 : !quant.uniform<i1:f32, 1.000000e-01>, !quant.uniform<u1:f32, 1.000000e-01:1>, f32, f32
// EVEN-NEXT:    }
// EVEN-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 0.1:1>

func.func @unranked(%x: tensor<*xf32>, %q: tensor<*x!q>) -> (tensor<*x!q>, tensor<*xf32>) {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  %1 = quant.dcast %q : tensor<*x!q> to tensor<*xf32>
  return %0, %1 : tensor<*x!q>, tensor<*xf32>
}

// EVEN:         func.func @unranked(%x: tensor<*xf32>, %q: tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>) -> (tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>, tensor<*xf32>) {
// EVEN-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// EVEN-NEXT:      %1 = shape.num_elements %0 : tensor<?xindex> -> index
// EVEN-NEXT:      %2 = tensor.from_elements %1 : tensor<1xindex>
// EVEN-NEXT:      %3 = tensor.reshape %x(%2) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// EVEN-NEXT:      %4 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %5 = arith.constant 1.000000e+00 : f32
// EVEN-NEXT:      %6 = arith.constant 0 : index
// EVEN-NEXT:      %7 = tensor.dim %3, %6 : tensor<?xf32>
// EVEN-NEXT:      %8 = tensor.splat %4[%7] : tensor<?xf32>
// EVEN-NEXT:      %9 = arith.divf %3, %8 : tensor<?xf32>
// EVEN-NEXT:      %10 = tensor.splat %5[%7] : tensor<?xf32>
// EVEN-NEXT:      %11 = arith.addf %9, %10 : tensor<?xf32>
// EVEN-NEXT:      %12 = math.roundeven %11 : tensor<?xf32>
// EVEN-NEXT:      %13 = arith.constant -1.280000e+02 : f32
// EVEN-NEXT:      %14 = arith.constant 1.270000e+02 : f32
// EVEN-NEXT:      %15 = tensor.splat %13[%7] : tensor<?xf32>
// EVEN-NEXT:      %16 = tensor.splat %14[%7] : tensor<?xf32>
// EVEN-NEXT:      %17 = arith.maxnumf %12, %15 : tensor<?xf32>
// EVEN-NEXT:      %18 = arith.minnumf %17, %16 : tensor<?xf32>
// EVEN-NEXT:      %19 = arith.fptosi %18 : tensor<?xf32> to tensor<?xi8>
// EVEN-NEXT:      %20 = tensor.reshape %19(%0) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// EVEN-NEXT:      %21 = quant.scast %20 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>
// EVEN-NEXT:      %22 = quant.scast %q : tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>> to tensor<*xi8>
// EVEN-NEXT:      %23 = shape.shape_of %22 : tensor<*xi8> -> tensor<?xindex>
// EVEN-NEXT:      %24 = shape.num_elements %23 : tensor<?xindex> -> index
// EVEN-NEXT:      %25 = tensor.from_elements %24 : tensor<1xindex>
// EVEN-NEXT:      %26 = tensor.reshape %22(%25) : (tensor<*xi8>, tensor<1xindex>) -> tensor<?xi8>
// EVEN-NEXT:      %27 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %28 = arith.constant 1.000000e+00 : f32
// EVEN-NEXT:      %29 = arith.constant 0 : index
// EVEN-NEXT:      %30 = tensor.dim %26, %29 : tensor<?xi8>
// EVEN-NEXT:      %31 = tensor.splat %27[%30] : tensor<?xf32>
// EVEN-NEXT:      %32 = arith.sitofp %26 : tensor<?xi8> to tensor<?xf32>
// EVEN-NEXT:      %33 = tensor.splat %28[%30] : tensor<?xf32>
// EVEN-NEXT:      %34 = arith.subf %32, %33 : tensor<?xf32>
// EVEN-NEXT:      %35 = arith.mulf %34, %31 : tensor<?xf32>
// EVEN-NEXT:      %36 = tensor.reshape %35(%23) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>
// EVEN-NEXT:      func.return %21, %36 : tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>, tensor<*xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:  }
// FUSE:         func.func @unranked(%x: tensor<*xf32>, %q: tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>) -> (tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>, tensor<*xf32>) {
// FUSE-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// FUSE-NEXT:      %1 = shape.num_elements %0 : tensor<?xindex> -> index
// FUSE-NEXT:      %2 = tensor.from_elements %1 : tensor<1xindex>
// FUSE-NEXT:      %3 = tensor.reshape %x(%2) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// FUSE-NEXT:      %4 = arith.constant 0 : index
// FUSE-NEXT:      %5 = tensor.dim %3, %4 : tensor<?xf32>
// FUSE-NEXT:      %6 = tensor.empty(%5) : tensor<?xi8>
// FUSE-NEXT:      %7 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3 : tensor<?xf32>) outs(%6 : tensor<?xi8>) {
// FUSE-NEXT:      ^bb0(%in: f32, %out: i8):
// FUSE-NEXT:        %8 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:        %9 = arith.constant 1 : i8
// FUSE-NEXT:        %10 = arith.divf %in, %8 : f32
// FUSE-NEXT:        %11 = arith.sitofp %9 : i8 to f32
// FUSE-NEXT:        %12 = arith.addf %10, %11 : f32
// FUSE-NEXT:        %13 = arith.fptosi %12 : f32 to i32
// FUSE-NEXT:        %14 = arith.trunci %13 : i32 to i8
// FUSE-NEXT:        linalg.yield %14 : i8
// FUSE-NEXT:      } -> tensor<?xi8>
// FUSE-NEXT:      %15 = tensor.reshape %7(%0) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// FUSE-NEXT:      %16 = quant.scast %15 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>
// FUSE-NEXT:      %17 = quant.scast %q : tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>> to tensor<*xi8>
// FUSE-NEXT:      %18 = shape.shape_of %17 : tensor<*xi8> -> tensor<?xindex>
// FUSE-NEXT:      %19 = shape.num_elements %18 : tensor<?xindex> -> index
// FUSE-NEXT:      %20 = tensor.from_elements %19 : tensor<1xindex>
// FUSE-NEXT:      %21 = tensor.reshape %17(%20) : (tensor<*xi8>, tensor<1xindex>) -> tensor<?xi8>
// FUSE-NEXT:      %22 = arith.constant 0 : index
// FUSE-NEXT:      %23 = tensor.dim %21, %22 : tensor<?xi8>
// FUSE-NEXT:      %24 = tensor.empty(%23) : tensor<?xf32>
// FUSE-NEXT:      %25 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%21 : tensor<?xi8>) outs(%24 : tensor<?xf32>) {
// FUSE-NEXT:      ^bb0(%in_1: i8, %out_1: f32):
// FUSE-NEXT:        %26 = arith.constant 1.000000e-01 : f32
// FUSE-NEXT:        %27 = arith.constant 1 : i8
// FUSE-NEXT:        %28 = arith.sitofp %in_1 : i8 to f32
// FUSE-NEXT:        %29 = arith.sitofp %27 : i8 to f32
// FUSE-NEXT:        %30 = arith.subf %28, %29 : f32
// FUSE-NEXT:        %31 = arith.mulf %30, %26 : f32
// FUSE-NEXT:        linalg.yield %31 : f32
// FUSE-NEXT:      } -> tensor<?xf32>
// FUSE-NEXT:      %32 = tensor.reshape %25(%18) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>
// FUSE-NEXT:      func.return %16, %32 : tensor<*x!quant.uniform<i8:f32, 1.000000e-01:1>>, tensor<*xf32>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

// Zero points that are all 0 are left out; the dynamic size is checked.

!p = !quant.uniform<i8:f32:1, {0.1:10, 3.0}>
!q = !quant.uniform<i8:f32:1, {0.1, 3.0}>

func.func @per_axis(%x: tensor<?x?xf32>, %q: tensor<?x2x!q>) -> (tensor<?x?x!p>, tensor<?x2xf32>) {
  %0 = quant.qcast %x : tensor<?x?xf32> to tensor<?x?x!p>
  %1 = quant.dcast %q : tensor<?x2x!q> to tensor<?x2xf32>
  return %0, %1 : tensor<?x?x!p>, tensor<?x2xf32>
}

// EVEN:         func.func @per_axis(%x: tensor<?x?xf32>, %q: tensor<?x2x!quant.uniform<i8:f32:1, {1.000000e-01,3.000000e+00}>>) -> (tensor<?x?x!quant.uniform<i8:f32:1, {1.000000e-01:10,3.000000e+00}>>, tensor<?x2xf32>) {
// EVEN-NEXT:      %0 = arith.constant dense<[1.000000e-01, 3.000000e+00]> : tensor<2xf32>
// EVEN-NEXT:      %1 = arith.constant dense<[1.000000e+01, 0.000000e+00]> : tensor<2xf32>
// EVEN-NEXT:      %2 = arith.constant 0 : index
// EVEN-NEXT:      %3 = tensor.dim %x, %2 : tensor<?x?xf32>
// EVEN-NEXT:      %4 = arith.constant 1 : index
// EVEN-NEXT:      %5 = tensor.dim %x, %4 : tensor<?x?xf32>
// EVEN-NEXT:      %6 = tensor.empty(%3, %5) : tensor<?x?xi8>
// EVEN-NEXT:      %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0, %1 : tensor<?x?xf32>, tensor<2xf32>, tensor<2xf32>) outs(%6 : tensor<?x?xi8>) {
// EVEN-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: f32, %out: i8):
// EVEN-NEXT:        %8 = arith.divf %in, %scale : f32
// EVEN-NEXT:        %9 = arith.addf %8, %zero_point : f32
// EVEN-NEXT:        %10 = math.roundeven %9 : f32
// EVEN-NEXT:        %11 = arith.constant -1.280000e+02 : f32
// EVEN-NEXT:        %12 = arith.constant 1.270000e+02 : f32
// EVEN-NEXT:        %13 = arith.maxnumf %10, %11 : f32
// EVEN-NEXT:        %14 = arith.minnumf %13, %12 : f32
// EVEN-NEXT:        %15 = arith.fptosi %14 : f32 to i32
// EVEN-NEXT:        %16 = arith.trunci %15 : i32 to i8
// EVEN-NEXT:        linalg.yield %16 : i8
// EVEN-NEXT:      } -> tensor<?x?xi8>
// EVEN-NEXT:      %17 = quant.scast %7 : tensor<?x?xi8> to tensor<?x?x!quant.uniform<i8:f32:1, {1.000000e-01:10,3.000000e+00}>>
// EVEN-NEXT:      %18 = quant.scast %q : tensor<?x2x!quant.uniform<i8:f32:1, {1.000000e-01,3.000000e+00}>> to tensor<?x2xi8>
// EVEN-NEXT:      %19 = arith.constant dense<[1.000000e-01, 3.000000e+00]> : tensor<2xf32>
// EVEN-NEXT:      %20 = arith.constant 0 : index
// EVEN-NEXT:      %21 = tensor.dim %18, %20 : tensor<?x2xi8>
// EVEN-NEXT:      %22 = tensor.empty(%21) : tensor<?x2xf32>
// EVEN-NEXT:      %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%18, %19 : tensor<?x2xi8>, tensor<2xf32>) outs(%22 : tensor<?x2xf32>) {
// EVEN-NEXT:      ^bb0(%in_1: i8, %scale_1: f32, %out_1: f32):
// EVEN-NEXT:        %24 = arith.sitofp %in_1 : i8 to f32
// EVEN-NEXT:        %25 = arith.mulf %24, %scale_1 : f32
// EVEN-NEXT:        linalg.yield %25 : f32
// EVEN-NEXT:      } -> tensor<?x2xf32>
// EVEN-NEXT:      func.return %17, %23 : tensor<?x?x!quant.uniform<i8:f32:1, {1.000000e-01:10,3.000000e+00}>>, tensor<?x2xf32>
// EVEN-NEXT:    }
// EVEN-NEXT:  }
// FUSE:         func.func @per_axis(%x: tensor<?x?xf32>, %q: tensor<?x2x!quant.uniform<i8:f32:1, {1.000000e-01,3.000000e+00}>>) -> (tensor<?x?x!quant.uniform<i8:f32:1, {1.000000e-01:10,3.000000e+00}>>, tensor<?x2xf32>) {
// FUSE-NEXT:      %0 = arith.constant 1 : index
// FUSE-NEXT:      %1 = tensor.dim %x, %0 : tensor<?x?xf32>
// FUSE-NEXT:      %2 = arith.constant 2 : index
// FUSE-NEXT:      %3 = arith.cmpi eq, %1, %2 : index
// FUSE-NEXT:      cf.assert %3, "size of dimension 1 must be 2: the number of scales"
// FUSE-NEXT:      %4 = arith.constant dense<[1.000000e-01, 3.000000e+00]> : tensor<2xf32>
// FUSE-NEXT:      %5 = arith.constant dense<[10, 0]> : tensor<2xi8>
// FUSE-NEXT:      %6 = arith.constant 0 : index
// FUSE-NEXT:      %7 = tensor.dim %x, %6 : tensor<?x?xf32>
// FUSE-NEXT:      %8 = arith.constant 1 : index
// FUSE-NEXT:      %9 = tensor.dim %x, %8 : tensor<?x?xf32>
// FUSE-NEXT:      %10 = tensor.empty(%7, %9) : tensor<?x?xi8>
// FUSE-NEXT:      %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %4, %5 : tensor<?x?xf32>, tensor<2xf32>, tensor<2xi8>) outs(%10 : tensor<?x?xi8>) {
// FUSE-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// FUSE-NEXT:        %12 = arith.divf %in, %scale : f32
// FUSE-NEXT:        %13 = arith.sitofp %zero_point : i8 to f32
// FUSE-NEXT:        %14 = arith.addf %12, %13 : f32
// FUSE-NEXT:        %15 = arith.fptosi %14 : f32 to i32
// FUSE-NEXT:        %16 = arith.trunci %15 : i32 to i8
// FUSE-NEXT:        linalg.yield %16 : i8
// FUSE-NEXT:      } -> tensor<?x?xi8>
// FUSE-NEXT:      %17 = quant.scast %11 : tensor<?x?xi8> to tensor<?x?x!quant.uniform<i8:f32:1, {1.000000e-01:10,3.000000e+00}>>
// FUSE-NEXT:      %18 = quant.scast %q : tensor<?x2x!quant.uniform<i8:f32:1, {1.000000e-01,3.000000e+00}>> to tensor<?x2xi8>
// FUSE-NEXT:      %19 = arith.constant dense<[1.000000e-01, 3.000000e+00]> : tensor<2xf32>
// FUSE-NEXT:      %20 = arith.constant 0 : index
// FUSE-NEXT:      %21 = tensor.dim %18, %20 : tensor<?x2xi8>
// FUSE-NEXT:      %22 = tensor.empty(%21) : tensor<?x2xf32>
// FUSE-NEXT:      %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%18, %19 : tensor<?x2xi8>, tensor<2xf32>) outs(%22 : tensor<?x2xf32>) {
// FUSE-NEXT:      ^bb0(%in_1: i8, %scale_1: f32, %out_1: f32):
// FUSE-NEXT:        %24 = arith.sitofp %in_1 : i8 to f32
// FUSE-NEXT:        %25 = arith.mulf %24, %scale_1 : f32
// FUSE-NEXT:        linalg.yield %25 : f32
// FUSE-NEXT:      } -> tensor<?x2xf32>
// FUSE-NEXT:      func.return %17, %23 : tensor<?x?x!quant.uniform<i8:f32:1, {1.000000e-01:10,3.000000e+00}>>, tensor<?x2xf32>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

!q = !quant.uniform<u4:f32:2, {0.1:15, 3.0}>

func.func @per_axis_unranked(%q: tensor<*x!q>) -> tensor<*xf32> {
  %0 = quant.dcast %q : tensor<*x!q> to tensor<*xf32>
  return %0 : tensor<*xf32>
}

// AWAY:         func.func @per_axis_unranked(%q: tensor<*x!quant.uniform<u4:f32:2, {1.000000e-01:15,3.000000e+00}>>) -> tensor<*xf32> {
// AWAY-NEXT:      %0 = quant.scast %q : tensor<*x!quant.uniform<u4:f32:2, {1.000000e-01:15,3.000000e+00}>> to tensor<*xi4>
// AWAY-NEXT:      %1 = shape.shape_of %0 : tensor<*xi4> -> tensor<?xindex>
// AWAY-NEXT:      %2 = arith.constant 2 : index
// AWAY-NEXT:      %3 = arith.constant 3 : index
// AWAY-NEXT:      %4, %5 = "shape.split_at"(%1, %2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// AWAY-NEXT:      %6 = shape.num_elements %4 : tensor<?xindex> -> index
// AWAY-NEXT:      %7, %8 = "shape.split_at"(%1, %3) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// AWAY-NEXT:      %9 = shape.num_elements %8 : tensor<?xindex> -> index
// AWAY-NEXT:      %10 = arith.constant 2 : index
// AWAY-NEXT:      %11 = tensor.from_elements %6, %10, %9 : tensor<3xindex>
// AWAY-NEXT:      %12 = tensor.reshape %0(%11) : (tensor<*xi4>, tensor<3xindex>) -> tensor<?x2x?xi4>
// AWAY-NEXT:      %13 = arith.constant dense<[1.000000e-01, 3.000000e+00]> : tensor<2xf32>
// AWAY-NEXT:      %14 = arith.constant dense<[1.500000e+01, 0.000000e+00]> : tensor<2xf32>
// AWAY-NEXT:      %15 = arith.constant 0 : index
// AWAY-NEXT:      %16 = tensor.dim %12, %15 : tensor<?x2x?xi4>
// AWAY-NEXT:      %17 = arith.constant 2 : index
// AWAY-NEXT:      %18 = tensor.dim %12, %17 : tensor<?x2x?xi4>
// AWAY-NEXT:      %19 = tensor.empty(%16, %18) : tensor<?x2x?xf32>
// AWAY-NEXT:      %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%12, %13, %14 : tensor<?x2x?xi4>, tensor<2xf32>, tensor<2xf32>) outs(%19 : tensor<?x2x?xf32>) {
// AWAY-NEXT:      ^bb0(%in: i4, %scale: f32, %zero_point: f32, %out: f32):
// AWAY-NEXT:        %21 = arith.uitofp %in : i4 to f32
// AWAY-NEXT:        %22 = arith.subf %21, %zero_point : f32
// AWAY-NEXT:        %23 = arith.mulf %22, %scale : f32
// AWAY-NEXT:        linalg.yield %23 : f32
// AWAY-NEXT:      } -> tensor<?x2x?xf32>
// AWAY-NEXT:      %24 = tensor.reshape %20(%1) : (tensor<?x2x?xf32>, tensor<?xindex>) -> tensor<*xf32>
// AWAY-NEXT:      func.return %24 : tensor<*xf32>
// AWAY-NEXT:    }
// AWAY-NEXT:  }
// FUSE:         func.func @per_axis_unranked(%q: tensor<*x!quant.uniform<u4:f32:2, {1.000000e-01:15,3.000000e+00}>>) -> tensor<*xf32> {
// FUSE-NEXT:      %0 = quant.scast %q : tensor<*x!quant.uniform<u4:f32:2, {1.000000e-01:15,3.000000e+00}>> to tensor<*xi4>
// FUSE-NEXT:      %1 = shape.shape_of %0 : tensor<*xi4> -> tensor<?xindex>
// FUSE-NEXT:      %2 = arith.constant 0 : index
// FUSE-NEXT:      %3 = tensor.dim %1, %2 : tensor<?xindex>
// FUSE-NEXT:      %4 = arith.constant 2 : index
// FUSE-NEXT:      %5 = arith.cmpi ugt, %3, %4 : index
// FUSE-NEXT:      cf.assert %5, "rank must be greater than 2: the last quantized dimension"
// FUSE-NEXT:      %6 = arith.constant 2 : index
// FUSE-NEXT:      %7 = tensor.extract %1[%6] : tensor<?xindex>
// FUSE-NEXT:      %8 = arith.constant 2 : index
// FUSE-NEXT:      %9 = arith.cmpi eq, %7, %8 : index
// FUSE-NEXT:      cf.assert %9, "size of dimension 2 must be 2: the number of scales"
// FUSE-NEXT:      %10 = arith.constant 2 : index
// FUSE-NEXT:      %11 = arith.constant 3 : index
// FUSE-NEXT:      %12, %13 = "shape.split_at"(%1, %10) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// FUSE-NEXT:      %14 = shape.num_elements %12 : tensor<?xindex> -> index
// FUSE-NEXT:      %15, %16 = "shape.split_at"(%1, %11) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// FUSE-NEXT:      %17 = shape.num_elements %16 : tensor<?xindex> -> index
// FUSE-NEXT:      %18 = arith.constant 2 : index
// FUSE-NEXT:      %19 = tensor.from_elements %14, %18, %17 : tensor<3xindex>
// FUSE-NEXT:      %20 = tensor.reshape %0(%19) : (tensor<*xi4>, tensor<3xindex>) -> tensor<?x2x?xi4>
// FUSE-NEXT:      %21 = arith.constant dense<[1.000000e-01, 3.000000e+00]> : tensor<2xf32>
// FUSE-NEXT:      %22 = arith.constant dense<[-1, 0]> : tensor<2xi4>
// FUSE-NEXT:      %23 = arith.constant 0 : index
// FUSE-NEXT:      %24 = tensor.dim %20, %23 : tensor<?x2x?xi4>
// FUSE-NEXT:      %25 = arith.constant 2 : index
// FUSE-NEXT:      %26 = tensor.dim %20, %25 : tensor<?x2x?xi4>
// FUSE-NEXT:      %27 = tensor.empty(%24, %26) : tensor<?x2x?xf32>
// FUSE-NEXT:      %28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%20, %21, %22 : tensor<?x2x?xi4>, tensor<2xf32>, tensor<2xi4>) outs(%27 : tensor<?x2x?xf32>) {
// FUSE-NEXT:      ^bb0(%in: i4, %scale: f32, %zero_point: i4, %out: f32):
// FUSE-NEXT:        %29 = arith.uitofp %in : i4 to f32
// FUSE-NEXT:        %30 = arith.uitofp %zero_point : i4 to f32
// FUSE-NEXT:        %31 = arith.subf %29, %30 : f32
// FUSE-NEXT:        %32 = arith.mulf %31, %scale : f32
// FUSE-NEXT:        linalg.yield %32 : f32
// FUSE-NEXT:      } -> tensor<?x2x?xf32>
// FUSE-NEXT:      %33 = tensor.reshape %28(%1) : (tensor<?x2x?xf32>, tensor<?xindex>) -> tensor<*xf32>
// FUSE-NEXT:      func.return %33 : tensor<*xf32>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

!q = !quant.uniform<i8:f32:{0:2, 1:1}, {{0.1, 2.0:-1}, {3.0, 4.0}}>

func.func @sub_channel(%x: tensor<?x?xf32>) -> tensor<?x?x!q> {
  %0 = quant.qcast %x : tensor<?x?xf32> to tensor<?x?x!q>
  return %0 : tensor<?x?x!q>
}

// AWAY:         func.func @sub_channel(%x: tensor<?x?xf32>) -> tensor<?x?x!quant.uniform<i8:f32:{0:2, 1:1}, {{{{}}1.000000e-01, 2.000000e+00:-1}, {3.000000e+00, 4.000000e+00}}>> {
// AWAY-NEXT:      %0 = arith.constant dense<{{\[\[}}1.000000e-01, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// AWAY-NEXT:      %1 = arith.constant dense<{{\[\[}}0.000000e+00, -1.000000e+00], [0.000000e+00, 0.000000e+00]]> : tensor<2x2xf32>
// AWAY-NEXT:      %2 = arith.constant 0 : index
// AWAY-NEXT:      %3 = tensor.dim %x, %2 : tensor<?x?xf32>
// AWAY-NEXT:      %4 = arith.constant 1 : index
// AWAY-NEXT:      %5 = tensor.dim %x, %4 : tensor<?x?xf32>
// AWAY-NEXT:      %6 = tensor.empty(%3, %5) : tensor<?x?xi8>
// AWAY-NEXT:      %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>, affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0, %1 : tensor<?x?xf32>, tensor<2x2xf32>, tensor<2x2xf32>) outs(%6 : tensor<?x?xi8>) {
// AWAY-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: f32, %out: i8):
// AWAY-NEXT:        %8 = arith.divf %in, %scale : f32
// AWAY-NEXT:        %9 = arith.addf %8, %zero_point : f32
// AWAY-NEXT:        %10 = math.round %9 : f32
// AWAY-NEXT:        %11 = arith.constant -1.280000e+02 : f32
// AWAY-NEXT:        %12 = arith.constant 1.270000e+02 : f32
// AWAY-NEXT:        %13 = arith.maxnumf %10, %11 : f32
// AWAY-NEXT:        %14 = arith.minnumf %13, %12 : f32
// AWAY-NEXT:        %15 = arith.fptosi %14 : f32 to i32
// AWAY-NEXT:        %16 = arith.trunci %15 : i32 to i8
// AWAY-NEXT:        linalg.yield %16 : i8
// AWAY-NEXT:      } -> tensor<?x?xi8>
// AWAY-NEXT:      %17 = quant.scast %7 : tensor<?x?xi8> to tensor<?x?x!quant.uniform<i8:f32:{0:2, 1:1}, {{{{}}1.000000e-01, 2.000000e+00:-1}, {3.000000e+00, 4.000000e+00}}>>
// AWAY-NEXT:      func.return %17 : tensor<?x?x!quant.uniform<i8:f32:{0:2, 1:1}, {{{{}}1.000000e-01, 2.000000e+00:-1}, {3.000000e+00, 4.000000e+00}}>>
// AWAY-NEXT:    }
// AWAY-NEXT:  }
// FUSE:         func.func @sub_channel(%x: tensor<?x?xf32>) -> tensor<?x?x!quant.uniform<i8:f32:{0:2, 1:1}, {{{{}}1.000000e-01, 2.000000e+00:-1}, {3.000000e+00, 4.000000e+00}}>> {
// FUSE-NEXT:      %0 = arith.constant 0 : index
// FUSE-NEXT:      %1 = tensor.dim %x, %0 : tensor<?x?xf32>
// FUSE-NEXT:      %2 = arith.constant 4 : index
// FUSE-NEXT:      %3 = arith.cmpi eq, %1, %2 : index
// FUSE-NEXT:      cf.assert %3, "size of dimension 0 must be 4: 2 blocks of 2"
// FUSE-NEXT:      %4 = arith.constant 1 : index
// FUSE-NEXT:      %5 = tensor.dim %x, %4 : tensor<?x?xf32>
// FUSE-NEXT:      %6 = arith.constant 2 : index
// FUSE-NEXT:      %7 = arith.cmpi eq, %5, %6 : index
// FUSE-NEXT:      cf.assert %7, "size of dimension 1 must be 2: 2 blocks of 1"
// FUSE-NEXT:      %8 = arith.constant dense<{{\[\[}}1.000000e-01, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// FUSE-NEXT:      %9 = arith.constant dense<{{\[\[}}0, -1], [0, 0]]> : tensor<2x2xi8>
// FUSE-NEXT:      %10 = arith.constant 0 : index
// FUSE-NEXT:      %11 = tensor.dim %x, %10 : tensor<?x?xf32>
// FUSE-NEXT:      %12 = arith.constant 1 : index
// FUSE-NEXT:      %13 = tensor.dim %x, %12 : tensor<?x?xf32>
// FUSE-NEXT:      %14 = tensor.empty(%11, %13) : tensor<?x?xi8>
// FUSE-NEXT:      %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>, affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %8, %9 : tensor<?x?xf32>, tensor<2x2xf32>, tensor<2x2xi8>) outs(%14 : tensor<?x?xi8>) {
// FUSE-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// FUSE-NEXT:        %16 = arith.divf %in, %scale : f32
// FUSE-NEXT:        %17 = arith.sitofp %zero_point : i8 to f32
// FUSE-NEXT:        %18 = arith.addf %16, %17 : f32
// FUSE-NEXT:        %19 = arith.fptosi %18 : f32 to i32
// FUSE-NEXT:        %20 = arith.trunci %19 : i32 to i8
// FUSE-NEXT:        linalg.yield %20 : i8
// FUSE-NEXT:      } -> tensor<?x?xi8>
// FUSE-NEXT:      %21 = quant.scast %15 : tensor<?x?xi8> to tensor<?x?x!quant.uniform<i8:f32:{0:2, 1:1}, {{{{}}1.000000e-01, 2.000000e+00:-1}, {3.000000e+00, 4.000000e+00}}>>
// FUSE-NEXT:      func.return %21 : tensor<?x?x!quant.uniform<i8:f32:{0:2, 1:1}, {{{{}}1.000000e-01, 2.000000e+00:-1}, {3.000000e+00, 4.000000e+00}}>>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

!q = !quant.uniform<i8:f32:{3:3, 1:2}, {{0.1, 2.0}, {3.0, 4.0}}>

func.func @sub_channel_unranked(%x: tensor<*xf32>) -> tensor<*x!q> {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  return %0 : tensor<*x!q>
}

// EVEN:         func.func @sub_channel_unranked(%x: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:{3:3, 1:2}, {{{{}}1.000000e-01, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>> {
// EVEN-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// EVEN-NEXT:      %1 = arith.constant 1 : index
// EVEN-NEXT:      %2, %3 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// EVEN-NEXT:      %4 = arith.constant 1 : index
// EVEN-NEXT:      %5, %6 = "shape.split_at"(%3, %4) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// EVEN-NEXT:      %7 = shape.num_elements %2 : tensor<?xindex> -> index
// EVEN-NEXT:      %8 = arith.constant 4 : index
// EVEN-NEXT:      %9 = arith.constant 1 : index
// EVEN-NEXT:      %10, %11 = "shape.split_at"(%6, %9) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// EVEN-NEXT:      %12 = arith.constant 1 : index
// EVEN-NEXT:      %13, %14 = "shape.split_at"(%11, %12) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// EVEN-NEXT:      %15 = shape.num_elements %10 : tensor<?xindex> -> index
// EVEN-NEXT:      %16 = arith.constant 6 : index
// EVEN-NEXT:      %17 = shape.num_elements %14 : tensor<?xindex> -> index
// EVEN-NEXT:      %18 = tensor.from_elements %7, %8, %15, %16, %17 : tensor<5xindex>
// EVEN-NEXT:      %19 = tensor.reshape %x(%18) : (tensor<*xf32>, tensor<5xindex>) -> tensor<?x4x?x6x?xf32>
// EVEN-NEXT:      %20 = arith.constant dense<{{\[\[}}1.000000e-01, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// EVEN-NEXT:      %21 = arith.constant 0 : index
// EVEN-NEXT:      %22 = tensor.dim %19, %21 : tensor<?x4x?x6x?xf32>
// EVEN-NEXT:      %23 = arith.constant 2 : index
// EVEN-NEXT:      %24 = tensor.dim %19, %23 : tensor<?x4x?x6x?xf32>
// EVEN-NEXT:      %25 = arith.constant 4 : index
// EVEN-NEXT:      %26 = tensor.dim %19, %25 : tensor<?x4x?x6x?xf32>
// EVEN-NEXT:      %27 = tensor.empty(%22, %24, %26) : tensor<?x4x?x6x?xi8>
// EVEN-NEXT:      %28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%19, %20 : tensor<?x4x?x6x?xf32>, tensor<2x2xf32>) outs(%27 : tensor<?x4x?x6x?xi8>) {
// EVEN-NEXT:      ^bb0(%in: f32, %scale: f32, %out: i8):
// EVEN-NEXT:        %29 = arith.divf %in, %scale : f32
// EVEN-NEXT:        %30 = math.roundeven %29 : f32
// EVEN-NEXT:        %31 = arith.constant -1.280000e+02 : f32
// EVEN-NEXT:        %32 = arith.constant 1.270000e+02 : f32
// EVEN-NEXT:        %33 = arith.maxnumf %30, %31 : f32
// EVEN-NEXT:        %34 = arith.minnumf %33, %32 : f32
// EVEN-NEXT:        %35 = arith.fptosi %34 : f32 to i32
// EVEN-NEXT:        %36 = arith.trunci %35 : i32 to i8
// EVEN-NEXT:        linalg.yield %36 : i8
// EVEN-NEXT:      } -> tensor<?x4x?x6x?xi8>
// EVEN-NEXT:      %37 = tensor.reshape %28(%0) : (tensor<?x4x?x6x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// EVEN-NEXT:      %38 = quant.scast %37 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{3:3, 1:2}, {{{{}}1.000000e-01, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>>
// EVEN-NEXT:      func.return %38 : tensor<*x!quant.uniform<i8:f32:{3:3, 1:2}, {{{{}}1.000000e-01, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>>
// EVEN-NEXT:    }
// EVEN-NEXT:  }
// FUSE:         func.func @sub_channel_unranked(%x: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:{3:3, 1:2}, {{{{}}1.000000e-01, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>> {
// FUSE-NEXT:      %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// FUSE-NEXT:      %1 = arith.constant 0 : index
// FUSE-NEXT:      %2 = tensor.dim %0, %1 : tensor<?xindex>
// FUSE-NEXT:      %3 = arith.constant 3 : index
// FUSE-NEXT:      %4 = arith.cmpi ugt, %2, %3 : index
// FUSE-NEXT:      cf.assert %4, "rank must be greater than 3: the last quantized dimension"
// FUSE-NEXT:      %5 = arith.constant 1 : index
// FUSE-NEXT:      %6 = tensor.extract %0[%5] : tensor<?xindex>
// FUSE-NEXT:      %7 = arith.constant 4 : index
// FUSE-NEXT:      %8 = arith.cmpi eq, %6, %7 : index
// FUSE-NEXT:      cf.assert %8, "size of dimension 1 must be 4: 2 blocks of 2"
// FUSE-NEXT:      %9 = arith.constant 3 : index
// FUSE-NEXT:      %10 = tensor.extract %0[%9] : tensor<?xindex>
// FUSE-NEXT:      %11 = arith.constant 6 : index
// FUSE-NEXT:      %12 = arith.cmpi eq, %10, %11 : index
// FUSE-NEXT:      cf.assert %12, "size of dimension 3 must be 6: 2 blocks of 3"
// FUSE-NEXT:      %13 = arith.constant 1 : index
// FUSE-NEXT:      %14, %15 = "shape.split_at"(%0, %13) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// FUSE-NEXT:      %16 = arith.constant 1 : index
// FUSE-NEXT:      %17, %18 = "shape.split_at"(%15, %16) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// FUSE-NEXT:      %19 = shape.num_elements %14 : tensor<?xindex> -> index
// FUSE-NEXT:      %20 = arith.constant 4 : index
// FUSE-NEXT:      %21 = arith.constant 1 : index
// FUSE-NEXT:      %22, %23 = "shape.split_at"(%18, %21) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// FUSE-NEXT:      %24 = arith.constant 1 : index
// FUSE-NEXT:      %25, %26 = "shape.split_at"(%23, %24) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// FUSE-NEXT:      %27 = shape.num_elements %22 : tensor<?xindex> -> index
// FUSE-NEXT:      %28 = arith.constant 6 : index
// FUSE-NEXT:      %29 = shape.num_elements %26 : tensor<?xindex> -> index
// FUSE-NEXT:      %30 = tensor.from_elements %19, %20, %27, %28, %29 : tensor<5xindex>
// FUSE-NEXT:      %31 = tensor.reshape %x(%30) : (tensor<*xf32>, tensor<5xindex>) -> tensor<?x4x?x6x?xf32>
// FUSE-NEXT:      %32 = arith.constant dense<{{\[\[}}1.000000e-01, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// FUSE-NEXT:      %33 = arith.constant 0 : index
// FUSE-NEXT:      %34 = tensor.dim %31, %33 : tensor<?x4x?x6x?xf32>
// FUSE-NEXT:      %35 = arith.constant 2 : index
// FUSE-NEXT:      %36 = tensor.dim %31, %35 : tensor<?x4x?x6x?xf32>
// FUSE-NEXT:      %37 = arith.constant 4 : index
// FUSE-NEXT:      %38 = tensor.dim %31, %37 : tensor<?x4x?x6x?xf32>
// FUSE-NEXT:      %39 = tensor.empty(%34, %36, %38) : tensor<?x4x?x6x?xi8>
// FUSE-NEXT:      %40 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 3))>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%31, %32 : tensor<?x4x?x6x?xf32>, tensor<2x2xf32>) outs(%39 : tensor<?x4x?x6x?xi8>) {
// FUSE-NEXT:      ^bb0(%in: f32, %scale: f32, %out: i8):
// FUSE-NEXT:        %41 = arith.divf %in, %scale : f32
// FUSE-NEXT:        %42 = arith.fptosi %41 : f32 to i32
// FUSE-NEXT:        %43 = arith.trunci %42 : i32 to i8
// FUSE-NEXT:        linalg.yield %43 : i8
// FUSE-NEXT:      } -> tensor<?x4x?x6x?xi8>
// FUSE-NEXT:      %44 = tensor.reshape %40(%0) : (tensor<?x4x?x6x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// FUSE-NEXT:      %45 = quant.scast %44 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{3:3, 1:2}, {{{{}}1.000000e-01, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>>
// FUSE-NEXT:      func.return %45 : tensor<*x!quant.uniform<i8:f32:{3:3, 1:2}, {{{{}}1.000000e-01, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}>>
// FUSE-NEXT:    }
// FUSE-NEXT:  }

// -----

// Simulated quantization.

!q = !quant.uniform<i8:f32, 0.1>

func.func @qdq(%x: f32, %q: !q, %i: i8) -> (f32, !q, i8) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %0 : !q to f32
  %2 = quant.dcast %q : !q to f32
  %3 = quant.qcast %2 : f32 to !q
  %4 = quant.scast %i : i8 to !q
  %5 = quant.scast %4 : !q to i8
  return %1, %3, %5 : f32, !q, i8
}

// EVEN:         func.func @qdq(%x: f32, %q: !quant.uniform<i8:f32, 1.000000e-01>, %i: i8) -> (f32, !quant.uniform<i8:f32, 1.000000e-01>, i8) {
// EVEN-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %1 = arith.divf %x, %0 : f32
// EVEN-NEXT:      %2 = math.roundeven %1 : f32
// EVEN-NEXT:      %3 = arith.constant -1.280000e+02 : f32
// EVEN-NEXT:      %4 = arith.constant 1.270000e+02 : f32
// EVEN-NEXT:      %5 = arith.maxnumf %2, %3 : f32
// EVEN-NEXT:      %6 = arith.minnumf %5, %4 : f32
// EVEN-NEXT:      %7 = arith.fptosi %6 : f32 to i32
// EVEN-NEXT:      %8 = arith.trunci %7 : i32 to i8
// EVEN-NEXT:      %9 = quant.scast %8 : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// EVEN-NEXT:      %10 = quant.scast %9 : !quant.uniform<i8:f32, 1.000000e-01> to i8
// EVEN-NEXT:      %11 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %12 = arith.sitofp %10 : i8 to f32
// EVEN-NEXT:      %13 = arith.mulf %12, %11 : f32
// EVEN-NEXT:      %14 = quant.scast %q : !quant.uniform<i8:f32, 1.000000e-01> to i8
// EVEN-NEXT:      %15 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %16 = arith.sitofp %14 : i8 to f32
// EVEN-NEXT:      %17 = arith.mulf %16, %15 : f32
// EVEN-NEXT:      %18 = arith.constant 1.000000e-01 : f32
// EVEN-NEXT:      %19 = arith.divf %17, %18 : f32
// EVEN-NEXT:      %20 = math.roundeven %19 : f32
// EVEN-NEXT:      %21 = arith.constant -1.280000e+02 : f32
// EVEN-NEXT:      %22 = arith.constant 1.270000e+02 : f32
// EVEN-NEXT:      %23 = arith.maxnumf %20, %21 : f32
// EVEN-NEXT:      %24 = arith.minnumf %23, %22 : f32
// EVEN-NEXT:      %25 = arith.fptosi %24 : f32 to i32
// EVEN-NEXT:      %26 = arith.trunci %25 : i32 to i8
// EVEN-NEXT:      %27 = quant.scast %26 : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// EVEN-NEXT:      %28 = quant.scast %i : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// EVEN-NEXT:      %29 = quant.scast %28 : !quant.uniform<i8:f32, 1.000000e-01> to i8
// EVEN-NEXT:      func.return %13, %27, %29 : f32, !quant.uniform<i8:f32, 1.000000e-01>, i8
// EVEN-NEXT:    }
// EVEN-NEXT:  }
// FOLD:         func.func @qdq(%x: f32, %q: !quant.uniform<i8:f32, 1.000000e-01>, %i: i8) -> (f32, !quant.uniform<i8:f32, 1.000000e-01>, i8) {
// FOLD-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// FOLD-NEXT:      %1 = arith.divf %x, %0 : f32
// FOLD-NEXT:      %2 = math.roundeven %1 : f32
// FOLD-NEXT:      %3 = arith.constant -1.280000e+02 : f32
// FOLD-NEXT:      %4 = arith.constant 1.270000e+02 : f32
// FOLD-NEXT:      %5 = arith.maxnumf %2, %3 : f32
// FOLD-NEXT:      %6 = arith.minnumf %5, %4 : f32
// FOLD-NEXT:      %7 = arith.fptosi %6 : f32 to i32
// FOLD-NEXT:      %8 = arith.trunci %7 : i32 to i8
// FOLD-NEXT:      %9 = quant.scast %8 : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// FOLD-NEXT:      %10 = quant.scast %q : !quant.uniform<i8:f32, 1.000000e-01> to i8
// FOLD-NEXT:      %11 = arith.constant 1.000000e-01 : f32
// FOLD-NEXT:      %12 = arith.sitofp %10 : i8 to f32
// FOLD-NEXT:      %13 = arith.mulf %12, %11 : f32
// FOLD-NEXT:      %14 = quant.scast %i : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// FOLD-NEXT:      %15 = quant.scast %14 : !quant.uniform<i8:f32, 1.000000e-01> to i8
// FOLD-NEXT:      func.return %x, %q, %15 : f32, !quant.uniform<i8:f32, 1.000000e-01>, i8
// FOLD-NEXT:    }
// FOLD-NEXT:  }
// KEEP:         func.func @qdq(%x: f32, %q: !quant.uniform<i8:f32, 1.000000e-01>, %i: i8) -> (f32, !quant.uniform<i8:f32, 1.000000e-01>, i8) {
// KEEP-NEXT:      %0 = arith.constant 1.000000e-01 : f32
// KEEP-NEXT:      %1 = arith.constant 0 : i8
// KEEP-NEXT:      %2 = arith.divf %x, %0 : f32
// KEEP-NEXT:      %3 = arith.fptosi %2 : f32 to i8
// KEEP-NEXT:      %4 = quant.scast %3 : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// KEEP-NEXT:      %5 = quant.scast %4 : !quant.uniform<i8:f32, 1.000000e-01> to i8
// KEEP-NEXT:      %6 = arith.constant 1.000000e-01 : f32
// KEEP-NEXT:      %7 = arith.constant 0 : i8
// KEEP-NEXT:      %8 = arith.sitofp %5 : i8 to f32
// KEEP-NEXT:      %9 = arith.mulf %8, %6 : f32
// KEEP-NEXT:      %10 = quant.scast %q : !quant.uniform<i8:f32, 1.000000e-01> to i8
// KEEP-NEXT:      %11 = arith.constant 1.000000e-01 : f32
// KEEP-NEXT:      %12 = arith.constant 0 : i8
// KEEP-NEXT:      %13 = arith.sitofp %10 : i8 to f32
// KEEP-NEXT:      %14 = arith.mulf %13, %11 : f32
// KEEP-NEXT:      %15 = arith.constant 1.000000e-01 : f32
// KEEP-NEXT:      %16 = arith.constant 0 : i8
// KEEP-NEXT:      %17 = arith.divf %14, %15 : f32
// KEEP-NEXT:      %18 = arith.fptosi %17 : f32 to i8
// KEEP-NEXT:      %19 = quant.scast %18 : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// KEEP-NEXT:      %20 = quant.scast %i : i8 to !quant.uniform<i8:f32, 1.000000e-01>
// KEEP-NEXT:      %21 = quant.scast %20 : !quant.uniform<i8:f32, 1.000000e-01> to i8
// KEEP-NEXT:      func.return %9, %19, %21 : f32, !quant.uniform<i8:f32, 1.000000e-01>, i8
// KEEP-NEXT:    }
// KEEP-NEXT:  }
