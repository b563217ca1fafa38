"""
Types and quantization errors of calibrated values.

The passes that quantize a module choose the types. They run on a copy of the module or, if
there is none, on a generated function with an argument and a `quant.stats_ref` per key.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ModuleOp,
    TensorType,
    UnrealizedConversionCastOp,
    f32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.calibration import Statistics
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizedType,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.histogram import Histogram
from xdsl_quant.numerics.histogram_errors import EstimatedError, estimate_error
from xdsl_quant.runtime.loading import Model, as_module
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)
from xdsl_quant.transforms.statistics.quant_stats_to_calibrated import (
    QuantStatsToCalibratedPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics


@dataclass(frozen=True)
class Evaluation:
    """Type and quantization error of the values with a statistics key."""

    key: str

    ranges: KeyStatistics
    """Range of the values and of their channels."""

    quantized_type: QuantizedType | None

    reason: str
    """Reason for a missing type; otherwise empty."""

    histogram: Histogram | None
    """Histogram of the values, if collected."""

    @cached_property
    def parameters(self) -> QuantizationParameters | None:
        type_ = self.quantized_type
        return (
            None if type_ is None else QuantizationParameters.from_integer_type(type_)
        )

    @cached_property
    def error(self) -> EstimatedError | None:
        """Quantization error, if there are a type and a histogram."""
        if self.histogram is None or (parameters := self.parameters) is None:
            return None
        scales, zero_points = parameters.scales, parameters.zero_points
        bounds = parameters.storage_min, parameters.storage_max
        return estimate_error(self.histogram, scales, zero_points, *bounds)

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise ratio in dB; NaN if unknown."""
        return math.nan if self.error is None else self.error.sqnr


def evaluate(
    statistics: Statistics,
    conversion: QuantCalibratedToUniformPass,
    module: Model | None = None,
) -> list[Evaluation]:
    """
    Return the evaluation of each key: keys without a type first, then by ascending
    SQNR, then keys with unknown SQNR.

    Args:
        statistics: calibration statistics.
        conversion: pass that chooses types.
        module: calibrated module or its text, for expressed types and the common types
            of `quant.coupled_ref`; by default f32 and an independent type for each key.

    Raises:
        TypeError: if `module` is neither a module nor text.
        ValueError: if the module lacks a key, or no key gets a type.
    """
    module = None if module is None else as_module(module)
    ranges = {key: statistics.ranges(key) for key in statistics.observations}
    types = suggested_types(ranges, conversion, module) if ranges else {}
    evaluations: list[Evaluation] = []
    for key, key_ranges in sorted(ranges.items()):
        result = types[key]
        type_, reason = (None, result) if isinstance(result, str) else (result, "")
        histogram = statistics.observations[key].histogram
        evaluations.append(Evaluation(key, key_ranges, type_, reason, histogram))
    return sorted(evaluations, key=_order)


def _order(evaluation: Evaluation) -> tuple[int, float]:
    if evaluation.quantized_type is None:
        return 0, 0
    is_known = not math.isnan(evaluation.sqnr)
    return (1, evaluation.sqnr) if is_known else (2, 0)


# Types


def suggested_types(
    statistics: Mapping[str, KeyStatistics],
    conversion: QuantCalibratedToUniformPass,
    module: ModuleOp | None = None,
) -> dict[str, QuantizedType | str]:
    """
    Return the quantized type by key, or the reason if there is none.

    Args:
        statistics: ranges by key.
        conversion: pass that chooses types.
        module: calibrated module; see `evaluate`.

    Raises:
        ValueError: if the module lacks a key, or no key gets a type.
    """
    if module is None:
        module = _module_of({key: _f32_type(k) for key, k in statistics.items()})
    types = {
        op.stats_key.data: op.input.type
        for op in module.walk()
        if isinstance(op, StatisticsRefOp)
    }
    if missing := sorted(statistics.keys() - types.keys()):
        raise ValueError(f"no op of the module has key '{missing[0]}'")
    try:
        return {**_key_types(statistics, conversion, module)}
    except ValueError:
        # Find the keys that fail even alone, and convert the remaining ones.
        reasons: dict[str, QuantizedType | str] = {}
        for key, known in statistics.items():
            try:
                _key_types({key: known}, conversion, _module_of({key: types[key]}))
            except ValueError as e:
                reasons[key] = str(e)
    if reasons.keys() == statistics.keys():
        raise ValueError(next(iter(reasons.values())))
    others = {key: known for key, known in statistics.items() if key not in reasons}
    return {**reasons, **_key_types(others, conversion, module)}


def _f32_type(statistics: KeyStatistics) -> Attribute:
    """Return an f32 tensor type with the channel axis and number of channels, if any."""
    axis, ranges = statistics.axis, statistics.axis_ranges
    if axis is None or ranges is None:
        return TensorType(f32, [DYNAMIC_INDEX])
    return TensorType(f32, [DYNAMIC_INDEX] * axis + [len(ranges)])


def _module_of(types: Mapping[str, Attribute]) -> ModuleOp:
    function = FuncOp("keys", (tuple(types.values()), ()))
    block = function.body.block
    for key, argument in zip(types, block.args, strict=True):
        block.add_op(StatisticsRefOp(argument, key))
    block.add_op(ReturnOp())
    return ModuleOp([function])


def _key_types(
    statistics: Mapping[str, KeyStatistics],
    conversion: QuantCalibratedToUniformPass,
    module: ModuleOp,
) -> dict[str, QuantizedType]:
    """Return the quantized types by key, or raise `ValueError` if a pass fails."""
    module = module.clone()
    users: dict[str, Operation] = {}
    try:
        for ref in [*module.walk()]:
            if isinstance(ref, StatisticsRefOp):
                if (known := statistics.get(key := ref.stats_key.data)) is not None:
                    users[key] = _replace_ref(ref, known)
        QuantStatsToCalibratedPass().rewrite(Context(), module)
        conversion.rewrite(Context(), module)
    except OverflowError:
        raise ValueError("a bound exceeds f32") from None
    except (PassFailedException, VerifyException) as e:
        message = str(e).partition("\n")[0]
        raise ValueError(message.rpartition("cannot be converted: ")[2]) from None
    return {key: _dequantized_type(user.operands[0]) for key, user in users.items()}


def _replace_ref(ref: StatisticsRefOp, statistics: KeyStatistics) -> Operation:
    """Replace a `quant.stats_ref` by `quant.stats`; return a new user of its result."""
    op = StatisticsOp(
        ref.input, statistics.layer, statistics.axis_ranges, statistics.axis
    )
    op.verify_()
    user = UnrealizedConversionCastOp.get((ref.result,), ())
    Rewriter.insert_op(user, InsertPoint.after(ref))
    Rewriter.replace_op(ref, op)
    return user


def _dequantized_type(value: SSAValue) -> QuantizedType:
    while isinstance(ref := value.owner, StatisticsRefOp):
        value = ref.input
    dequantize = value.owner
    assert isinstance(dequantize, DequantizeCastOp)
    quantized_type = QuantizedType.get_quantized_element_type(dequantize.input.type)
    assert quantized_type is not None
    return quantized_type
