"""
Comparison of the values of a quantized model with those of the float model, given only
the two modules.

Values are matched by location name (tensor name in TensorFlow Lite files), else by the keys
of `quant-insert-stats-refs`: function, op name, and number of the op. A key matches only if
both functions have the same number of these ops, and the attributes of the two ops agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.diagnostics import counted, op_name, shortened_text, table
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.runtime.arrays import (
    constant_attr,
    constant_elements,
    shape_of,
    shortened,
    stored_elements,
)
from xdsl_quant.runtime.batches import Batch, as_tuple
from xdsl_quant.runtime.entry_function import entry_function, reachable_functions
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    candidates,
    is_tensor_with_values,
)

from .labels import Accuracy, Labels, Scores
from .recording import (
    RecordedModule,
    record,
    record_results,
    represents_floats,
    stored_arguments,
)
from .results import Model, QuantizedModel, module_of
from .samples import Data, LabelData, Progress, batches_of
from .signal_noise import OUTPUT, Error, Floats, decibels, json_text
from .user_warnings import warn_user

_VALUE = "value:"
"""Prefix of the key of a matched value."""


@dataclass(frozen=True)
class ComparedValue:
    """A value that both models have."""

    name: str
    """Location name of the value, or its statistics key."""

    op: str
    """Name of the op that defines the value in the float model."""

    quantized_op: str
    """Name of the op that defines the value in the quantized model."""

    storage: str
    """Storage type in the quantized model, e.g. `i8`; empty if in floating point."""

    sqnr: float
    """
    Signal-to-quantization-noise ratio in dB; infinite if both values are equal, NaN if
    no batch reached them.
    """

    input_sqnr: float
    """
    Lowest SQNR in dB of the compared values from which this value is computed, without
    constants. Infinite if all of these are equal in both models, or no value is compared.
    """

    signal: float
    """Sum of the squares of the float values."""

    noise: float
    """Sum of the squares of the differences."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of a float model and a quantized model on the same samples."""

    values: Sequence[ComparedValue]
    """Values that both models have, in the order of the float model."""

    results: Mapping[str, float]
    """SQNR of each model result in dB."""

    only_float: Mapping[str, int]
    """Number of values that only the float model has, by op name."""

    only_quantized: Mapping[str, int]
    """Number of values that only the quantized model has, by op name."""

    accuracy: Accuracy | None = None
    """Accuracy of both models, if there are labels."""

    def json(self) -> str:
        """
        Return the comparison as JSON, with the fields of `Comparison` and
        `ComparedValue` as keys. Non-finite ratios are `null`.
        """
        return json_text(asdict(self))

    def __str__(self) -> str:
        """Return the comparison as a table."""
        rows = [
            ("value", "op", "stored", "SQNR", "inputs"),
            *map(_comparison_row, self.values),
        ]
        results = ", ".join(
            f"{name} exact" if sqnr == math.inf else f"{name} {decibels(sqnr)} dB"
            for name, sqnr in self.results.items()
        )
        lines = [*table(rows), ""] if self.values else []
        return "\n".join(
            [
                *lines,
                f"SQNR of the results: {results or '-'}",
                *([] if self.accuracy is None else [str(self.accuracy)]),
                f"values of both models: {len(self.values)}",
                f"of the float model only: {_counts_text(self.only_float)}",
                f"of the quantized model only: {_counts_text(self.only_quantized)}",
            ]
        )


def _comparison_row(value: ComparedValue) -> Sequence[str]:
    return (
        shortened_text(value.name),
        value.op
        if value.op == value.quantized_op
        else f"{value.op} -> {value.quantized_op}",
        value.storage or "float",
        decibels(value.sqnr),
        "-" if value.input_sqnr == math.inf else decibels(value.input_sqnr),
    )


def _counts_text(counts: Mapping[str, int]) -> str:
    named = (f"{count} '{name}'" for name, count in sorted(counts.items()))
    return ", ".join(named) or "none"


# Values


@dataclass(frozen=True)
class _ModelValue:
    value: SSAValue
    function: str
    """Name of the function; empty for the entry function."""

    group: str
    """Name of the op; all constants have a common name."""

    number: str
    """Number of the op in the group, and of the result if the op has several."""

    statistics_key: str
    """Key from `quant-insert-stats-refs`."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.function, self.group, self.number

    @property
    def op(self) -> Operation:
        owner = self.value.owner
        assert isinstance(owner, Operation)
        return owner

    @property
    def is_constant(self) -> bool:
        return self.group == _CONSTANT

    @property
    def tensor_name(self) -> tuple[str, str] | None:
        if isinstance(location := self.op.location, NameLoc):
            return self.function, location.desc.data
        return None


_CONSTANT = "constant"


class _Model:
    """A model and its values."""

    def __init__(self, given: Model | QuantizedModel, entry: str | None):
        self.module = module_of(given)
        self.function = entry_function(self.module, entry)
        self.argument_types = self.function.function_type.inputs.data
        self.result_types = self.function.function_type.outputs.data
        # The number of ops by function and group.
        self.counts = Counter[tuple[str, str]]()
        self.values = [*self._values()]

    def _values(self) -> Iterator[_ModelValue]:
        entry = self.function.sym_name.data
        names = {
            f.sym_name.data for f in reachable_functions(self.module, self.function)
        }
        for candidate in candidates(self.module):
            value, symbol = candidate.value, candidate.symbol
            op = value.owner
            if symbol not in names or not isinstance(op, Operation):
                continue
            function = "" if symbol == entry else symbol
            is_compared = (
                represents_floats(value.type)
                and isinstance(value.type, TensorType)
                and is_tensor_with_values(candidate)
            )
            group, number = op_name(op), candidate.key.rpartition(f"{op_name(op)}:")[2]
            if constant_attr(value) is not None:
                if not is_compared:
                    continue
                group = _CONSTANT
                number = str(self.counts[function, group])
            self.counts[function, group] += value is op.results[0]
            if is_compared:
                yield _ModelValue(value, function, group, number, candidate.key)


class _Pair(NamedTuple):
    key: str
    float_value: _ModelValue
    quantized_value: _ModelValue


def _matched_pairs(float_model: _Model, quantized: _Model) -> Mapping[SSAValue, _Pair]:
    pairs: dict[SSAValue, _Pair] = {}
    matched: set[SSAValue] = set()

    def match(value: _ModelValue, other: _ModelValue | None) -> None:
        if other is None or value.value in pairs or other.value in matched:
            return
        if value.is_constant == other.is_constant and _may_be_equal(
            shape_of(value.value.type), shape_of(other.value.type)
        ):
            pairs[value.value] = _Pair(f"{_VALUE}{len(pairs)}", value, other)
            matched.add(other.value)

    by_name: dict[tuple[str, str] | None, _ModelValue] = {}
    for value in quantized.values:
        # A tensor and its casts have the same location: take the first.
        by_name.setdefault(value.tensor_name, value)
    by_name.pop(None, None)
    for value in float_model.values:
        match(value, by_name.get(value.tensor_name))
    by_key = {value.key: value for value in quantized.values}
    for value in float_model.values:
        group = value.function, value.group
        other = by_key.get(value.key)
        if (
            other is not None
            and float_model.counts[group] == quantized.counts[group]
            and (value.is_constant or _have_equal_attributes(value.op, other.op))
        ):
            match(value, other)
    return pairs


def _may_be_equal(shape: Sequence[int], other_shape: Sequence[int]) -> bool:
    return len(shape) == len(other_shape) and all(
        a == b or min(a, b) < 0 for a, b in zip(shape, other_shape, strict=True)
    )


_COMPARED_ATTRIBUTES = (StringAttr, IntegerAttr, FloatAttr, ArrayAttr, DenseArrayBase)
"""Attribute classes to compare: without types and elements, which quantization changes."""


def _have_equal_attributes(float_op: Operation, quantized_op: Operation) -> bool:
    return all(
        known == value
        for name, value in (float_op.properties | float_op.attributes).items()
        if isinstance(value, _COMPARED_ATTRIBUTES)
        and (known := quantized_op.get_attr_or_prop(name)) is not None
    )


# Running


def compare(
    float_module: Model | QuantizedModel,
    quantized_module: Model | QuantizedModel,
    data: Data,
    entry: str | None = None,
    progress: Progress | None = None,
    labels: LabelData | None = None,
) -> Comparison:
    """
    Compare the values of a quantized model with those of the float model.

    Args:
        float_module: the float model: a module, MLIR text, or the path of a file.
        quantized_module: the quantized model, also as a result of `quantize`. Floats are
            quantized for its arguments; quantized results are dequantized.
        data: samples: see [`Data`][xdsl_quant.quantizer.samples.Data].
        entry: the function that takes the samples; by default the only public one, or
            `main`.
        progress: see [`Progress`][xdsl_quant.quantizer.samples.Progress].
        labels: the classes of the samples, to measure the accuracy of both models.

    Returns:
        The comparison of all matched values. Values in loops are compared in the last
        iteration.

    Raises:
        ValueError: if a model cannot be run, or arguments or results of the models differ.
        TypeError: if models, samples or labels have the wrong type.
    """
    float_model = _Model(float_module, entry)
    quantized = _Model(quantized_module, entry)
    _check_signatures("argument", float_model.argument_types, quantized.argument_types)
    _check_signatures("result", float_model.result_types, quantized.result_types)
    pairs = _matched_pairs(float_model, quantized)
    _check_has_floats(float_model, pairs)
    _check_roles(float_model, quantized)
    errors = _record(float_model, quantized, pairs.values())
    batches, count = batches_of(data, _fewest_dynamic_sizes(float_model, quantized))
    scores = Scores(None if labels is None else Labels.of(labels, batches))
    batches = batches if progress is None else progress(batches, count)
    _measure(float_model, quantized, batches, errors, scores)
    if not pairs and float_model.values:
        warn_user(
            f"no matching values of ops: found {len(float_model.values)} in the float "
            f"model and {len(quantized.values)} in the quantized model; compare models "
            "with the same ops or location names"
        )
    results = {
        f"{float_model.function.sym_name.data}:{key}": error.sqnr
        for key, error in errors.items()
        if key.startswith(OUTPUT)
    }
    return Comparison(
        _compared_values(float_model, pairs, errors),
        results,
        _unmatched(float_model, pairs),
        _unmatched(quantized, {pair.quantized_value.value for pair in pairs.values()}),
        scores.accuracy(),
    )


def _check_has_floats(float_model: _Model, pairs: Mapping[SSAValue, _Pair]) -> None:
    are_constants = all(pair.float_value.is_constant for pair in pairs.values())
    if are_constants and not any(map(represents_floats, float_model.result_types)):
        raise ValueError(
            "found no float value that both models have; compare models with the same "
            "ops or location names"
        )


def _record(
    float_model: _Model, quantized: _Model, pairs: Iterable[_Pair]
) -> dict[str, Error]:
    errors: dict[str, Error] = {}
    for key, float_value, quantized_value in pairs:
        if not float_value.is_constant:
            record(float_value.value, key)
            record(quantized_value.value, key)
        elif (error := _constant_error(float_value, quantized_value)) is not None:
            errors[key] = error
    for model in (float_model, quantized):
        record_results(model.function, OUTPUT)
    return errors


def _compared_values(
    float_model: _Model, pairs: Mapping[SSAValue, _Pair], errors: Mapping[str, Error]
) -> Sequence[ComparedValue]:
    sqnrs = {
        value: errors[key].sqnr
        for value, (key, float_value, _) in pairs.items()
        # The error of a constant counts as error of the op that uses it.
        if key in errors and not float_value.is_constant
    }
    inputs = _input_sqnrs(float_model.module, sqnrs)
    return [
        _compared_value(pair, errors.get(pair.key), inputs[each.value])
        for each in float_model.values
        if (pair := pairs.get(each.value)) is not None
    ]


def _unmatched(model: _Model, matched: Container[SSAValue]) -> Mapping[str, int]:
    names = (op_name(each.op) for each in model.values if each.value not in matched)
    return dict(Counter(names))


def _measure(
    float_model: _Model,
    quantized: _Model,
    batches: Iterable[Batch],
    errors: dict[str, Error],
    scores: Scores,
) -> None:
    """Add the recorded values to the errors, and the results to the scores."""
    models = float_model, quantized
    # Running a module lowers it, so run a copy: its values are used later.
    runs = [
        RecordedModule.of(model.module.clone(), model.function.sym_name.data)
        for model in models
    ]
    for batch in batches:
        expected, actual = (
            run.values(stored_arguments(model.function, as_tuple(batch)))
            for run, model in zip(runs, models, strict=True)
        )
        scores.add(expected, actual)
        for key, values in expected.items():
            if (actual_values := actual.get(key)) is None:
                continue
            if values.shape != actual_values.shape:
                raise ValueError(
                    f"{key} has shape {[*values.shape]} in the float model and "
                    f"{[*actual_values.shape]} in the quantized one; compare models of the "
                    "same sizes"
                )
            errors.setdefault(key, Error()).add(values, actual_values)


def _compared_value(
    pair: _Pair, error: Error | None, input_sqnr: float
) -> ComparedValue:
    _, float_value, quantized_value = pair
    type_ = scalar_or_element_type(quantized_value.value.type)
    name = float_value.tensor_name
    return ComparedValue(
        float_value.statistics_key if name is None else name[1],
        op_name(float_value.op),
        op_name(quantized_value.op),
        type_.storage_text if isinstance(type_, UniformType) else "",
        math.nan if error is None else error.sqnr,
        input_sqnr,
        0.0 if error is None else error.signal,
        0.0 if error is None else error.noise,
    )


def _input_sqnrs(
    module: ModuleOp, sqnrs: Mapping[SSAValue, float]
) -> Mapping[SSAValue, float]:
    """Return, for each value, the lowest SQNR of the compared values it depends on."""
    inputs: dict[SSAValue, float] = {}
    known: dict[SSAValue, float] = {}
    for op in module.walk():
        lowest = min(
            (known.get(value, math.inf) for value in op.operands), default=math.inf
        )
        for result in op.results:
            inputs[result] = lowest
            known[result] = sqnrs.get(result, lowest)
    return inputs


def _constant_error(
    float_value: _ModelValue, quantized_value: _ModelValue
) -> Error | None:
    expected, actual = (
        _constant_floats(each.value) for each in (float_value, quantized_value)
    )
    if expected is None or actual is None:
        return None
    error = Error()
    error.add(expected, actual)
    return error


def _constant_floats(value: SSAValue) -> Floats | None:
    elements = constant_elements(value)
    type_ = scalar_or_element_type(value.type)
    if elements is None or not isinstance(type_, UniformType):
        return elements
    parameters = QuantizationParameters.from_integer_type(type_)
    return dequantize(stored_elements(elements, type_), parameters)


# Arguments


def _check_signatures(
    noun: str, float_types: Sequence[Attribute], quantized_types: Sequence[Attribute]
) -> None:
    if len(float_types) != len(quantized_types):
        raise ValueError(
            f"expected {counted(len(float_types), noun)} as in the float model, found "
            f"{len(quantized_types)} in the quantized model"
        )
    for number, types in enumerate(zip(float_types, quantized_types, strict=True)):
        if len({*map(represents_floats, types)}) > 1:
            remedy = "floats or quantized types, which have scales"
        elif noun == "argument" and not _may_be_equal(*map(shape_of, types)):
            remedy = f"{noun}s of the same sizes"
        else:
            continue
        raise ValueError(
            f"{noun} {number} has type '{shortened(types[1])}' in the quantized model and "
            f"type '{shortened(types[0])}' in the float model; compare models with {remedy}"
        )


def _check_roles(float_model: _Model, quantized: _Model) -> None:
    op = _quantized_op(float_model)
    if op is not None and _quantized_op(quantized) is None:
        warn_user(
            "the float model is quantized and the quantized model is not: found "
            f"'{op_name(op)}' with a quantized result; pass the float model first"
        )


def _quantized_op(model: _Model) -> Operation | None:
    return next(
        (
            op
            for op in model.module.walk()
            for type_ in op.result_types
            if isinstance(scalar_or_element_type(type_), UniformType)
        ),
        None,
    )


def _fewest_dynamic_sizes(*models: _Model) -> FuncOp:
    return min(
        (model.function for model in models),
        key=lambda function: sum(
            size < 0
            for type_ in function.function_type.inputs.data
            for size in shape_of(type_)
        ),
    )
