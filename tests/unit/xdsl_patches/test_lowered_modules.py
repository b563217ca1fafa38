"""Stock tools of xDSL read what MLIR and this package have lowered."""
# ruff: noqa: E501 - the modules are as MLIR prints them

from pathlib import Path

from tests.conformance.real_mlir import Mlir

from .modules import accepted, run

SEPARATOR = "\n// -----\n"

LOWERED = """
module {
  func.func @q(%arg0: f32) -> i8 {
    %cst = arith.constant 3.000000e+00 : f32
    %c100_i8 = arith.constant 100 : i8
    %c-100_i8 = arith.constant -100 : i8
    %cst_0 = arith.constant 1.000000e-01 : f32
    %0 = arith.divf %arg0, %cst_0 : f32
    %1 = arith.addf %0, %cst : f32
    %2 = arith.fptosi %1 : f32 to i8
    %3 = arith.maxsi %2, %c-100_i8 : i8
    %4 = arith.minsi %3, %c100_i8 : i8
    return %4 : i8
  }
  func.func @d(%arg0: i8) -> f32 {
    %cst = arith.constant 3.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e-01 : f32
    %0 = arith.sitofp %arg0 : i8 to f32
    %1 = arith.subf %0, %cst : f32
    %2 = arith.mulf %1, %cst_0 : f32
    return %2 : f32
  }
}

// -----

module {
  func.func @q(%arg0: tensor<4xf16>) -> tensor<4xi16> {
    %cst = arith.constant dense<-7.000000e+00> : tensor<4xf16>
    %cst_0 = arith.constant dense<2.500000e-01> : tensor<4xf16>
    %0 = arith.divf %arg0, %cst_0 : tensor<4xf16>
    %1 = arith.addf %0, %cst : tensor<4xf16>
    %2 = arith.fptosi %1 : tensor<4xf16> to tensor<4xi16>
    return %2 : tensor<4xi16>
  }
  func.func @d(%arg0: tensor<4xi16>) -> tensor<4xf16> {
    %cst = arith.constant dense<-7.000000e+00> : tensor<4xf16>
    %cst_0 = arith.constant dense<2.500000e-01> : tensor<4xf16>
    %0 = arith.sitofp %arg0 : tensor<4xi16> to tensor<4xf16>
    %1 = arith.subf %0, %cst : tensor<4xf16>
    %2 = arith.mulf %1, %cst_0 : tensor<4xf16>
    return %2 : tensor<4xf16>
  }
}

// -----

module {
  func.func @q(%arg0: tensor<?x3x?xbf16>) -> tensor<?x3x?xi8> {
    %c2 = arith.constant 2 : index
    %cst = arith.constant 1.000980e-01 : bf16
    %c-56_i8 = arith.constant -56 : i8
    %c0 = arith.constant 0 : index
    %dim = tensor.dim %arg0, %c0 : tensor<?x3x?xbf16>
    %dim_0 = tensor.dim %arg0, %c2 : tensor<?x3x?xbf16>
    %splat = tensor.splat %cst[%dim, %dim_0] : tensor<?x3x?xbf16>
    %0 = arith.divf %arg0, %splat : tensor<?x3x?xbf16>
    %splat_1 = tensor.splat %c-56_i8[%dim, %dim_0] : tensor<?x3x?xi8>
    %1 = arith.uitofp %splat_1 : tensor<?x3x?xi8> to tensor<?x3x?xbf16>
    %2 = arith.addf %0, %1 : tensor<?x3x?xbf16>
    %3 = arith.fptoui %2 : tensor<?x3x?xbf16> to tensor<?x3x?xi8>
    return %3 : tensor<?x3x?xi8>
  }
  func.func @d(%arg0: tensor<?x3x?xi8>) -> tensor<?x3x?xbf16> {
    %c2 = arith.constant 2 : index
    %c0 = arith.constant 0 : index
    %c-56_i8 = arith.constant -56 : i8
    %cst = arith.constant 1.000980e-01 : bf16
    %dim = tensor.dim %arg0, %c0 : tensor<?x3x?xi8>
    %dim_0 = tensor.dim %arg0, %c2 : tensor<?x3x?xi8>
    %splat = tensor.splat %cst[%dim, %dim_0] : tensor<?x3x?xbf16>
    %0 = arith.uitofp %arg0 : tensor<?x3x?xi8> to tensor<?x3x?xbf16>
    %splat_1 = tensor.splat %c-56_i8[%dim, %dim_0] : tensor<?x3x?xi8>
    %1 = arith.uitofp %splat_1 : tensor<?x3x?xi8> to tensor<?x3x?xbf16>
    %2 = arith.subf %0, %1 : tensor<?x3x?xbf16>
    %3 = arith.mulf %2, %splat : tensor<?x3x?xbf16>
    return %3 : tensor<?x3x?xbf16>
  }
}

// -----

module {
  func.func @q(%arg0: tensor<f64>) -> tensor<i4> {
    %cst = arith.constant dense<-2.000000e+00> : tensor<f64>
    %cst_0 = arith.constant dense<3.000000e-01> : tensor<f64>
    %0 = arith.divf %arg0, %cst_0 : tensor<f64>
    %1 = arith.addf %0, %cst : tensor<f64>
    %2 = arith.fptosi %1 : tensor<f64> to tensor<i4>
    return %2 : tensor<i4>
  }
  func.func @d(%arg0: tensor<i4>) -> tensor<f64> {
    %cst = arith.constant dense<-2.000000e+00> : tensor<f64>
    %cst_0 = arith.constant dense<3.000000e-01> : tensor<f64>
    %0 = arith.sitofp %arg0 : tensor<i4> to tensor<f64>
    %1 = arith.subf %0, %cst : tensor<f64>
    %2 = arith.mulf %1, %cst_0 : tensor<f64>
    return %2 : tensor<f64>
  }
}

// -----

module {
  func.func @q(%arg0: tensor<*xf32>) -> tensor<*xi8> {
    %c1_i8 = arith.constant 1 : i8
    %cst = arith.constant 1.000000e-01 : f32
    %0 = shape.shape_of %arg0 : tensor<*xf32> -> tensor<?xindex>
    %1 = shape.num_elements %0 : tensor<?xindex> -> index
    %from_elements = tensor.from_elements %1 : tensor<1xindex>
    %reshape = tensor.reshape %arg0(%from_elements) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
    %splat = tensor.splat %cst[%1] : tensor<?xf32>
    %2 = arith.divf %reshape, %splat : tensor<?xf32>
    %splat_0 = tensor.splat %c1_i8[%1] : tensor<?xi8>
    %3 = arith.sitofp %splat_0 : tensor<?xi8> to tensor<?xf32>
    %4 = arith.addf %2, %3 : tensor<?xf32>
    %5 = arith.fptosi %4 : tensor<?xf32> to tensor<?xi8>
    %reshape_1 = tensor.reshape %5(%0) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
    return %reshape_1 : tensor<*xi8>
  }
  func.func @d(%arg0: tensor<*xi8>) -> tensor<*xf32> {
    %c1_i8 = arith.constant 1 : i8
    %cst = arith.constant 1.000000e-01 : f32
    %0 = shape.shape_of %arg0 : tensor<*xi8> -> tensor<?xindex>
    %1 = shape.num_elements %0 : tensor<?xindex> -> index
    %from_elements = tensor.from_elements %1 : tensor<1xindex>
    %reshape = tensor.reshape %arg0(%from_elements) : (tensor<*xi8>, tensor<1xindex>) -> tensor<?xi8>
    %splat = tensor.splat %cst[%1] : tensor<?xf32>
    %2 = arith.sitofp %reshape : tensor<?xi8> to tensor<?xf32>
    %splat_0 = tensor.splat %c1_i8[%1] : tensor<?xi8>
    %3 = arith.sitofp %splat_0 : tensor<?xi8> to tensor<?xf32>
    %4 = arith.subf %2, %3 : tensor<?xf32>
    %5 = arith.mulf %4, %splat : tensor<?xf32>
    %reshape_1 = tensor.reshape %5(%0) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>
    return %reshape_1 : tensor<*xf32>
  }
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
module {
  func.func @q(%arg0: tensor<2x?xf32>) -> tensor<2x?xi8> {
    %cst = arith.constant dense<[1.000000e-01, 2.000000e-01]> : tensor<2xf32>
    %cst_0 = arith.constant dense<[1, 0]> : tensor<2xi8>
    %c1 = arith.constant 1 : index
    %dim = tensor.dim %arg0, %c1 : tensor<2x?xf32>
    %0 = tensor.empty(%dim) : tensor<2x?xi8>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %cst, %cst_0 : tensor<2x?xf32>, tensor<2xf32>, tensor<2xi8>) outs(%0 : tensor<2x?xi8>) {
    ^bb0(%in: f32, %in_1: f32, %in_2: i8, %out: i8):
      %2 = arith.divf %in, %in_1 : f32
      %3 = arith.sitofp %in_2 : i8 to f32
      %4 = arith.addf %2, %3 : f32
      %5 = arith.fptosi %4 : f32 to i8
      linalg.yield %5 : i8
    } -> tensor<2x?xi8>
    return %1 : tensor<2x?xi8>
  }
  func.func @d(%arg0: tensor<2x?xi8>) -> tensor<2x?xf32> {
    %c1 = arith.constant 1 : index
    %cst = arith.constant dense<[1, 0]> : tensor<2xi8>
    %cst_0 = arith.constant dense<[1.000000e-01, 2.000000e-01]> : tensor<2xf32>
    %dim = tensor.dim %arg0, %c1 : tensor<2x?xi8>
    %0 = tensor.empty(%dim) : tensor<2x?xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %cst_0, %cst : tensor<2x?xi8>, tensor<2xf32>, tensor<2xi8>) outs(%0 : tensor<2x?xf32>) {
    ^bb0(%in: i8, %in_1: f32, %in_2: i8, %out: f32):
      %2 = arith.sitofp %in : i8 to f32
      %3 = arith.sitofp %in_2 : i8 to f32
      %4 = arith.subf %2, %3 : f32
      %5 = arith.mulf %4, %in_1 : f32
      linalg.yield %5 : f32
    } -> tensor<2x?xf32>
    return %1 : tensor<2x?xf32>
  }
}

// -----

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1)>
module {
  func.func @q(%arg0: tensor<*xf32>) -> tensor<*xi8> {
    %c127_i8 = arith.constant 127 : i8
    %cst = arith.constant dense<[1, 100, 3]> : tensor<3xi8>
    %cst_0 = arith.constant dense<[1.000000e-01, 2.000000e-01, 0x4CEB79A3]> : tensor<3xf32>
    %c3 = arith.constant 3 : index
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %0 = shape.shape_of %arg0 : tensor<*xf32> -> tensor<?xindex>
    %head, %tail = "shape.split_at"(%0, %c1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
    %1 = shape.num_elements %head : tensor<?xindex> -> index
    %head_1, %tail_2 = "shape.split_at"(%0, %c2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
    %2 = shape.num_elements %tail_2 : tensor<?xindex> -> index
    %from_elements = tensor.from_elements %1, %c3, %2 : tensor<3xindex>
    %reshape = tensor.reshape %arg0(%from_elements) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x3x?xf32>
    %3 = tensor.empty(%1, %2) : tensor<?x3x?xi8>
    %4 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%reshape, %cst_0, %cst : tensor<?x3x?xf32>, tensor<3xf32>, tensor<3xi8>) outs(%3 : tensor<?x3x?xi8>) {
    ^bb0(%in: f32, %in_4: f32, %in_5: i8, %out: i8):
      %5 = arith.divf %in, %in_4 : f32
      %6 = arith.uitofp %in_5 : i8 to f32
      %7 = arith.addf %5, %6 : f32
      %8 = arith.fptoui %7 : f32 to i8
      %9 = arith.minui %8, %c127_i8 : i8
      linalg.yield %9 : i8
    } -> tensor<?x3x?xi8>
    %reshape_3 = tensor.reshape %4(%0) : (tensor<?x3x?xi8>, tensor<?xindex>) -> tensor<*xi8>
    return %reshape_3 : tensor<*xi8>
  }
  func.func @d(%arg0: tensor<*xi8>) -> tensor<*xf32> {
    %cst = arith.constant dense<[1, 100, 3]> : tensor<3xi8>
    %cst_0 = arith.constant dense<[1.000000e-01, 2.000000e-01, 0x4CEB79A3]> : tensor<3xf32>
    %c3 = arith.constant 3 : index
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %0 = shape.shape_of %arg0 : tensor<*xi8> -> tensor<?xindex>
    %head, %tail = "shape.split_at"(%0, %c1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
    %1 = shape.num_elements %head : tensor<?xindex> -> index
    %head_1, %tail_2 = "shape.split_at"(%0, %c2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
    %2 = shape.num_elements %tail_2 : tensor<?xindex> -> index
    %from_elements = tensor.from_elements %1, %c3, %2 : tensor<3xindex>
    %reshape = tensor.reshape %arg0(%from_elements) : (tensor<*xi8>, tensor<3xindex>) -> tensor<?x3x?xi8>
    %3 = tensor.empty(%1, %2) : tensor<?x3x?xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%reshape, %cst_0, %cst : tensor<?x3x?xi8>, tensor<3xf32>, tensor<3xi8>) outs(%3 : tensor<?x3x?xf32>) {
    ^bb0(%in: i8, %in_4: f32, %in_5: i8, %out: f32):
      %5 = arith.uitofp %in : i8 to f32
      %6 = arith.uitofp %in_5 : i8 to f32
      %7 = arith.subf %5, %6 : f32
      %8 = arith.mulf %7, %in_4 : f32
      linalg.yield %8 : f32
    } -> tensor<?x3x?xf32>
    %reshape_3 = tensor.reshape %4(%0) : (tensor<?x3x?xf32>, tensor<?xindex>) -> tensor<*xf32>
    return %reshape_3 : tensor<*xf32>
  }
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0, d1 floordiv 2)>
module {
  func.func @q(%arg0: tensor<2x?xf32>) -> tensor<2x?xi4> {
    %cst = arith.constant dense<[[1.000000e-01, 2.000000e-01], [3.000000e-01, 4.000000e-01]]> : tensor<2x2xf32>
    %cst_0 = arith.constant dense<[[1, -2], [3, 0]]> : tensor<2x2xi4>
    %c1 = arith.constant 1 : index
    %dim = tensor.dim %arg0, %c1 : tensor<2x?xf32>
    %0 = tensor.empty(%dim) : tensor<2x?xi4>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %cst, %cst_0 : tensor<2x?xf32>, tensor<2x2xf32>, tensor<2x2xi4>) outs(%0 : tensor<2x?xi4>) {
    ^bb0(%in: f32, %in_1: f32, %in_2: i4, %out: i4):
      %2 = arith.divf %in, %in_1 : f32
      %3 = arith.sitofp %in_2 : i4 to f32
      %4 = arith.addf %2, %3 : f32
      %5 = arith.fptosi %4 : f32 to i4
      linalg.yield %5 : i4
    } -> tensor<2x?xi4>
    return %1 : tensor<2x?xi4>
  }
  func.func @d(%arg0: tensor<2x?xi4>) -> tensor<2x?xf32> {
    %c1 = arith.constant 1 : index
    %cst = arith.constant dense<[[1, -2], [3, 0]]> : tensor<2x2xi4>
    %cst_0 = arith.constant dense<[[1.000000e-01, 2.000000e-01], [3.000000e-01, 4.000000e-01]]> : tensor<2x2xf32>
    %dim = tensor.dim %arg0, %c1 : tensor<2x?xi4>
    %0 = tensor.empty(%dim) : tensor<2x?xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %cst_0, %cst : tensor<2x?xi4>, tensor<2x2xf32>, tensor<2x2xi4>) outs(%0 : tensor<2x?xf32>) {
    ^bb0(%in: i4, %in_1: f32, %in_2: i4, %out: f32):
      %2 = arith.sitofp %in : i4 to f32
      %3 = arith.sitofp %in_2 : i4 to f32
      %4 = arith.subf %2, %3 : f32
      %5 = arith.mulf %4, %in_1 : f32
      linalg.yield %5 : f32
    } -> tensor<2x?xf32>
    return %1 : tensor<2x?xf32>
  }
}

// -----

#map = affine_map<(d0) -> (d0)>
module {
  func.func @q(%arg0: tensor<3xf64>) -> tensor<3xi24> {
    %cst = arith.constant dense<[1.000000e-01, 2.000000e-01, 1.000000e-30]> : tensor<3xf64>
    %cst_0 = arith.constant dense<[0, -70000, 2]> : tensor<3xi24>
    %0 = tensor.empty() : tensor<3xi24>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel"]} ins(%arg0, %cst, %cst_0 : tensor<3xf64>, tensor<3xf64>, tensor<3xi24>) outs(%0 : tensor<3xi24>) {
    ^bb0(%in: f64, %in_1: f64, %in_2: i24, %out: i24):
      %2 = arith.divf %in, %in_1 : f64
      %3 = arith.sitofp %in_2 : i24 to f64
      %4 = arith.addf %2, %3 : f64
      %5 = arith.fptosi %4 : f64 to i24
      linalg.yield %5 : i24
    } -> tensor<3xi24>
    return %1 : tensor<3xi24>
  }
  func.func @d(%arg0: tensor<3xi24>) -> tensor<3xf64> {
    %cst = arith.constant dense<[0, -70000, 2]> : tensor<3xi24>
    %cst_0 = arith.constant dense<[1.000000e-01, 2.000000e-01, 1.000000e-30]> : tensor<3xf64>
    %0 = tensor.empty() : tensor<3xf64>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel"]} ins(%arg0, %cst_0, %cst : tensor<3xi24>, tensor<3xf64>, tensor<3xi24>) outs(%0 : tensor<3xf64>) {
    ^bb0(%in: i24, %in_1: f64, %in_2: i24, %out: f64):
      %2 = arith.sitofp %in : i24 to f64
      %3 = arith.sitofp %in_2 : i24 to f64
      %4 = arith.subf %2, %3 : f64
      %5 = arith.mulf %4, %in_1 : f64
      linalg.yield %5 : f64
    } -> tensor<3xf64>
    return %1 : tensor<3xf64>
  }
}

// -----

module {
  func.func @q(%arg0: f8E4M3FN) -> i1 {
    %cst = arith.constant -1.000000e+00 : f8E4M3FN
    %cst_0 = arith.constant 5.000000e-01 : f8E4M3FN
    %0 = arith.divf %arg0, %cst_0 : f8E4M3FN
    %1 = arith.addf %0, %cst : f8E4M3FN
    %2 = arith.fptosi %1 : f8E4M3FN to i1
    return %2 : i1
  }
  func.func @d(%arg0: i1) -> f8E4M3FN {
    %cst = arith.constant -1.000000e+00 : f8E4M3FN
    %cst_0 = arith.constant 5.000000e-01 : f8E4M3FN
    %0 = arith.sitofp %arg0 : i1 to f8E4M3FN
    %1 = arith.subf %0, %cst : f8E4M3FN
    %2 = arith.mulf %1, %cst_0 : f8E4M3FN
    return %2 : f8E4M3FN
  }
}
"""
"""
What `mlir-opt --lower-quant-ops --strip-func-quant-types --canonicalize` makes of a qcast
and a dcast with these types, in this order:

scalar, i8<-100:100>:f32 · tensor<4x>, i16:f16 · tensor<?x3x?x>, u8:bf16 · tensor<>, i4:f64 ·
tensor<*x>, i8:f32 · per-axis tensor<2x?x>, i8:f32 · per-axis tensor<*x>, u8<0:127>:f32 ·
sub-channel tensor<2x?x>, i4:f32 · per-axis tensor<3x>, i24:f64 · scalar, i1:f8E4M3FN
"""


def test_stock_xdsl_opt_reads_what_mlir_has_lowered(mlir: Mlir):
    printed = run("xdsl-opt", "--split-input-file", stdin=LOWERED)
    ours, originals = printed.split(SEPARATOR), LOWERED.strip("\n").split(SEPARATOR)
    assert len(ours) == len(originals) == 10
    for text, original in zip(ours, originals, strict=True):
        assert accepted(mlir, text) == original.strip("\n")
    # It also reads what it has printed itself.
    assert run("xdsl-opt", "--split-input-file", stdin=printed) == printed


def test_stock_xdsl_opt_reads_the_generic_form(mlir: Mlir):
    printed = run("xdsl-opt", "--split-input-file", "--print-op-generic", stdin=LOWERED)
    for text, original in zip(
        printed.split(SEPARATOR), LOWERED.strip("\n").split(SEPARATOR), strict=True
    ):
        assert accepted(mlir, text) == original.strip("\n")


def test_stock_xdsl_run_reads_a_lowered_module(tmp_path: Path):
    file = tmp_path / "lowered.mlir"
    file.write_text(
        """
        func.func @lowered(%x: tensor<4xi8>) -> tensor<4xf32> {
          %0 = arith.sitofp %x : tensor<4xi8> to tensor<4xf32>
          func.return %0 : tensor<4xf32>
        }
        func.func @main() -> i32 {
          %0 = arith.constant 42 : i32
          func.return %0 : i32
        }
        """
    )
    assert run("xdsl-run", "--verbose", str(file)) in (
        "result: 42\n",
        # xDSL 0.75 prints the type.
        "result: 42 : i32\n",
    )
