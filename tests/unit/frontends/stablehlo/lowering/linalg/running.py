"""Functions of StableHLO's ops, run as loop nests in two ways and by StableHLO itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from tests.real_stablehlo import RealStableHLO
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

Array = NDArray[Any]

TYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}


def tensor(shape: Sequence[int | None], element_type: str) -> str:
    """The text of a tensor type; `None` is a size that is not known."""
    sizes = "".join("?x" if size is None else f"{size}x" for size in shape)
    return f"tensor<{sizes}{element_type}>"


def function(
    arguments: Sequence[str], ops: Sequence[str], results: Sequence[str]
) -> str:
    """A function of `%0`, `%1`, ... that returns the result of each op."""
    parameters = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(arguments))
    body = "\n".join(f"  %r{i} = {op}" for i, op in enumerate(ops))
    names = ", ".join(f"%r{i}" for i in range(len(ops)))
    types = ", ".join(results)
    return (
        f"func.func @main({parameters}) -> ({types}) {{\n{body}\n"
        f"  return {names} : {types}\n}}"
    )


def lowered(text: str) -> ModuleOp:
    """The module after the pass, and valid."""
    module = parse_module(text)
    apply_passes(module, "convert-stablehlo-to-linalg")
    assert not any(op.name.startswith("stablehlo.") for op in module.walk())
    return module


def same_bits(actual: Array, expected: Array) -> None:
    """Equal, NaN and signs of zeros included; integers may differ in being unsigned."""
    if actual.dtype.kind in "iu":
        actual = actual.view(expected.dtype)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        is_number = ~np.isnan(expected)
        signs = np.signbit(actual)[is_number], np.signbit(expected)[is_number]
        np.testing.assert_array_equal(*signs)


def run(text: str, *arguments: ArrayLike, is_exact: bool = True) -> list[Array]:
    """
    The results, which are the same interpreted and compiled; unless they are exact, up
    to a rounding.
    """
    module = lowered(text)
    interpreted = run_function(module, None, *arguments)
    compiled: Any = compile(module)(*arguments)
    compiled = compiled if len(interpreted) > 1 else (compiled,)
    for one, other in zip(interpreted, compiled, strict=True):
        if is_exact:
            same_bits(np.asarray(other), np.asarray(one))
        else:
            rounding = 4 * float(np.finfo(np.asarray(one).dtype).eps)
            np.testing.assert_allclose(other, one, rtol=rounding, atol=0)
    return [np.asarray(result) for result in interpreted]


def stablehlo_results(text: str, *arguments: Array) -> list[Array]:
    """What StableHLO's own interpreter gets; the test is skipped if there is none."""
    return RealStableHLO().results(text, *arguments)
