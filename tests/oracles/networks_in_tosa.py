"""Random networks as TOSA, which MLIR validates, lowers and executes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.utils.exceptions import PassFailedException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.lowering.tosa_execution import (
    as_signless,
    executable,
    validated,
)
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_tosa import (
    ConvertTFLToTosaPass,
)
from xdsl_quant.frontends.tflite.lowering.tfl_variables_to_arguments import (
    TFLVariablesToArgumentsPass,
)
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.runtime.stateful_function import StatefulFunction

from .networks import Network

Array = NDArray[Any]
Step = Callable[..., Sequence[Any]]

REFUSED = "has sizes, axes or indices that are not constant"
"""What the pass says of the ops that TOSA cannot have, such as positions."""


def tosa_steps(mlir: Mlir) -> Callable[[bytes], Step]:
    """What runs a file as TOSA."""

    def runner(module: ModuleOp, name: str) -> Step:
        types = entry_function(module, name).function_type.outputs
        lowered = module.clone()
        apply_passes(lowered, [ConvertTFLToTosaPass()])
        answer = validated(mlir, lowered)
        assert isinstance(answer, Accepted), answer
        function = executable(lowered)

        def run(*inputs: Array) -> Sequence[Array]:
            computed: Any = function(*map(as_signless, inputs))
            results = cast(
                "Sequence[Any]",
                computed if isinstance(computed, tuple) else (computed,),
            )
            return tuple(
                without_signed_zeros(np.asarray(result).view(numpy_dtype(type_)))
                for result, type_ in zip(results, types, strict=True)
            )

        return run

    def tosa(file: bytes) -> Step:
        return StatefulFunction(read_tflite(file), runner).step

    return tosa


def without_signed_zeros(array: Array) -> Array:
    """Sums of floats that start with a positive or a negative zero are the same."""
    return array + 0 if array.dtype.kind == "f" else array


def exact_results(net: Network) -> list[int]:
    """
    The results that do not depend, by variables either, on what TOSA computes with floats;
    none of a network with an op that TOSA cannot have.
    """
    module = read_tflite(net.file(net.results))
    apply_passes(module, [TFLVariablesToArgumentsPass()])
    try:
        ConvertTFLToTosaPass().apply(Context(), module)
    except PassFailedException as e:
        if all(REFUSED in line for line in str(e).splitlines()):
            return []
        raise
    listed = cast(
        "Sequence[DictionaryAttr]",
        module.attributes.get("tfl.fallback", ArrayAttr([])),
    )
    names = [cast(StringAttr, entry.data["name"]).data for entry in listed]
    inexact = {int(name.removeprefix("t")) for name in names}
    size = -1
    while size < len(inexact):
        size = len(inexact)
        for op in net.operators:
            if inexact.intersection(op.inputs):
                is_assigned = op.code == "ASSIGN_VARIABLE"
                inexact.update(op.inputs[:1] if is_assigned else op.outputs)
    return [index for index in net.results if index not in inexact]
