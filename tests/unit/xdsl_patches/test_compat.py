"""
The fixes of xDSL: what is valid and printed after them is what MLIR says, stock tools
have them when they read lowered modules, and none of them touches an xDSL that behaves.
"""
# ruff: noqa: E501 - the modules are as MLIR prints them

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp, ExtSIOp
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float80Type,
    Float128Type,
    FloatAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    f32,
    f80,
    f128,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.traits import is_side_effect_free
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.universe import Universe
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.conformance.answers import Accepted, Rejected
from tests.conformance.real_mlir import Mlir
from xdsl_quant.xdsl_patches import compat

compat.apply_all()

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
  func.func @q(%arg0: tensor<3xf80>) -> tensor<3xi24> {
    %cst = arith.constant dense<[0.100000000000000005551, 0.200000000000000011102, 1.00000000000000008334E-30]> : tensor<3xf80>
    %cst_0 = arith.constant dense<[0, -70000, 2]> : tensor<3xi24>
    %0 = tensor.empty() : tensor<3xi24>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel"]} ins(%arg0, %cst, %cst_0 : tensor<3xf80>, tensor<3xf80>, tensor<3xi24>) outs(%0 : tensor<3xi24>) {
    ^bb0(%in: f80, %in_1: f80, %in_2: i24, %out: i24):
      %2 = arith.divf %in, %in_1 : f80
      %3 = arith.sitofp %in_2 : i24 to f80
      %4 = arith.addf %2, %3 : f80
      %5 = arith.fptosi %4 : f80 to i24
      linalg.yield %5 : i24
    } -> tensor<3xi24>
    return %1 : tensor<3xi24>
  }
  func.func @d(%arg0: tensor<3xi24>) -> tensor<3xf80> {
    %cst = arith.constant dense<[0, -70000, 2]> : tensor<3xi24>
    %cst_0 = arith.constant dense<[0.100000000000000005551, 0.200000000000000011102, 1.00000000000000008334E-30]> : tensor<3xf80>
    %0 = tensor.empty() : tensor<3xf80>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel"]} ins(%arg0, %cst_0, %cst : tensor<3xi24>, tensor<3xf80>, tensor<3xi24>) outs(%0 : tensor<3xf80>) {
    ^bb0(%in: i24, %in_1: f80, %in_2: i24, %out: f80):
      %2 = arith.sitofp %in : i24 to f80
      %3 = arith.sitofp %in_2 : i24 to f80
      %4 = arith.subf %2, %3 : f80
      %5 = arith.mulf %4, %in_1 : f80
      linalg.yield %5 : f80
    } -> tensor<3xf80>
    return %1 : tensor<3xf80>
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
sub-channel tensor<2x?x>, i4:f32 · per-axis tensor<3x>, i24:f80 · scalar, i1:f8E4M3FN
"""


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as mlir:
        yield mlir


def context() -> Context:
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    return ctx


def parse(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


def run(*command: str, stdin: str | None = None) -> str:
    """Run a tool of this environment in a process that knows nothing of this one."""
    executable, *arguments = command
    path = (
        sys.executable
        if executable == "python"
        else shutil.which(executable, path=str(Path(sys.executable).parent))
    )
    assert path is not None
    result = subprocess.run(
        [path, *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    assert not result.returncode, result.stderr
    return result.stdout


def accepted(mlir: Mlir, text: str) -> str:
    """What MLIR prints for a module."""
    answer = mlir.run(text)
    assert isinstance(answer, Accepted), answer
    return answer.text


# ----------------------------------------------------------------- tools and contexts


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
    assert run("xdsl-run", "--verbose", str(file)) == "result: 42\n"


CAST = """
from xdsl.utils.exceptions import VerifyException

def is_fixed(arith):
    from xdsl.dialects.builtin import TensorType, f32, i8
    from xdsl.ir import Block

    operands = Block(arg_types=[TensorType(i8, [2])]).args
    result_types = [TensorType(f32, [2])]
    op = arith.SIToFPOp.build(operands=operands, result_types=result_types)
    try:
        op.verify_()
    except VerifyException:
        return False
    return True
"""


def test_a_dialect_is_fixed_when_a_context_loads_it():
    script = """
import xdsl_quant.universe
from xdsl.context import Context
from xdsl.dialects import arith, get_all_dialects

print(is_fixed(arith))
ctx = Context()
ctx.register_dialect("arith", get_all_dialects()["arith"])
print(is_fixed(arith))
ctx.load_registered_dialect("arith")
print(is_fixed(arith))
"""
    assert run("python", "-c", CAST + script).split() == ["False", "False", "True"]


def test_a_dialect_is_fixed_when_it_is_loaded_by_hand():
    script = """
import xdsl_quant.universe
from xdsl.context import Context
from xdsl.dialects import arith

Context().load_dialect(arith.Arith)
print(is_fixed(arith))
"""
    assert run("python", "-c", CAST + script).split() == ["True"]


def test_a_dialect_that_was_imported_before_is_fixed_at_once():
    script = """
from xdsl.dialects import arith
print(is_fixed(arith))
import xdsl_quant.universe
print(is_fixed(arith))
"""
    assert run("python", "-c", CAST + script).split() == ["False", "True"]


def test_contexts_are_changed_once():
    compat.apply_on_load()
    load = Context.load_registered_dialect
    compat.apply_on_load()
    assert Context.load_registered_dialect is load


# --------------------------------------------------------------------- doing nothing

SNAPSHOT = """
import math
import re

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, tensor
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.irdl import AnyAttr, IRDLOperation, OperandDef, ResultDef
from xdsl.parser import AttrParser
from xdsl.traits import NoMemoryEffect, RecursiveMemoryEffect
from xdsl.utils.exceptions import ParseError
from xdsl.utils.mlir_lexer import MLIRLexer

from xdsl_quant.xdsl_patches import compat

CASTS = (
    arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp,
    arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp,
)
CLASSES = (
    arith.Arith, *CASTS, tensor.ReshapeOp, tensor.EmptyOp, GenericOp, func.FuncOp,
    builtin.Float80Type, builtin.Float128Type, builtin.DenseIntOrFPElementsAttr,
    AttrParser, AttrParser._TensorLiteralElement, MLIRLexer,
)

def snapshot(class_):
    if class_ is arith.Arith:
        return [op_type.name for op_type in class_.operations]
    members = {name: id(value) for name, value in vars(class_).items()}
    if not issubclass(class_, IRDLOperation):
        return members
    definition = class_.get_irdl_definition()
    constraints = [id(d) for _, d in (*definition.operands, *definition.results)]
    return members, constraints, definition.traits.traits

def changed(action):
    before = [snapshot(class_) for class_ in CLASSES]
    action()
    after = [snapshot(class_) for class_ in CLASSES]
    return [getattr(c, '__name__', 'Arith') for c, b, a in zip(CLASSES, before, after) if b != a]
"""

FIXES: Sequence[tuple[str, Sequence[str]]] = (
    ("name_prefixes_in_errors", ("MLIRLexer",)),
    ("read_unclosed_strings_in_linear_time", ("MLIRLexer",)),
    ("store_wide_floats", ("Float80Type", "Float128Type")),
    ("compare_splats_by_bits", ("DenseIntOrFPElementsAttr",)),
    ("parse_dense_hexadecimal_floats", ("_TensorLiteralElement",)),
    ("exchange_packed_integers", ("DenseIntOrFPElementsAttr", "AttrParser")),
    ("name_resources_once", ("AttrParser",)),
    ("widen_arith_conversions", ("SIToFPOp", "UIToFPOp", "FPToSIOp", "FPToUIOp")),
    ("widen_arith_width_casts", ("ExtSIOp", "ExtUIOp", "TruncIOp")),
    ("make_arith_extsi_pure", ("ExtSIOp",)),
    ("arith_remf", ("Arith",)),
    ("keep_declaration_attributes", ("FuncOp",)),
    ("make_linalg_generic_effects_known", ("GenericOp",)),
    ("widen_tensor_reshape", ("ReshapeOp",)),
    ("keep_tensor_empty_attributes", ("EmptyOp",)),
)
"""Each fix and the classes of xDSL 0.74 that it changes."""


def test_each_fix_changes_xdsl_once():
    script = """
import json, sys
print(json.dumps([
    [name, changed(getattr(compat, name)), changed(getattr(compat, name))]
    for name in sys.argv[1:]
]))
print(json.dumps(changed(compat.apply_all)))
"""
    lines = run("python", "-c", SNAPSHOT + script, *(name for name, _ in FIXES))
    each, all_together = map(json.loads, lines.splitlines())
    for (name, classes), (name_, first, second) in zip(FIXES, each, strict=True):
        assert name == name_
        # Should the first of these fail after an update of xDSL: remove the fix.
        assert sorted(first) == sorted(classes), name
        assert second == [], name
    assert all_together == []


def test_an_xdsl_that_behaves_is_left_alone():
    script = """
import json

def accept(*_):
    pass

def refuse(*_):
    raise ParseError(None, "Expected suffix identifier after %")

for class_ in (*CASTS, tensor.ReshapeOp):
    definition = class_.get_irdl_definition()
    definition.operands[0] = ("input", OperandDef(AnyAttr()))
    definition.results[0] = ("result", ResultDef(AnyAttr()))
    class_.verify_ = accept
arith.ExtSIOp.traits.add_trait(NoMemoryEffect())
arith.Arith._operations.append(type("RemFOp", (), {"name": "arith.remf"}))
GenericOp.traits.add_trait(RecursiveMemoryEffect())
tensor.EmptyOp.print = lambda self, printer: printer.print_attr_dict(self.attributes)
func.FuncOp.print = lambda self, printer: printer.print_attr_dict(self.properties)
for class_ in (builtin.Float80Type, builtin.Float128Type):
    class_.pack = lambda self, values: b""
builtin.DenseIntOrFPElementsAttr.is_splat = lambda self: False
builtin.DenseIntOrFPElementsAttr.print_without_type = (
    lambda self, printer: printer.print_string(f'dense<"0x01{"00" * 12}">')
)
MLIRLexer._lex_prefixed_ident = refuse
MLIRLexer._unescaped_characters_regex = re.compile('"[^"]*+"')
AttrParser._TensorLiteralElement.to_type = lambda self, parser, type: math.inf
AttrParser._parse_dialect_resource_handle = lambda self, name, interface: "a_0"
print(json.dumps(changed(compat.apply_all)))
"""
    assert json.loads(run("python", "-c", SNAPSHOT + script)) == []


# ----------------------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("%", "%"),
        ("func.func @f(%x: !) { return }", "!"),
        ("func.func @f() { ^ }", "^"),
        ("module attributes {a = #} {}", "#"),
    ],
)
def test_prefix_without_a_name(text: str, prefix: str):
    printed = run("xdsl-opt", "--parsing-diagnostics", stdin=text)
    assert f"Expected suffix identifier after {prefix}\n" in printed


def test_string_that_is_not_closed():
    """xDSL alone would need hours for it."""
    text = '!q = !quant.uniform<i8:f32, 1.0">  // a stray quote and a long comment about it'
    printed = run("xdsl-opt", "--parsing-diagnostics", stdin=text)
    assert "End of file reached before closing string literal." in printed


# ----------------------------------------------------------------------- arith, tensor


def message(text: str) -> str | None:
    """What xDSL's verifier says about the first op in the body of a function."""
    try:
        function = parse(text).body.block.first_op
    except VerifyException as error:
        # Declarative formats check operands while they are parsed.
        return str(error)
    assert isinstance(function, FuncOp)
    op = function.body.block.first_op
    assert op is not None
    try:
        op.verify_()
    except VerifyException as error:
        return str(error)
    return None


def casts() -> Iterator[tuple[str, str, str]]:
    shapes = (
        "{}",
        "tensor<4x{}>",
        "tensor<?x{}>",
        "tensor<2x2x{}>",
        "tensor<{}>",
        'tensor<4x{}, "encoding">',
        "vector<4x{}>",
        "vector<[4]x{}>",
        "vector<5x{}>",
        "tensor<*x{}>",
        "memref<4x{}>",
    )
    for op, source, result in (
        ("arith.sitofp", "i8", "f32"),
        ("arith.uitofp", "i4", "f64"),
        ("arith.fptosi", "bf16", "i16"),
        ("arith.fptoui", "f8E4M3FN", "i1"),
        ("arith.extsi", "i8", "i32"),
        ("arith.extui", "i8", "i16"),
        ("arith.trunci", "i32", "i8"),
    ):
        for source_shape in shapes:
            for result_shape in shapes:
                yield op, source_shape.format(source), result_shape.format(result)
    yield from (
        ("arith.extsi", "tensor<4xi8>", "tensor<4xi8>"),
        ("arith.extui", "tensor<4xi16>", "tensor<4xi8>"),
        ("arith.trunci", "vector<4xi8>", "vector<4xi8>"),
        ("arith.sitofp", "tensor<4xf32>", "tensor<4xf32>"),
        ("arith.sitofp", "tensor<4xsi8>", "tensor<4xf32>"),
        ("arith.sitofp", "tensor<4xindex>", "tensor<4xf32>"),
        ("arith.fptosi", "tensor<4xf32>", "tensor<4xui8>"),
        ("arith.fptosi", "tensor<4xf32>", "tensor<4xf32>"),
    )


def test_casts_are_valid_where_they_are_in_mlir(mlir: Mlir):
    valid = 0
    for op, source, result in casts():
        text = f"""func.func @f(%x: {source}) {{
          %0 = {op} %x : {source} to {result}
          func.return
        }}"""
        answer = mlir.run(text)
        said = message(text)
        if isinstance(answer, Accepted):
            assert said is None, text
            valid += 1
            continue
        assert said is not None, text
        # Kinds of types are rejected earlier, in the words of xDSL.
        if said.startswith("'arith."):
            assert isinstance(answer, Rejected)
            assert said == answer.message, text
    assert valid == 7 * 9


@pytest.mark.parametrize(
    ("source", "result", "said"),
    [
        (
            "tensor<4xi8>",
            "tensor<3xf32>",
            "'arith.sitofp' op failed to verify that input and output have the same "
            "tensor dimensions",
        ),
        (
            "vector<4xi8>",
            "vector<3xf32>",
            "'arith.sitofp' op requires the same shape for all operands and results",
        ),
        (
            'tensor<4xi8, "a">',
            "tensor<4xf32>",
            "'arith.sitofp' op operand type 'tensor<4xi8, \"a\">' and result type "
            "'tensor<4xf32>' are cast incompatible",
        ),
    ],
)
def test_casts_to_another_shape_are_rejected(source: str, result: str, said: str):
    text = f"""func.func @f(%x: {source}) {{
      %0 = arith.sitofp %x : {source} to {result}
      func.return
    }}"""
    assert message(text) == said


def test_extsi_is_pure():
    (narrow,) = Block(arg_types=[IntegerType(8)]).args
    assert is_side_effect_free(ExtSIOp(narrow, IntegerType(32)))


def reshape(source: str, shape: str, result: str) -> str:
    return f"""func.func @f(%x: {source}, %s: {shape}) {{
      %0 = tensor.reshape %x(%s) : ({source}, {shape}) -> {result}
      func.return
    }}"""


def test_reshapes_are_valid_where_they_are_in_mlir(mlir: Mlir):
    valid = 0
    tensors = ("*", "?", "4", "2x2", "?x2", "2x3", "")
    shapes = ("tensor<?xindex>", "tensor<1xindex>", "tensor<2xi32>", "tensor<0xindex>")
    types = [f"tensor<{t}xf32>" if t else "tensor<f32>" for t in tensors]
    types += ["tensor<4xf64>", "tensor<*xf64>", "vector<4xf32>"]
    for source in types:
        for shape in (*shapes, "tensor<2x2xindex>", "tensor<*xindex>", "tensor<2xf32>"):
            for result in types:
                text = reshape(source, shape, result)
                answer, said = mlir.run(text), message(text)
                assert isinstance(answer, Accepted) == (said is None), (text, said)
                valid += said is None
    assert valid == 70


@pytest.mark.parametrize(
    ("shape", "result", "said"),
    [
        (
            "tensor<?xindex>",
            "tensor<?xf32>",
            "cannot use shape operand with dynamic length to reshape to "
            "statically-ranked tensor type",
        ),
        (
            "tensor<2xindex>",
            "tensor<?xf32>",
            "length of shape operand differs from the result's tensor rank",
        ),
        (
            "tensor<1xindex>",
            "tensor<?xi8>",
            "element types of source and destination tensor types should be the same",
        ),
    ],
)
def test_reshapes_are_rejected_in_the_words_of_mlir(
    mlir: Mlir, shape: str, result: str, said: str
):
    text = reshape("tensor<*xf32>", shape, result)
    answer = mlir.run(text)
    assert isinstance(answer, Rejected)
    assert answer.message == f"'tensor.reshape' op {said}"
    assert message(text) == said


EMPTY = """func.func @f(%d: index) {
  %0 = tensor.empty(%d, %d) {a.b, c.d = 2 : i8} : tensor<?x?xf32>
  %1 = tensor.empty() {a.b} : tensor<2xf32>
  %2 = tensor.empty() : tensor<2xf32>
  func.return
}"""


def test_attributes_of_tensor_empty_are_kept(mlir: Mlir):
    module = parse(EMPTY)
    for line in EMPTY.splitlines()[1:-2]:
        assert line in str(module)
    assert parse(str(module)).is_structurally_equivalent(module)
    assert accepted(mlir, str(module)) == accepted(mlir, EMPTY)


# ------------------------------------------------------------------------------ linalg


def generic(name: str, ins: str, outs: str, op: str, result: str) -> str:
    return f"""
  {name} linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}} ins({ins}) outs({outs}) {{
  ^bb0(%in: f32, %out: f32):
    {op}
    linalg.yield %y : f32
  }} {result}"""


ON_TENSORS = ("%x : tensor<4xf32>", "%e : tensor<4xf32>")
ON_BUFFERS = ("%m : memref<4xf32>", "%m : memref<4xf32>")
SQUARE = "%y = arith.mulf %in, %in : f32"
UNKNOWN_EFFECT = '%y = "test.op"(%in) : (f32) -> f32'
TO_TENSOR = "-> tensor<4xf32>"


def generics(*ops: str) -> ModuleOp:
    return parse(
        f"""func.func @f(%x: tensor<4xf32>, %m: memref<4xf32>) {{
        %e = tensor.empty() : tensor<4xf32>
        {"".join(ops)}
        func.return
        }}"""
    )


def count_generics(module: ModuleOp) -> int:
    return sum(op.name == "linalg.generic" for op in module.walk())


def remove_unused(module: ModuleOp) -> None:
    region_dce(module.body)


def canonicalize(module: ModuleOp) -> None:
    CanonicalizePass().apply(context(), module)


@pytest.mark.parametrize("remove_dead", [remove_unused, cse, canonicalize])
@pytest.mark.parametrize(
    ("op", "left"),
    [
        (generic("%0 =", *ON_TENSORS, SQUARE, TO_TENSOR), 0),
        (generic("%0 =", *ON_TENSORS, UNKNOWN_EFFECT, TO_TENSOR), 1),
        (generic("", *ON_BUFFERS, SQUARE, ""), 1),
    ],
)
def test_dead_generics_on_tensors_are_removed(
    remove_dead: Callable[[ModuleOp], object], op: str, left: int
):
    module = generics(op)
    remove_dead(module)
    assert count_generics(module) == left


def test_repeated_generics_on_tensors_become_one():
    def use(name: str) -> str:
        return f'\n"test.op"({name}) : (tensor<4xf32>) -> ()'

    module = generics(
        generic("%0 =", *ON_TENSORS, SQUARE, TO_TENSOR),
        generic("%1 =", *ON_TENSORS, SQUARE, TO_TENSOR),
        generic("%2 =", *ON_TENSORS, "%y = arith.addf %in, %in : f32", TO_TENSOR),
        use("%0"),
        use("%1"),
        use("%2"),
    )
    cse(module)
    assert count_generics(module) == 2
    used = [op.operands[0] for op in module.walk() if op.name == "test.op"]
    assert used[0] is used[1]
    assert used[1] is not used[2]


# -------------------------------------------------------------------------------- func

DECLARATIONS = (
    "func.func private @a(f32 {a.b}, i8) -> (f32 {c.d = 1 : i8}) attributes {x.y}",
    "func.func private @b(f32, i8 {a.b}) -> f32",
    "func.func private @c(f32) -> (f32, i8 {c.d})",
    'func.func private @d(f32 {a.b = "text", c.d})',
    "func.func private @e() -> (f32 {c.d})",
    "func.func private @f(f32, i8) -> (f32, i8)",
    "func.func private @g()",
)


@pytest.mark.parametrize("text", DECLARATIONS)
def test_attributes_of_declarations_are_kept(mlir: Mlir, text: str):
    module = parse(text)
    if "{a.b" in text or "{c.d" in text:
        assert text in str(module)
    assert parse(str(module)).is_structurally_equivalent(module)
    assert accepted(mlir, str(module)) == accepted(mlir, text)


def test_attributes_of_definitions_are_kept():
    text = "func.func @f(%x: f32 {a.b}) -> (f32 {c.d}) {\n    func.return %x : f32"
    assert text in str(parse(text + "}"))


def test_named_arguments_of_declarations_are_read(mlir: Mlir):
    text = "func.func private @f(%x: f32 {a.b}, %y: i8) -> f32"
    assert accepted(mlir, str(parse(text))) == accepted(mlir, text)


def test_locations_of_declared_arguments_are_skipped():
    module = parse('func.func private @f(f32 {a.b} loc("file":1:2), i8 loc(unknown))')
    assert "func.func private @f(f32 {a.b}, i8)" in str(module)


# --------------------------------------------------------------------------- constants

DOUBLES = (
    1.0,
    -0.1,
    0.0,
    -0.0,
    1e-300,
    5e-324,
    sys.float_info.max,
    1 / 3,
    -123456789.0,
)


def bits(type_: str, value: float) -> str:
    float_type = {"f80": f80, "f128": f128}[type_]
    return f"0x{float_type.pack((value,))[::-1].hex().upper()}"


@pytest.mark.parametrize("type_", ["f80", "f128"])
@pytest.mark.parametrize("value", DOUBLES)
def test_wide_floats_have_the_bits_of_mlir(mlir: Mlir, type_: str, value: float):
    decimal = f"{value!r}" if "." in f"{value!r}" else f"{value:.17e}"
    module = "func.func private @f() attributes {{a.b = {} : {}}}"
    by_bits = accepted(mlir, module.format(bits(type_, value), type_))
    assert by_bits == accepted(mlir, module.format(decimal, type_))

    attribute = Parser(context(), f"{bits(type_, value)} : {type_}").parse_attribute()
    float_type = {"f80": f80, "f128": f128}[type_]
    # Attributes compare floats by their bits.
    assert attribute == FloatAttr(value, float_type)
    assert accepted(mlir, module.format(str(attribute).split()[0], type_)) == by_bits


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x3FFF8000000000000000 : f80", 1.0),
        ("0x7FFF8000000000000000 : f80", math.inf),
        ("0xFFFF8000000000000000 : f80", -math.inf),
        ("0x3FFF0000000000000000000000000000 : f128", 1.0),
        ("0x7FFF0000000000000000000000000000 : f128", math.inf),
        # These are too large and too small for a float of Python.
        ("0x7FFE8000000000000000 : f80", math.inf),
        ("0x00000000000000000001 : f80", 0.0),
        ("0xFFFE0000000000000000000000000000 : f128", -math.inf),
    ],
)
def test_wide_floats_are_read(text: str, value: float):
    attribute = Parser(context(), text).parse_attribute()
    assert isinstance(attribute, FloatAttr)
    assert attribute.value.data == value


@pytest.mark.parametrize("float_type", [f80, f128])
def test_wide_nans(float_type: Float80Type | Float128Type):
    data = float_type.pack((math.nan, 1.0))
    assert list(map(math.isnan, float_type.unpack(data, 2))) == [True, False]
    assert math.isnan(next(float_type.iter_unpack(data)))


@pytest.mark.parametrize(("float_type", "size"), [(f80, 10), (f128, 16)])
def test_wide_floats_are_stored_in_buffers(
    float_type: Float80Type | Float128Type, size: int
):
    assert (float_type.compile_time_size, float_type.size) == (size, size)
    buffer = bytearray(3 * size)
    float_type.pack_into(buffer, size, 0.1)
    assert float_type.unpack(buffer, 3) == (0.0, 0.1, 0.0)
    with pytest.raises(ValueError, match="too small for packing"):
        float_type.pack_into(buffer, 3 * size - 1, 0.1)
    with pytest.raises(ValueError, match=f"element size {size} and num 2"):
        float_type.unpack(buffer, 2)
    with pytest.raises(ValueError, match=f"not multiple of {float_type.name}"):
        float_type.iter_unpack(buffer[1:])


def dense(text: str) -> DenseIntOrFPElementsAttr:
    attribute = Parser(context(), text).parse_attribute()
    return cast(DenseIntOrFPElementsAttr, attribute)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("dense<[0x4CEB79A3, 1.0]> : tensor<2xf32>", (123456792.0, 1.0)),
        ("dense<0x4CEB79A3> : tensor<2xf32>", (123456792.0, 123456792.0)),
        (
            "dense<[[0xFF800000], [0x7F800000]]> : tensor<2x1xf32>",
            (-math.inf, math.inf),
        ),
        ("dense<[0x3C00, 0x8000]> : tensor<2xf16>", (1.0, -0.0)),
        ("dense<0x419D6F3454000000> : tensor<1xf64>", (123456789.0,)),
        ("dense<0x3FFF8000000000000000> : tensor<1xf80>", (1.0,)),
        ("dense<[0x38, 2.0]> : vector<2xf8E4M3FN>", (1.0, 2.0)),
        ("dense<[0x10, 3]> : tensor<2xi32>", (16, 3)),
    ],
)
def test_dense_hexadecimal_floats(mlir: Mlir, text: str, values: tuple[float, ...]):
    attribute = dense(text)
    assert attribute.get_values() == values
    module = "func.func private @f() attributes {{a.b = {}}}"
    assert accepted(mlir, module.format(attribute)) == accepted(
        mlir, module.format(text)
    )
    assert dense(str(attribute)) == attribute


def test_dense_hexadecimal_floats_that_are_too_long():
    with pytest.raises(
        ParseError, match="hexadecimal float constant out of range for type"
    ):
        dense("dense<0x100000000> : tensor<1xf32>")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.0, -0.0), "dense<[0.000000e+00, -0.000000e+00]> : tensor<2xf32>"),
        ((-0.0, -0.0), "dense<-0.000000e+00> : tensor<2xf32>"),
        ((math.nan, math.nan), "dense<0x7fc00000> : tensor<2xf32>"),
    ],
)
def test_splats_have_the_same_bits(values: tuple[float, ...], text: str):
    attribute = DenseIntOrFPElementsAttr.from_list(TensorType(f32, (2,)), values)
    assert str(attribute) == text
    assert dense(text) == attribute


@pytest.mark.parametrize(
    "element_type",
    [
        *(IntegerType(width) for width in (1, 2, 4, 7, 8, 12, 16, 24, 31, 32, 48)),
        IntegerType(4, Signedness.SIGNED),
        IntegerType(4, Signedness.UNSIGNED),
    ],
    ids=str,
)
@pytest.mark.parametrize("count", [101, 104, 257])
def test_long_dense_integers_have_the_bytes_of_mlir(
    mlir: Mlir, element_type: IntegerType, count: int
):
    low, high = element_type.value_range()
    values = [
        low + (high - low) * 7 * index // 1000 % (high - low) for index in range(count)
    ]
    type_ = TensorType(element_type, (count,))
    attribute = DenseIntOrFPElementsAttr.from_list(type_, values)
    assert str(attribute).startswith('dense<"0x')

    module = "func.func private @f() attributes {{a.b = {}}}"
    if element_type == IntegerType(1):
        elements = ["true" if value & 1 else "false" for value in values]
    else:
        elements = list(map(str, values))
    listed = accepted(mlir, module.format(f"dense<[{', '.join(elements)}]> : {type_}"))
    assert accepted(mlir, module.format(attribute)) == listed
    assert dense(str(attribute)) == attribute
    function = parse(listed).body.block.first_op
    assert isinstance(function, FuncOp)
    assert function.attributes["a.b"] == attribute


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('dense<"0x09"> : tensor<200xi4>', -7),
        ('dense<"0xFF"> : tensor<200xi1>', -1),
        ('dense<"0xFFFFFF"> : tensor<3xi24>', -1),
        ('dense<"0x0F"> : tensor<3xui4>', 15),
    ],
)
def test_packed_splats_are_read(text: str, value: int):
    assert set(dense(text).get_values()) == {value}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('dense<"0x0102"> : tensor<3xi4>', "Shape mismatch in dense literal"),
        ('dense<"0x0102"> : tensor<3xi1>', "Shape mismatch in dense literal"),
        ('dense<"0x0G"> : tensor<1xi4>', "Hex string in denseAttr is invalid"),
        ('dense<"0x00"> : tensor<?xi4>', "should have a static shape"),
        ('dense<"0x00"> : i4', "Expected memref, vector or tensor type"),
    ],
)
def test_wrong_packed_integers_are_rejected(text: str, said: str):
    with pytest.raises(ParseError, match=said):
        dense(text)


@pytest.mark.parametrize(
    "text",
    [
        "dense<> : tensor<0xi4>",
        "dense<7> : tensor<200xi4>",
        "dense<[1, -2]> : tensor<2xi4>",
        "dense<true> : tensor<200xi1>",
        "dense<[true, false]> : tensor<2xi1>",
    ],
)
def test_short_packed_integers_are_printed_as_before(mlir: Mlir, text: str):
    assert str(dense(text)) == text
    module = f"func.func private @f() attributes {{a.b = {text}}}"
    assert text in accepted(mlir, module)


def test_constants_of_wide_floats_are_built_and_printed():
    constant = ConstantOp(FloatAttr(0.1, f80))
    assert str(constant) == "%0 = arith.constant 1.000000e-01 : f80"


def test_remf_is_known_to_a_fresh_process(tmp_path: Path):
    text = """\
builtin.module {
  func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
    %r = arith.remf %a, %a : tensor<4xf32>
    func.return %r : tensor<4xf32>
  }
}
"""
    file = tmp_path / "remf.mlir"
    file.write_text(text)
    assert run("xdsl-opt", str(file)).strip() == text.strip()
