"""
Comparison of the values of a quantized model with those of the float model, given only
the two modules.

Values are matched by location name (tensor name in TensorFlow Lite files), else by
position among ops of the same kind and shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.diagnostics import counted, op_name, shortened_text, table
from xdsl_quant.dialects.quant import BlockScaledQuantizedType, QuantizeCastOp
from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
    UniformType,
    scalar_or_element_type,
)
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.numerics.block_scaled import BlockScaledParameters, dequantize_blocks
from xdsl_quant.quantizer.labels import Accuracy, Labels, Scores
from xdsl_quant.quantizer.recording import (
    RecordedModule,
    record,
    record_results,
    represents_floats,
    stored_arguments,
)
from xdsl_quant.quantizer.results import Model, QuantizedModel
from xdsl_quant.quantizer.samples import Data, LabelData, Progress, batches_of
from xdsl_quant.quantizer.signal_noise import OUTPUT, Error, Floats, decibels, json_text
from xdsl_quant.quantizer.user_warnings import warn_user
from xdsl_quant.runtime.arrays import (
    constant_attr,
    constant_elements,
    shape_of,
    shortened,
    stored_elements,
)
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import ops_in_execution_order

from .layouts import in_layout, may_be_equal, moved_channels
from .value_matching import (
    ComparedModel,
    MatchedValue,
    ModelValue,
    UnmatchedLayer,
    ValueMatching,
    uncast,
)


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

    is_constant: bool = False
    """True for constants, also after casts and broadcasts."""

    is_by_name: bool = False
    """True if matched by location name, False if matched by position."""

    weight_sqnr: float = math.nan
    """SQNR of the op's largest compared constant in dB; NaN without one."""

    match: str = "position"
    """`name`, `position` or `kernel order`; with `, transposed` for another layout."""

    @property
    def added_noise(self) -> float:
        """Increase of the noise-to-signal ratio in the op; 0 if unknown."""
        if math.isnan(self.sqnr):
            return 0.0
        added = 10 ** (-self.sqnr / 10) - 10 ** (-self.input_sqnr / 10)
        return max(added, 0.0)


@dataclass(frozen=True)
class Comparison:
    """Comparison of a float model and a quantized model on the same samples."""

    values: Sequence[ComparedValue]
    """Values that both models have, in the order of execution of the float model."""

    results: Mapping[str, float]
    """SQNR of each model result in dB."""

    only_float: Mapping[str, int]
    """Number of values that only the float model has, by op name."""

    only_quantized: Mapping[str, int]
    """Number of values that only the quantized model has, by op name."""

    accuracy: Accuracy | None = None
    """Accuracy of both models, if there are labels."""

    unmatched: Sequence[UnmatchedLayer] = ()
    """Layers of one model only, in the order of execution, with reasons."""

    @property
    def layers(self) -> Sequence[ComparedValue]:
        """Values without constants."""
        return [value for value in self.values if not value.is_constant]

    @property
    def worst(self) -> Sequence[ComparedValue]:
        """Layers that add most noise: the worst fifth, at least one and at most three."""
        layers = sorted(self.layers, key=lambda layer: -layer.added_noise)
        count = min(_MAX_WORST, 1 + len(layers) // 5)
        return [layer for layer in layers[:count] if layer.added_noise > 0]

    def json(self) -> str:
        """
        Return the comparison as JSON, with the fields of `Comparison` and
        `ComparedValue` as keys. Non-finite ratios are `null`.
        """
        return json_text(asdict(self))

    def __str__(self) -> str:
        """Return a table of the layers."""
        layers, worst = self.layers, self.worst
        rows = [
            ("layer", "op", "stored", "SQNR", "inputs", "weights", ""),
            *(_comparison_row(layer, is_worst=layer in worst) for layer in layers),
        ]
        if any(layer.match not in _PLAIN_MATCHES for layer in layers):
            matches = ["matched by", *(layer.match for layer in layers)]
            rows = [(*r[:-1], m, r[-1]) for r, m in zip(rows, matches, strict=True)]
        results = ", ".join(
            f"{name} exact" if sqnr == math.inf else f"{name} {decibels(sqnr)} dB"
            for name, sqnr in self.results.items()
        )
        lines = [*table(rows), ""] if layers else []
        if worst:
            lines += ["* adds most error", ""]
        if self.unmatched:
            lines += _unmatched_lines(self.unmatched)
        by_name = sum(layer.is_by_name for layer in layers)
        by_position = len(layers) - by_name
        return "\n".join(
            [
                *lines,
                f"SQNR of the results: {results or '-'}",
                *([] if self.accuracy is None else [str(self.accuracy)]),
                f"layers matched by name: {by_name}, by position: {by_position}",
                f"constants of both models: {len(self.values) - len(layers)}",
                f"of the float model only: {_counts_text(self.only_float)}",
                f"of the quantized model only: {_counts_text(self.only_quantized)}",
            ]
        )


_PLAIN_MATCHES = "name", "position"
"""Matches of the same op in the same layout, which the table counts only."""

_MAX_WORST = 3

_MAX_UNMATCHED = 20
"""Maximum number of rows for unmatched layers."""


def _comparison_row(value: ComparedValue, *, is_worst: bool) -> Sequence[str]:
    return (
        shortened_text(value.name),
        value.op
        if value.op == value.quantized_op
        else f"{value.op} -> {value.quantized_op}",
        value.storage or "float",
        decibels(value.sqnr),
        "-" if value.input_sqnr == math.inf else decibels(value.input_sqnr),
        decibels(value.weight_sqnr),
        "*" if is_worst else "",
    )


def _unmatched_lines(layers: Sequence[UnmatchedLayer]) -> Sequence[str]:
    """Return a table with a row for all layers with the same op and reason."""
    groups: dict[Sequence[str], list[str]] = {}
    for layer in layers:
        key = layer.op, layer.model, layer.reason
        groups.setdefault(key, []).append(layer.name)
    rows = [
        (shortened_text(names[0]), f"and {more} more" if more else "", *key)
        for key, names in groups.items()
        for more in [len(names) - 1]
    ]
    others = len(rows) - _MAX_UNMATCHED
    return [
        *table([("not compared", "", "op", "model", "reason"), *rows[:_MAX_UNMATCHED]]),
        *([f"... and {counted(others, 'more kind')} of layers"] if others > 0 else []),
        "",
    ]


def _counts_text(counts: Mapping[str, int]) -> str:
    named = (f"{count} '{name}'" for name, count in sorted(counts.items()))
    return ", ".join(named) or "none"


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
        SwappedModelsError: if only the first model is quantized.
        TypeError: if models, samples or labels have the wrong type.
    """
    float_model = ComparedModel(float_module, entry)
    quantized = ComparedModel(quantized_module, entry)
    quantized.order_like(float_model)
    _check_signatures("argument", float_model.argument_types, quantized.argument_types)
    _check_signatures("result", float_model.result_types, quantized.result_types)
    matching = ValueMatching.of(float_model, quantized)
    pairs = matching.in_order()
    _check_has_floats(float_model, pairs)
    if pairs:
        # Without common values, the second model may be lowered to integers.
        _check_roles(float_model, quantized)
    errors = _record(float_model, quantized, pairs)
    batches, count = batches_of(data, _sampled_function(float_model, quantized))
    scores = Scores(None if labels is None else Labels.of(labels, batches))
    batches = batches if progress is None else progress(batches, count)
    _measure(float_model, quantized, batches, errors, scores)
    if not pairs:
        _warn_of_unmatched(float_model, quantized)
    return Comparison(
        _compared_values(float_model, pairs, errors),
        _result_sqnrs(float_model, errors),
        matching.unmatched_counts(float_model),
        matching.unmatched_counts(quantized),
        scores.accuracy(),
        [*matching.unmatched_layers()],
    )


def _warn_of_unmatched(float_model: ComparedModel, quantized: ComparedModel) -> None:
    if float_model.values:
        warn_user(
            f"no matching values of ops: found {len(float_model.values)} in the float "
            f"model and {len(quantized.values)} in the quantized model; compare models "
            "with the same ops or location names"
        )


def _result_sqnrs(
    float_model: ComparedModel, errors: Mapping[str, Error]
) -> Mapping[str, float]:
    return {
        f"{float_model.function.sym_name.data}:{key}": error.sqnr
        for key, error in errors.items()
        if key.startswith(OUTPUT)
    }


def _check_has_floats(
    float_model: ComparedModel, pairs: Sequence[MatchedValue]
) -> None:
    are_constants = all(pair.float_value.is_constant for pair in pairs)
    if are_constants and not any(map(represents_floats, float_model.result_types)):
        raise ValueError(
            "found no float value that both models have; compare models with the same "
            "ops or location names"
        )


def _record(
    float_model: ComparedModel, quantized: ComparedModel, pairs: Sequence[MatchedValue]
) -> dict[str, Error]:
    errors: dict[str, Error] = {}
    for pair in pairs:
        float_value, quantized_value = pair.float_value, pair.quantized_value
        if not float_value.is_constant:
            record(float_value.value, pair.key)
            record(_value_after_cast(pair), pair.key)
        elif (error := _constant_error(float_value, quantized_value)) is not None:
            errors[pair.key] = error
    for model in (float_model, quantized):
        record_results(model.function, OUTPUT, model.result_order)
    return errors


def _value_after_cast(pair: MatchedValue) -> SSAValue:
    """
    Return the compared value of the quantized model: after its cast, if the range of the
    cast may replace an activation of the float model.
    """
    value = pair.quantized_value.value
    if op_name(pair.float_value.op) == op_name(pair.quantized_value.op):
        return value
    casts = [use.operation for use in value.uses]
    if not casts or not all(isinstance(op, QuantizeCastOp) for op in casts):
        return value
    return casts[0].results[0]


def _compared_values(
    float_model: ComparedModel,
    pairs: Sequence[MatchedValue],
    errors: Mapping[str, Error],
) -> Sequence[ComparedValue]:
    known = {p.float_value.value: errors[p.key] for p in pairs if p.key in errors}
    # The error of a constant counts as error of the op that uses it.
    sqnrs = {
        value: error.sqnr
        for value, error in known.items()
        if not float_model.by_value[value].depends_on_constants
    }
    inputs = _input_sqnrs(float_model, sqnrs)
    return [
        _compared_value(
            pair,
            errors.get(pair.key),
            inputs[pair.float_value.value],
            _weight_error(pair.float_value.op, known),
        )
        for pair in pairs
    ]


def _weight_error(op: Operation, errors: Mapping[SSAValue, Error]) -> Error | None:
    """Return the error of the largest constant operand."""
    weights = [
        errors[value]
        for value in map(uncast, op.operands)
        if value in errors and constant_attr(value) is not None
    ]
    return max(weights, key=lambda error: error.count, default=None)


def _measure(
    float_model: ComparedModel,
    quantized: ComparedModel,
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
            run.values(stored_arguments(model.function, model.in_own_order(batch)))
            for run, model in zip(runs, models, strict=True)
        )
        scores.add(expected, actual)
        for key, values in expected.items():
            if (actual_values := actual.get(key)) is None:
                continue
            moved = in_layout(actual_values, values.shape)
            if moved is None:
                raise ValueError(
                    f"{key} has shape {[*values.shape]} in the float model and "
                    f"{[*actual_values.shape]} in the quantized one; compare models of the "
                    "same sizes"
                )
            errors.setdefault(key, Error()).add(values, moved)


def _compared_value(
    pair: MatchedValue,
    error: Error | None,
    input_sqnr: float,
    weight_error: Error | None,
) -> ComparedValue:
    float_value, quantized_value = pair.float_value, pair.quantized_value
    value = _value_after_cast(pair)
    type_ = scalar_or_element_type(value.type)
    if not isinstance(type_, UniformType):
        # The result of a `quant.dcast`.
        type_ = scalar_or_element_type(uncast(value).type)
    return ComparedValue(
        float_value.name,
        op_name(float_value.op),
        op_name(quantized_value.op),
        type_.storage_text if isinstance(type_, UniformType) else "",
        math.nan if error is None else error.sqnr,
        input_sqnr,
        0.0 if error is None else error.signal,
        0.0 if error is None else error.noise,
        float_value.depends_on_constants,
        pair.match == "name",
        math.nan if weight_error is None else weight_error.sqnr,
        f"{pair.match}{', transposed' if pair.is_transposed else ''}",
    )


def _input_sqnrs(
    model: ComparedModel, sqnrs: Mapping[SSAValue, float]
) -> Mapping[SSAValue, float]:
    """Return, for each value, the lowest SQNR of the compared values it depends on."""
    inputs: dict[SSAValue, float] = {}
    known: dict[SSAValue, float] = {}
    for op in ops_in_execution_order(model.module, model.function):
        lowest = min(
            (known.get(value, math.inf) for value in op.operands), default=math.inf
        )
        for result in op.results:
            inputs[result] = lowest
            known[result] = sqnrs.get(result, lowest)
    return inputs


def _constant_error(
    float_value: ModelValue, quantized_value: ModelValue
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
    if elements is None:
        return None
    if isinstance(type_, BlockScaledQuantizedType):
        blocks = BlockScaledParameters.from_type(type_)
        return dequantize_blocks(stored_elements(elements, type_), blocks)
    if not isinstance(type_, UniformType):
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
        elif noun == "argument" and not _have_same_elements(*map(shape_of, types)):
            remedy = f"{noun}s of the same sizes"
        else:
            continue
        raise ValueError(
            f"{noun} {number} has type '{shortened(types[1])}' in the quantized model and "
            f"type '{shortened(types[0])}' in the float model; compare models with {remedy}"
        )


def _have_same_elements(shape: Sequence[int], other: Sequence[int]) -> bool:
    return len(shape) == len(other) and moved_channels(shape, other) is not None


class SwappedModelsError(ValueError):
    """Raised if only the first of two compared models is quantized."""


def _check_roles(float_model: ComparedModel, quantized: ComparedModel) -> None:
    """Raise an error if only the float model is quantized."""
    op = _quantized_op(float_model)
    if op is not None and _quantized_op(quantized) is None:
        raise SwappedModelsError(
            "the first model is quantized and the second model is not: found "
            f"'{op_name(op)}' with a quantized result; pass the float model first"
        )


def _quantized_op(model: ComparedModel) -> Operation | None:
    return next(
        (
            op
            for op in model.module.walk()
            for type_ in op.result_types
            if isinstance(scalar_or_element_type(type_), StoredQuantizedType)
        ),
        None,
    )


def _shape_in_layout(known: Attribute, type_: Attribute) -> Sequence[int]:
    """Return the sizes of the second type in the layout of the first."""
    shape, sizes = [*shape_of(known)], [*shape_of(type_)]
    return sizes if may_be_equal(shape, sizes) else [*sizes[:1], *shape[1:]]


def _sampled_function(float_model: ComparedModel, quantized: ComparedModel) -> FuncOp:
    """Return a function with the argument types of the float model, and static sizes."""
    function = min(
        (model.function for model in (float_model, quantized)),
        key=lambda function: sum(
            size < 0
            for type_ in function.function_type.inputs.data
            for size in shape_of(type_)
        ),
    )
    if function is float_model.function:
        return function
    types = [
        TensorType(scalar_or_element_type(known), _shape_in_layout(known, type_))
        for known, type_ in zip(
            float_model.argument_types, quantized.argument_types, strict=True
        )
    ]
    sampled = FuncOp(function.sym_name.data, (types, []))
    for argument, known in zip(sampled.args, float_model.function.args, strict=True):
        argument.name_hint = known.name_hint
    return sampled
