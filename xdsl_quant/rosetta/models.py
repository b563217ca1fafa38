"""Comparison of the ops of a TensorFlow Lite model, each in a model of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Float32Type,
    ModuleOp,
    NameLoc,
    NoneType,
    ShapedType,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_quant.diagnostics import shortened_text
from xdsl_quant.dialects.quant import QuantizedType, UniformQuantizedType
from xdsl_quant.dialects.quant.ops import stated_attributes
from xdsl_quant.dialects.quant.traits import (
    CastsQuantization,
    ComputesElementwise,
    MovesElements,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import TFLiteFileError, write_tflite
from xdsl_quant.frontends.tflite.lowering.kernels import unsupported_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_attr, numpy_dtype
from xdsl_quant.runtime.loading import IRError, apply_passes

from .casts import RUNTIMES, runtime_names
from .comparison import RuntimeComparison
from .compiled import Compiled
from .counting import InputLabels, RuntimeRun, as_f64, counted_differences
from .inputs import expressed_values, parameters_of_type, stored_inputs
from .libraries import LiteRTReference, OnnxRuntime
from .onnx_ops import onnx_model
from .runtimes import Runtime, Unavailable
from .tosa import TosaTools
from .worker import Worker

_PAIRS = 1 << 16
"""Maximum number of operand combinations for an elementwise op on stored values."""

_RESULTS, _MIN_RUNS = 1 << 12, 4
"""Minimum number of result elements and of runs for ops that are not elementwise."""


@dataclass(frozen=True)
class SingleOp:
    """A model of one op, and inputs for it."""

    op: Operation
    """Op of the model; its operands are arguments and constants."""

    name: str
    """Name of the op's result, or empty."""

    module: ModuleOp

    runs: Sequence[Sequence[Array]]
    """Arguments of each run."""

    is_elementwise: bool

    @cached_property
    def file(self) -> bytes:
        """
        The model as a `.tflite` file.

        Raises:
            TFLiteFileError: if the model cannot be written to a file.
            ImportError: if the package `tflite` is not installed.
        """
        return write_tflite(self.module)

    @property
    def title(self) -> str:
        name = shortened_text(self.name)
        return f"{self.op.name} '{name}'" if name else self.op.name

    @property
    def labels(self) -> InputLabels:
        """Labels of result elements: the operands of elementwise ops, otherwise indices."""
        run, count = self.runs[0], prod(_static_shape(self.op.results[0].type))
        if not self.is_elementwise:
            numbers = np.arange(len(self.runs) * count, dtype=np.float64)
            return InputLabels(
                numbers, lambda i: f"result {i % count} of run {i // count}"
            )
        is_float = run[0].dtype.kind == "f"
        numbers = as_f64(run[0]) if is_float else np.arange(count, dtype=np.float64)
        return InputLabels(numbers, lambda i: ", ".join(str(array[i]) for array in run))


def single_ops(
    module: ModuleOp, names: Sequence[str] | None = None
) -> Iterator[SingleOp]:
    """
    Yield each distinct op that computes with stored values, in a model of its own.

    Args:
        module: module of the `tfl` dialect.
        names: op names, e.g. `add`; by default all.
    """
    known: set[str] = set()
    for op in module.walk():
        dialect, _, name = op.name.partition(".")
        if dialect != "tfl" or (names is not None and name not in names):
            continue
        if (single := _single_op(op)) is not None and (
            text := str(single.module)
        ) not in known:
            known.add(text)
            yield single


def _single_op(op: Operation) -> SingleOp | None:
    if not _computes_with_stored_values(op):
        return None
    is_elementwise = _is_elementwise_op(op)
    is_argument = [
        not isinstance(value.type, NoneType)
        and (is_elementwise or constant_attr(value) is None)
        for value in op.operands
    ]
    arguments = [v for v, is_ in zip(op.operands, is_argument, strict=True) if is_]
    if not all(_is_random(value.type, is_elementwise) for value in arguments):
        return None
    make_runs = _elementwise_runs if is_elementwise else _random_runs
    runs = make_runs(arguments, op)
    copy, module = _copied_alone(
        op, is_argument, runs[0][0].shape if is_elementwise else None
    )
    name = op.results[0].name_hint or ""
    if isinstance(op.location, NameLoc):
        name = op.location.desc.data
    return SingleOp(copy, name, module, runs, is_elementwise)


def _computes_with_stored_values(op: Operation) -> bool:
    """Return True for quantized ops of static shape, except data movement ops."""
    types = [value.type for value in (*op.operands, *op.results)]
    return (
        len(op.results) == 1
        and not op.regions
        and bool(op.operands)
        and quantization_trait(op, MovesElements) is None
        and any(isinstance(scalar_or_element_type(t), UniformType) for t in types)
        and all(map(_has_static_type, types))
    )


def _is_elementwise_op(op: Operation) -> bool:
    """Return True for elementwise ops on per-tensor types and f32."""
    types = [value.type for value in (*op.operands, *op.results)]
    return all(
        isinstance(scalar_or_element_type(t), UniformQuantizedType | Float32Type)
        for t in types
    ) and any(
        quantization_trait(op, trait) is not None
        for trait in (ComputesElementwise, CastsQuantization)
    )


def _copied_alone(
    op: Operation, is_argument: Sequence[bool], shape: Sequence[int] | None
) -> tuple[Operation, ModuleOp]:
    """Copy an op into a new module; `shape` (if not `None`) replaces all its shapes."""
    operand_types = zip(op.operand_types, is_argument, strict=True)
    block = Block(arg_types=[_with_shape(t, shape) for t, is_ in operand_types if is_])
    values = iter(block.args)
    operands: list[SSAValue] = []
    for value, is_ in zip(op.operands, is_argument, strict=True):
        if is_:
            operands.append(next(values))
            continue
        assert isinstance(value.owner, Operation)
        constant = value.owner.clone()
        block.add_op(constant)
        operands.append(constant.results[0])
    result_type = _with_shape(op.results[0].type, shape)
    properties = dict(op.properties)
    if "qtype" in properties:
        properties["qtype"] = result_type
    copy = type(op).create(
        operands=operands,
        result_types=[result_type],
        properties=properties,
        attributes=stated_attributes(op),
    )
    block.add_ops([copy, ReturnOp(copy.results[0])])
    inputs = [argument.type for argument in block.args]
    function = FuncOp("main", (inputs, [result_type]), Region(block))
    return copy, ModuleOp([function])


def _has_static_type(type_: Attribute) -> bool:
    if isinstance(type_, NoneType):
        return True
    return isinstance(type_, ShapedType) and DYNAMIC_INDEX not in type_.get_shape()


def _static_shape(type_: Attribute) -> Sequence[int]:
    assert isinstance(type_, ShapedType)
    return type_.get_shape()


def _is_random(type_: Attribute, is_elementwise: bool) -> bool:
    element = scalar_or_element_type(type_)
    if isinstance(element, UniformQuantizedType):
        return element.expressed_type == Float32Type()
    return is_elementwise and isinstance(element, Float32Type)


def _with_shape(type_: Attribute, shape: Sequence[int] | None) -> Attribute:
    if shape is None:
        return type_
    return TensorType(scalar_or_element_type(type_), shape)


def _elementwise_runs(
    arguments: Sequence[SSAValue], op: Operation
) -> Sequence[Sequence[Array]]:
    """Return one run with all combinations of operands, or with a random sample."""
    if isinstance(scalar_or_element_type(arguments[0].type), Float32Type):
        return [[expressed_values(parameters_of_type(op.results[0].type))]]
    values = [
        stored_inputs(parameters_of_type(argument.type)) for argument in arguments
    ]
    if prod(array.size for array in values) <= _PAIRS:
        return [[array.ravel() for array in np.meshgrid(*values, indexing="ij")]]
    random = np.random.default_rng(0)
    return [[random.choice(array, _PAIRS) for array in values]]


def _random_runs(
    arguments: Sequence[SSAValue], op: Operation
) -> Sequence[Sequence[Array]]:
    random = np.random.default_rng(0)
    count = -(-_RESULTS // max(prod(_static_shape(op.results[0].type)), 1))
    runs: list[Sequence[Array]] = []
    for _ in range(max(count, _MIN_RUNS)):
        run: list[Array] = []
        for argument in arguments:
            parameters = parameters_of_type(argument.type)
            low, high = parameters.storage_min, parameters.storage_max
            values = random.integers(
                low, high, _static_shape(argument.type), endpoint=True
            )
            run.append(values.astype(parameters.storage_dtype))
        runs.append(run)
    return runs


_OPTIONS: Sequence[Mapping[str, str]] = (
    {},
    {"kernels": "multiplier"},
    {"fallback": "only"},
)
"""Sets of options of `convert-tfl-to-linalg` that give different results."""


def _options_name(options: Mapping[str, str]) -> str:
    return " ".join(["compiled", *(f"{key}={value}" for key, value in options.items())])


TOSA = "tosa"
"""Name of the runtime that uses TOSA's public converter and reference model."""

_LIBRARIES = (LiteRTReference, OnnxRuntime)

OP_RUNTIMES: Sequence[str] = (
    *map(_options_name, _OPTIONS),
    *(name for name, value in RUNTIMES.items() if isinstance(value, _LIBRARIES)),
    TOSA,
)
"""Names of the runtimes that `compare_ops` supports."""


def compare_ops(
    module: ModuleOp,
    *,
    against: str = "compiled",
    runtimes: Sequence[str] | None = None,
    ops: Sequence[str] | None = None,
) -> Iterator[RuntimeComparison]:
    """
    Yield a comparison for each op that computes with stored values.

    Elementwise ops get all stored values or all pairs of them (65,536 random pairs if
    there are more). Other ops keep their shapes and constants. They get random stored
    values in at least 4 runs with at least 4,096 result elements in total.

    Args:
        module: module of the `tfl` dialect.
        against: name of the reference runtime, which all others are compared with.
        runtimes: names of the other runtimes; by default all in `OP_RUNTIMES`.
        ops: op names, e.g. `add`; by default all.

    Raises:
        ValueError: if a runtime is unknown, or no op can be compared.
    """
    names = runtime_names(against, runtimes, OP_RUNTIMES)
    is_empty = True
    with Worker() as worker, TosaTools() as tools:
        for single in single_ops(module, ops):
            is_empty = False
            yield _op_comparison(single, names, worker, tools)
    if is_empty:
        raise ValueError(_unsupported_type(module) or _nothing_to_compare(ops))


def _unsupported_type(module: ModuleOp) -> str | None:
    """Return why TensorFlow Lite does not support a type in the module, or `None`."""
    values = (v for op in module.walk() for v in (*op.operands, *op.results))
    types = (QuantizedType.get_quantized_element_type(value.type) for value in values)
    reasons = (unsupported_type(type_) for type_ in types if type_ is not None)
    return next(filter(None, reasons), None)


def _nothing_to_compare(ops: Sequence[str] | None) -> str:
    which = "ops" if ops is None else f"ops {', '.join(map(repr, ops))}"
    return (
        f"the model has no {which} with static shapes that compute with stored values; "
        "expected a quantized model with static shapes"
    )


def _op_comparison(
    single: SingleOp, names: Sequence[str], worker: Worker, tools: TosaTools
) -> RuntimeComparison:
    compiled = [_compiled_computation(single, options) for options in _OPTIONS]
    by_name = {run.name: run for run in (*compiled, _tosa_run(single, tools))}
    computations = [
        by_name.get(name) or _of_library(single, RUNTIMES[name], worker)
        for name in names
    ]
    candidates = [run for run in compiled if not run.missing]
    # Skip options that an op does not support.
    candidates = [run for run in candidates if _can_run(run)]
    return counted_differences(
        single.title, computations, candidates, [(None, single.labels)]
    )


def _can_run(computation: RuntimeRun[None]) -> bool:
    try:
        computation.run(None)
    except Unavailable:
        return False
    return True


def _compiled_computation(
    single: SingleOp, options: Mapping[str, str]
) -> RuntimeRun[None]:
    @cache
    def run(_: None) -> Array:
        module = single.module.clone()
        listed = " ".join(f"{key}={value}" for key, value in options.items())
        try:
            lowering = f"convert-tfl-to-linalg{{{listed}}}"
            apply_passes(module, lowering, is_routine=True)
            function = compile(module)
        except (IRError, CompilationError) as error:
            raise Unavailable(str(error)) from None
        return np.concatenate([np.ravel(function(*run)) for run in single.runs])

    return RuntimeRun(_options_name(options), run, "", options, Compiled().missing())


def _of_library(single: SingleOp, runtime: Runtime, worker: Worker) -> RuntimeRun[None]:
    def run(_: None) -> Array:
        if isinstance(runtime, OnnxRuntime):
            model, bounds = onnx_model(single.op)
            results = worker.call(runtime.run_model, model, single.runs)
            return np.clip(np.concatenate(results), *bounds)
        assert isinstance(runtime, LiteRTReference)
        return np.concatenate(worker.call(runtime.run_file, _file(single), single.runs))

    return RuntimeRun(runtime.name, run, runtime.version(), None, runtime.missing())


def _tosa_run(single: SingleOp, tools: TosaTools) -> RuntimeRun[None]:
    def run(_: None) -> Array:
        dtype = numpy_dtype(single.op.results[0].type)
        return np.concatenate(tools.run_file(_file(single), single.runs, dtype))

    missing = "" if tools.are_installed else "not installed; run 'make tosa-tools'"
    return RuntimeRun(TOSA, run, missing=missing)


def _file(single: SingleOp) -> bytes:
    try:
        return single.file
    except (TFLiteFileError, ImportError) as error:
        raise Unavailable(str(error)) from None
