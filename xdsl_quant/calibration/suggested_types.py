"""
The types that values get from their statistics.

They are not chosen here: the passes that quantize a module run on a copy of it, or on a
module that has nothing but the keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizedType,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)
from xdsl_quant.transforms.statistics.quant_stats_to_calibrated import (
    QuantStatsToCalibratedPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics


def suggested_types(
    statistics: Mapping[str, KeyStatistics],
    conversion: QuantCalibratedToUniformPass,
    module: ModuleOp | None = None,
) -> dict[str, QuantizedType | str]:
    """
    The quantized type for each key, or why there is none.

    Args:
        statistics: the ranges.
        conversion: the pass that chooses types.
        module: what the keys are of. It says which expressed types they have, and which of
            them are coupled; by default all are f32, and none is.

    Raises:
        ValueError: if the module does not have a key, or no key gets a type.
    """
    if module is None:
        module = _module_of(
            {key: _f32_type(known) for key, known in statistics.items()}
        )
    types = {ref.stats_key.data: ref.input.type for ref in _refs(module)}
    if missing := sorted(statistics.keys() - types.keys()):
        raise ValueError(f"no op of the module has key '{missing[0]}'")
    try:
        return {**_types(statistics, conversion, module)}
    except _TypeError:
        # Some have none on their own: the others get theirs without them.
        reasons: dict[str, QuantizedType | str] = {
            key: reason
            for key, known in statistics.items()
            if (reason := _reason(known, conversion, types[key]))
        }
    if reasons.keys() == statistics.keys():
        raise ValueError(next(iter(reasons.values())))
    others = {key: known for key, known in statistics.items() if key not in reasons}
    return {**reasons, **_types(others, conversion, module)}


class _TypeError(ValueError):
    """That there is no type, and why."""


def _f32_type(statistics: KeyStatistics) -> Attribute:
    """A type that values with these statistics may have."""
    if statistics.axis is None or statistics.axis_ranges is None:
        return TensorType(f32, [DYNAMIC_INDEX])
    return TensorType(
        f32, [DYNAMIC_INDEX] * statistics.axis + [len(statistics.axis_ranges)]
    )


def _module_of(types: Mapping[str, Attribute]) -> ModuleOp:
    """A module with nothing but keys."""
    function = FuncOp("keys", (tuple(types.values()), ()))
    block = function.body.block
    for key, argument in zip(types, block.args, strict=True):
        block.add_op(StatisticsRefOp(argument, key))
    block.add_op(ReturnOp())
    return ModuleOp([function])


def _refs(module: ModuleOp) -> Sequence[StatisticsRefOp]:
    return [op for op in module.walk() if isinstance(op, StatisticsRefOp)]


def _reason(
    statistics: KeyStatistics,
    conversion: QuantCalibratedToUniformPass,
    type_: Attribute,
) -> str | None:
    """Why a value of a type gets no quantized one, if it gets none."""
    try:
        _types({"": statistics}, conversion, _module_of({"": type_}))
    except _TypeError as e:
        return str(e)
    return None


def _types(
    statistics: Mapping[str, KeyStatistics],
    conversion: QuantCalibratedToUniformPass,
    module: ModuleOp,
) -> dict[str, QuantizedType]:
    """
    The quantized type for each key.

    Raises:
        _TypeError: if a pass fails.
    """
    module = module.clone()
    users: dict[str, Operation] = {}
    try:
        for ref in _refs(module):
            if (known := statistics.get(key := ref.stats_key.data)) is not None:
                users[key] = _replaced(ref, known)
        QuantStatsToCalibratedPass().apply(Context(), module)
        conversion.apply(Context(), module)
    except OverflowError:
        raise _TypeError("a bound does not fit f32") from None
    except (PassFailedException, VerifyException) as e:
        message = str(e).partition("\n")[0]
        raise _TypeError(message.rpartition("cannot be converted: ")[2]) from None
    return {key: _quantized_type(user.operands[0]) for key, user in users.items()}


def _replaced(ref: StatisticsRefOp, statistics: KeyStatistics) -> Operation:
    """A user of what a reference is replaced by: the statistics."""
    op = StatisticsOp(
        ref.input, statistics.layer, statistics.axis_ranges, statistics.axis
    )
    op.verify_()
    user = UnrealizedConversionCastOp.get((ref.result,), ())
    Rewriter.insert_op(user, InsertPoint.after(ref))
    Rewriter.replace_op(ref, op)
    return user


def _quantized_type(value: SSAValue) -> QuantizedType:
    while isinstance(ref := value.owner, StatisticsRefOp):
        value = ref.input
    dequantize = value.owner
    assert isinstance(dequantize, DequantizeCastOp)
    quantized_type = QuantizedType.get_quantized_element_type(dequantize.input.type)
    assert quantized_type is not None
    return quantized_type
