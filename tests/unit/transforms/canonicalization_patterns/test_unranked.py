"""Lowered ops on unranked tensors are simplified as by MLIR."""
# ruff: noqa: E501 - the ops in one line

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import (
    CommonSubexpressionElimination,
)

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import op_name
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.rounding_mode import RoundingMode
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass

LOWERED = Path(__file__).with_name("unranked_lowered.mlir").read_text()
"""Three casts of unranked tensors in sequence, lowered one by one."""


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    xdsl_patches.apply()
    with Mlir() as mlir:
        yield mlir


def simplified(text: str) -> ModuleOp:
    """`canonicalize,cse`, once."""
    module, ctx = parse_module(text), multiverse_context()
    CanonicalizePass().apply(ctx, module)
    CommonSubexpressionElimination().apply(ctx, module)
    module.verify()
    return module


def counts(module: ModuleOp) -> Counter[str]:
    return Counter(map(op_name, module.walk()))


def by_mlir(mlir: Mlir, text: str) -> str:
    answer = mlir.run(text, "canonicalize,cse")
    assert isinstance(answer, Accepted), answer
    return answer.text


def test_casts_in_sequence_keep_one_shape(mlir: Mlir):
    module, expected = simplified(LOWERED), by_mlir(mlir, LOWERED)
    found = counts(module)
    assert found == counts(parse_module(expected))
    assert (found["shape.shape_of"], found["tensor.reshape"], found["tensor.dim"]) == (
        1,
        2,
        2,
    )
    # The ops are also used by the same ops.
    assert by_mlir(mlir, str(module)) == expected


PER_TENSOR = "!quant.uniform<i8:f32, 2.0:10>"
PER_AXIS = "!quant.uniform<i8:f32:1, {2.0:1, 4.0, 8.0:3}>"


def casts(*types: str) -> str:
    """Quantize and dequantize with each type in turn, and store with the last."""
    lines = ["%0 = tensor.cast %x : tensor<2x3xf32> to tensor<*xf32>"]
    for n, type_ in enumerate(types):
        if n:
            before = f"tensor<*x{types[n - 1]}>"
            lines.append(f"%{n} = quant.dcast %q{n - 1} : {before} to tensor<*xf32>")
        lines.append(
            f"%q{n} = quant.qcast %{n} : tensor<*xf32> to tensor<*x{type_}>",
        )
    last = f"tensor<*x{types[-1]}>"
    lines += [
        f"%s = quant.scast %q{len(types) - 1} : {last} to tensor<*xi8>",
        "%y = tensor.cast %s : tensor<*xi8> to tensor<2x3xi8>",
        "func.return %y : tensor<2x3xi8>",
    ]
    body = "\n".join(lines)
    return f"func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xi8> {{\n{body}\n}}"


SEQUENCES = (
    (PER_TENSOR,),
    (PER_AXIS,),
    (PER_TENSOR, PER_TENSOR),
    (PER_AXIS, PER_TENSOR),
    (PER_AXIS, PER_AXIS),
    (PER_TENSOR, PER_AXIS, PER_TENSOR),
)


def lowered(types: tuple[str, ...], rounding_mode: RoundingMode) -> ModuleOp:
    module = parse_module(casts(*types))
    LowerQuantOpsPass(rounding_mode=rounding_mode).apply(multiverse_context(), module)
    return module


@pytest.mark.parametrize("rounding_mode", ["truncate", "nearest-even"])
@pytest.mark.parametrize("types", SEQUENCES)
def test_the_same_ops_are_left_as_by_mlir(
    mlir: Mlir, types: tuple[str, ...], rounding_mode: RoundingMode
):
    text = str(lowered(types, rounding_mode))
    ours, expected = counts(simplified(text)), counts(parse_module(by_mlir(mlir, text)))
    # MLIR moves the constants in bodies out of them.
    del ours["arith.constant"], expected["arith.constant"]
    assert ours == expected


def test_simplified_ops_compute_the_same():
    module = lowered(SEQUENCES[-1], "nearest-even")
    x = np.asarray([[1, 20, -30], [4, 55, 70.5]], np.float32)
    (y,) = run_function(module, None, x)
    assert y.tolist() == [[10, 20, -6], [12, 38, 46]]
    ours = simplified(str(module))
    np.testing.assert_array_equal(run_function(ours, None, x), [y])
    np.testing.assert_array_equal(compile(ours)(x), y)


def function(body: str, result: str) -> str:
    """Ops on a tensor, an unranked tensor, shapes and an index; `%y` is the result."""
    return f"""func.func @f(%x: tensor<4xf32>, %u: tensor<*xf32>, %s: tensor<?xindex>,
        %t: tensor<1xindex>, %k: tensor<1xi32>, %i: index, %j: index) -> {result} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      {body}
      func.return %y : {result}
    }}"""


FLATTENED = (
    "%r = tensor.reshape %u(%t) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>\n"
)
UNRANKED = (
    "%r = tensor.reshape %u(%s) : (tensor<*xf32>, tensor<?xindex>) -> tensor<*xf32>\n"
)
BY_I32 = (
    "%r = tensor.reshape %u(%k) : (tensor<*xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
)
OF_4 = (
    "%r = tensor.reshape %x(%s) : (tensor<4xf32>, tensor<?xindex>) -> tensor<*xf32>\n"
)
PAIRS = "%e = tensor.from_elements %i, %j, %c1, %i : tensor<2x2xindex>\n"

SIMPLIFIED = {
    "shape of a reshape": (
        UNRANKED + "%y = shape.shape_of %r : tensor<*xf32> -> tensor<?xindex>",
        "tensor<?xindex>",
    ),
    "cast shape of a reshape": (
        "%r = tensor.reshape %u(%t) : (tensor<*xf32>, tensor<1xindex>) -> tensor<*xf32>\n"
        "%y = shape.shape_of %r : tensor<*xf32> -> tensor<?xindex>",
        "tensor<?xindex>",
    ),
    "shape that may be invalid": (
        UNRANKED + "%y = shape.shape_of %r : tensor<*xf32> -> !shape.shape",
        "!shape.shape",
    ),
    "shape of an argument": (
        "%y = shape.shape_of %u : tensor<*xf32> -> tensor<?xindex>",
        "tensor<?xindex>",
    ),
    "reshape of a reshape": (
        UNRANKED
        + "%y = tensor.reshape %r(%t) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>",
        "tensor<?xf32>",
    ),
    "reshape to the same type": (
        "%y = tensor.reshape %x(%t) : (tensor<4xf32>, tensor<1xindex>) -> tensor<4xf32>",
        "tensor<4xf32>",
    ),
    "reshape back to the same type": (
        OF_4
        + "%y = tensor.reshape %r(%t) : (tensor<*xf32>, tensor<1xindex>) -> tensor<4xf32>",
        "tensor<4xf32>",
    ),
    "reshape to an equal type of two dimensions": (
        "%e = tensor.from_elements %i, %j : tensor<2xindex>\n"
        "%r = tensor.cast %u : tensor<*xf32> to tensor<?x?xf32>\n"
        "%y = tensor.reshape %r(%e) : (tensor<?x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
    ),
    "unranked reshape": (UNRANKED.replace("%r", "%y"), "tensor<*xf32>"),
    "dimension of a reshape": (
        FLATTENED + "%y = tensor.dim %r, %i : tensor<?xf32>",
        "index",
    ),
    "dimension of a reshape by i32": (
        BY_I32 + "%y = tensor.dim %r, %c0 : tensor<?xf32>",
        "index",
    ),
    "dimension of an argument": ("%y = tensor.dim %u, %c0 : tensor<*xf32>", "index"),
    "element 1 0": (
        PAIRS + "%y = tensor.extract %e[%c1, %c0] : tensor<2x2xindex>",
        "index",
    ),
    "element 0 1": (
        PAIRS + "%y = tensor.extract %e[%c0, %c1] : tensor<2x2xindex>",
        "index",
    ),
    "element out of bounds": (
        PAIRS + "%y = tensor.extract %e[%c2, %c0] : tensor<2x2xindex>",
        "index",
    ),
    "element at a variable index": (
        PAIRS + "%y = tensor.extract %e[%c0, %i] : tensor<2x2xindex>",
        "index",
    ),
    "element of an argument": (
        "%y = tensor.extract %t[%c0] : tensor<1xindex>",
        "index",
    ),
}


@pytest.mark.parametrize("name", [*SIMPLIFIED])
def test_a_pattern_does_what_mlir_does(mlir: Mlir, name: str):
    text = function(*SIMPLIFIED[name])
    module, expected = simplified(text), by_mlir(mlir, text)
    assert counts(module) == counts(parse_module(expected))
    assert by_mlir(mlir, str(module)) == expected


# MLIR's results do not verify.
UNSUPPORTED = {
    "other element count": (
        OF_4
        + "%y = tensor.reshape %r(%t) : (tensor<*xf32>, tensor<1xindex>) -> tensor<5xf32>",
        "tensor<5xf32>",
    ),
    "cast from i32": (
        "%r = tensor.reshape %u(%k) : (tensor<*xf32>, tensor<1xi32>) -> tensor<*xf32>\n"
        "%y = shape.shape_of %r : tensor<*xf32> -> tensor<?xindex>",
        "tensor<?xindex>",
    ),
}


@pytest.mark.parametrize("name", [*UNSUPPORTED])
def test_a_result_that_would_be_invalid_is_left_out(mlir: Mlir, name: str):
    text = function(*UNSUPPORTED[name])
    assert not isinstance(mlir.run(text, "canonicalize"), Accepted)
    found = counts(simplified(text))
    assert found == counts(parse_module(text)) - Counter({"arith.constant": 3})
