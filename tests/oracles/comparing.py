"""Random models, run by the reference kernels and by this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from tests.unit.frontends.tflite.files.models import inputs_of, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor
from tests.unit.machines.numpy.running import same_bits
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.formulas.quantized import activation_bounds
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.machines.numpy import StatefulModel, run_function
from xdsl_quant.numerics.parameters import storage_range
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.runtime.stateful_function import StatefulFunction

from . import (
    default_kernels,
    elementwise,
    float_networks,
    moving,
    networks,
    products,
    recurrent,
)
from .drawing import Declaration, Draw
from .networks import Network
from .networks_in_tosa import exact_results, tosa_steps, without_signed_zeros
from .tally import Tally

Array = NDArray[Any]
Step = Callable[..., Sequence[Any]]

DECLARATIONS: dict[str, Declaration] = {
    **elementwise.oracle,
    **products.oracle,
    **moving.oracle,
    **recurrent.oracle,
}
"""How random models are made, by the names of ops."""

WITHOUT_ORACLE: dict[str, str] = {
    "FLOOR_DIV": "its kernel divides stored values and ignores all parameters",
    "FLOOR_MOD": "its kernel divides stored values and ignores all parameters",
}
"""
The ops of which the reference kernels compute something else than is meant, and why. DIV,
whose kernel shifts by more bits than there are, is not even among the recorded cases.
"""

_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
_CLAMPS = ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
_NOT_AMONG_REFERENCE_KERNELS = ("ELU",)
"""The ops that only the other built-in kernels have, which share the code of these."""


VALUES_PER_DRAW = 25
"""What is compared at least: 5,000 values for 200 draws."""


def with_shapes(case: Case, results: Sequence[Array]) -> Case:
    """A model whose results have the shapes that the runtime gives them."""
    pairs = zip(case.results, results, strict=True)
    shaped = [result._replace(array=np.zeros(array.shape)) for result, array in pairs]
    return case._replace(results=shaped)


def _count_of_ends(case: Case, results: Sequence[Array]) -> int:
    index: int = case.options.get("fused_activation_function", 0)
    activation = "NONE" if index == recurrent.TANH else _ACTIVATIONS[index]
    if case.op in _CLAMPS:
        activation = case.op
    pairs = zip(case.results, results, strict=True)
    return sum(_ends_of(result, array, activation) for result, array in pairs)


def _ends_of(result: Tensor, array: Array, activation: str = "NONE") -> int:
    """How many values are the smallest or largest of what a result can be."""
    if not result.scales:
        return 0
    bounds = activation_bounds(result.parameters, activation)
    ends = {*storage_range(result.parameters.storage), *bounds}
    return int(np.isin(array, [*ends]).sum())


def _interpret(module: ModuleOp, inputs: Sequence[Array]) -> Sequence[Any]:
    return run_function(module, "main", *inputs)


def _compile(module: ModuleOp, inputs: Sequence[Array]) -> Sequence[Any]:
    return StatefulFunction(module, compile).step(*inputs)


def difference(
    results: Sequence[Any], expected: Sequence[Array], tolerance: float = 0
) -> str | None:
    for result, array in zip(map(np.asarray, results), expected, strict=True):
        if (result.shape, result.dtype) != (array.shape, array.dtype):
            return f"{result.dtype}{result.shape}, not {array.dtype}{array.shape}"
        if not same_bits(result, array):
            extent = max(1.0, float(np.abs(array).max(initial=0)))
            if np.abs(result - array).max() <= tolerance * extent:
                continue
            is_wrong = (result != array).ravel()
            first = int(is_wrong.argmax())
            return (
                f"{is_wrong.sum()} of {array.size} differ, the first is "
                f"{result.flat[first]}, not {array.flat[first]}, at {first}"
            )
    return None


def _mismatch(
    run: Callable[[ModuleOp, Sequence[Array]], Sequence[Any]],
    file: bytes,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    tolerance: float = 0,
) -> str | None:
    try:
        return difference(run(read_tflite(file), inputs), expected, tolerance)
    # Whatever is raised is a mismatch of this model.
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def compare(
    process: LiteRTProcess,
    op: str,
    kind: str,
    draws: int,
    seed: int = 0,
    compiled_step: int = 20,
    first: int = 0,
) -> Tally:
    """
    Compare random models until the reference kernels have run enough of them with enough
    values, or have refused as many.

    Args:
        process: runs the reference kernels.
        op: the name of the op.
        kind: one of the kinds of operands that are declared for it.
        draws: how many models are compared at least, with `VALUES_PER_DRAW` values each on
            average.
        seed: of all random choices.
        compiled_step: the last one of so many models is compiled, the others are
            interpreted only.
        first: the index of the first model.
    """
    tally = Tally(op, kind)
    make = DECLARATIONS[op].make
    for index in count(first):
        is_done = tally.draws >= draws and tally.values >= VALUES_PER_DRAW * draws
        if is_done or len(tally.refused) > draws:
            break
        draw = Draw(op, kind, seed, index)
        case = make(draw)
        inputs = inputs_of(case)
        file = write_model(model_of(case))
        is_reference = op not in _NOT_AMONG_REFERENCE_KERNELS
        found = process.run(file, inputs, is_reference)
        if found.outcome != "runs":
            tally.refused.append(f"{draw.name}: {found.outcome}: {found.message}")
            continue
        expected = found.results
        if op in products.INPUTS and index % products.LARGE_STEP == 3:
            case = products.enlarged(draw, case, expected[0].size)
            inputs = inputs_of(case)
            found = process.run(write_model(model_of(case)), inputs)
            expected = found.results
        file = write_model(model_of(with_shapes(case, expected)))
        ways = [_interpret]
        if tally.draws % compiled_step == compiled_step - 1:
            ways.append(_compile)
            tally.compiled += 1
        tally.draws += 1
        tally.values += sum(array.size for array in expected)
        tally.ends += _count_of_ends(case, expected)
        tolerance = float_networks.TOLERANCE if draw.storage == "f32" else 0
        for run in ways:
            if text := _mismatch(run, file, inputs, expected, tolerance):
                tally.mismatches.append(f"{draw.name}: {run.__name__[1:]}: {text}")
    return tally


# Models of several ops


def _interpret_steps(file: bytes) -> Step:
    return StatefulModel(read_tflite(file)).step


def _interpret_lowered(
    file: bytes, kernels: Literal["reference", "multiplier"] = "reference"
) -> Step:
    def runner(module: ModuleOp, name: str) -> Step:
        types = entry_function(module, name).function_type.outputs
        lowered = module.clone()
        apply_passes(lowered, [ConvertTFLToLinalgPass(kernels=kernels)])

        def run(*inputs: Any) -> tuple[Array, ...]:
            results = run_function(lowered, name, *inputs)
            # Integers that are not quantized have lost their signedness.
            pairs = zip(results, types, strict=True)
            return tuple(
                result.view(dtype)
                if (dtype := numpy_dtype(type_)).kind == "u"
                else result
                for result, type_ in pairs
            )

        return run

    return StatefulFunction(read_tflite(file), runner).step


def _compile_steps(file: bytes) -> Step:
    return StatefulFunction(read_tflite(file), compile).step


_Way: TypeAlias = tuple[
    Callable[[bytes], Step], Sequence[int], Sequence[Sequence[Array]]
]
"""What runs files, the results that are compared, and the expected ones of all ops."""


def _mismatch_of_steps(
    way: Callable[[bytes], Step],
    net: Network,
    outputs: Sequence[int],
    expected: Sequence[Sequence[Array]],
) -> str | None:
    """
    How results in some way differ from those of all ops in each step, if they do.
    """
    positions = [net.results.index(output) for output in outputs]
    try:
        step = way(net.file(outputs))
        for number, inputs in enumerate(net.steps):
            results = step(*inputs)
            arrays = [expected[number][position] for position in positions]
            for output, *pair in zip(outputs, results, arrays, strict=True):
                result, array = pair
                if found := difference([result], [array]):
                    return f"step {number}, t{output}: {found}"
    # Whatever is raised is a mismatch of this model.
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None


def _expected_of_tosa(net: Network) -> Sequence[Sequence[Array]]:
    """
    The integers of all ops in each step: those of the reference kernels, but
    `fully_connected` with a multiplier of 31 bits instead of a float of 64 bits.
    """
    expected = net.expected
    if any(operator.code == "FULLY_CONNECTED" for operator in net.operators):
        step = _interpret_lowered(net.file(net.results), "multiplier")
        expected = [step(*inputs) for inputs in net.steps]
    return [[*map(without_signed_zeros, arrays)] for arrays in expected]


def _has_invalid_lowering(net: Network) -> bool:
    """Whether MLIR makes invalid ops of valid TOSA: `transpose_conv` of 16 bits."""
    return any(
        op.code == "TRANSPOSE_CONV" and net.tensors[op.inputs[2]].type == "INT16"
        for op in net.operators
    )


def compare_networks(
    process: LiteRTProcess,
    mlir: Mlir,
    kind: str,
    draws: int,
    seed: int = 0,
    compiled_step: int = 20,
    first: int = 0,
    tosa_step: int = 4,
) -> Tally:
    """
    Compare random models of several ops, as `compare` does those of one. What each op
    computes is compared where ops are interpreted, as they are and lowered, and where
    MLIR runs TOSA; compiled code returns what no op takes. Files are read and written
    again, too.
    """
    tally = Tally(networks.NAME, kind)
    for index in range(first, first + draws):
        draw = Draw(networks.NAME, kind, seed, index)
        net, refused = networks.network(draw, process)
        tally.refused += refused
        every, expected = net.results, net.expected
        ways: list[_Way] = [
            (_interpret_steps, every, expected),
            (_interpret_lowered, every, expected),
        ]
        if index % compiled_step == compiled_step - 1:
            ways.append((_compile_steps, net.leaves, expected))
            tally.compiled += 1
        if (
            index % tosa_step == tosa_step - 1
            and not _has_invalid_lowering(net)
            and (exact := exact_results(net))
        ):
            ways.append((tosa_steps(mlir), exact, _expected_of_tosa(net)))
            tally.tosa += 1
        tally.draws += 1
        for step in expected:
            tally.values += sum(array.size for array in step)
            tally.ends += sum(
                _ends_of(net.tensors[index], array)
                for index, array in zip(every, step, strict=True)
            )
        for way, outputs, values in ways:
            if found := _mismatch_of_steps(way, net, outputs, values):
                tally.mismatches.append(
                    f"{draw.name}: {way.__name__.lstrip('_')}: {found}"
                )
        if found := _difference_if_written(process, net.file(every), net):
            tally.mismatches.append(f"{draw.name}: written: {found}")
    return tally


def compare_float_networks(
    process: LiteRTProcess,
    mlir: Mlir,
    kind: str,
    draws: int,
    seed: int = 0,
    compiled_step: int = 20,
    first: int = 0,
    tosa_step: int = 4,
) -> Tally:
    """
    Compare random models of several ops on floats in the ways of `compare_networks`. What
    each op computes is within `float_networks.TOLERANCE`, also compiled.
    """
    tally = Tally(float_networks.NAME, kind)
    for index in range(first, first + draws):
        draw = Draw(float_networks.NAME, kind, seed, index)
        net, refused = float_networks.float_network(draw, process)
        tally.refused += refused
        tally.draws += 1
        tally.values += sum(array.size for array in net.expected[0])
        ways: list[Callable[[bytes], Step]] = [_interpret_steps, _interpret_lowered]
        if index % compiled_step == compiled_step - 1:
            ways.append(_compile_steps)
            tally.compiled += 1
        if index % tosa_step == tosa_step - 1:
            ways.append(tosa_steps(mlir))
            tally.tosa += 1
        for way in ways:
            if found := _distance_of_floats(way, net):
                tally.mismatches.append(
                    f"{draw.name}: {way.__name__.lstrip('_')}: {found}"
                )
    return tally


def _distance_of_floats(way: Callable[[bytes], Step], net: Network) -> str | None:
    """How results in some way are too far from those of the reference kernels."""
    try:
        results = way(net.file(net.results))(*net.steps[0])
        for index, result, array in zip(
            net.results, results, net.expected[0], strict=True
        ):
            computed = np.asarray(result)
            if (computed.shape, computed.dtype) != (array.shape, array.dtype):
                return f"t{index}: {computed.dtype}{computed.shape}"
            extent = max(1.0, float(np.abs(array).max(initial=0)))
            distance = float(np.abs(computed - array).max(initial=0)) / extent
            # It is not less if it is not a number.
            if not distance <= float_networks.TOLERANCE:
                return f"t{index}: {distance} of {extent}"
    # Whatever is raised is a mismatch of this model.
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None


def _difference_if_written(
    process: LiteRTProcess, file: bytes, net: Network
) -> str | None:
    try:
        run = process.run_steps(write_tflite(read_tflite(file)), net.steps)
    except ValueError as e:
        return str(e)
    if run.outcome != "runs":
        return f"{run.outcome}: {run.message}"
    for results, expected in zip(run.steps, net.expected, strict=True):
        if found := difference(results, expected):
            return found
    return None


def compare_in_own_process(op: str, kind: str, *numbers: int) -> Tally:
    """The same with reference kernels in a process of their own."""
    if op == default_kernels.NAME:
        return default_kernels.compare_default_kernels(kind, *numbers)
    with LiteRTProcess() as process, Mlir() as mlir:
        if op == networks.NAME:
            return compare_networks(process, mlir, kind, *numbers)
        if op == float_networks.NAME:
            return compare_float_networks(process, mlir, kind, *numbers)
        return compare(process, op, kind, *numbers)
