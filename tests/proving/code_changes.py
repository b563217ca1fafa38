"""Random changes of lowered code: one number, op or attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from xdsl.dialects import arith, tosa
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import Rewriter

from xdsl_quant.frontends.tosa.ops import (
    GreaterEqualOp,
    GreaterOp,
    MaximumOp,
    MinimumOp,
)

_PAIRS: tuple[tuple[type[Operation], type[Operation]], ...] = (
    (arith.AddiOp, arith.SubiOp),
    (arith.MaxSIOp, arith.MinSIOp),
    (arith.ExtSIOp, arith.ExtUIOp),
    (arith.ShRSIOp, arith.ShRUIOp),
    (arith.AddfOp, arith.SubfOp),
    (arith.MulfOp, arith.DivfOp),
    (arith.MaxnumfOp, arith.MinnumfOp),
    (tosa.AddOp, tosa.SubOp),
    (GreaterOp, GreaterEqualOp),
    (MaximumOp, MinimumOp),
)
"""Ops with equal operands, results and properties."""

_SWAPS: dict[type[Operation], type[Operation]] = dict(
    (*_PAIRS, *((b, a) for a, b in _PAIRS))
)


def change_code(module: ModuleOp, seed: int) -> str | None:
    """Change a lowered module, and describe the change; `None` if nothing can change."""
    random = Random(seed)
    ops = [*module.walk()]
    random.shuffle(ops)
    for op in ops:
        swap = _SWAPS.get(type(op))
        if swap is not None and random.random() < 0.7:
            new = swap.create(
                operands=op.operands,
                result_types=op.result_types,
                properties=op.properties,
            )
            Rewriter.replace_op(op, new)
            return f"{op.name} -> {new.name}"
        properties = [*_changed_properties(op, random)]
        if properties:
            name, attribute, text = random.choice(properties)
            op.properties[name] = attribute
            return f"{op.name} {name}{text}"
    return None


def _changed_properties(
    op: Operation, random: Random
) -> Iterator[tuple[str, Attribute, str]]:
    """Yield properties with a changed attribute, and describe the change."""
    for name, old in op.properties.items():
        if name not in _CHANGES:
            continue
        new, text = _CHANGES[name](old, random)
        if new != old:
            yield name, new, text or f": {old} -> {new}"


# Changes of attributes: the new one, and a text where both are long.
# Attributes are generic types, which type checkers cannot narrow.


def _changed_value(old: Any, random: Random) -> tuple[Attribute, str]:
    if isinstance(old, DenseIntOrFPElementsAttr):
        return _changed_elements(old, random)
    if isinstance(old, IntegerAttr | FloatAttr):
        return _changed_number(old, random), ""
    return old, ""


def _changed_number(old: Any, random: Random) -> Attribute:
    number = old.value.data
    if isinstance(number, float):
        return FloatAttr(_changed_float(number, random), old.type)
    return IntegerAttr(number + random.choice((-1, 1)), old.type, truncate_bits=True)


def _changed_elements(old: Any, random: Random) -> tuple[Attribute, str]:
    values = [*old.get_values()]
    index = random.randrange(len(values))
    before = values[index]
    element = old.type.element_type
    if isinstance(element, IntegerType):
        half = 1 << max(element.bitwidth - 1, 0)
        after = before + random.choice((-1, 1, 2))
        values[index] = min(max(after, -half), half - 1)
    elif isinstance(before, float):
        values[index] = _changed_float(before, random)
    new = DenseIntOrFPElementsAttr.from_list(old.type, values)
    return new, f"[{index}]: {before} -> {values[index]}"


def _changed_float(number: float, random: Random) -> float:
    return number + random.choice((-1, 1)) * (abs(number) / 1000 or 1)


def _changed_predicate(old: Any, random: Random) -> tuple[Attribute, str]:
    return IntegerAttr(random.randrange(10), old.type), ""


def _negated(old: Any, _: Random) -> tuple[Attribute, str]:
    return IntegerAttr(1 - abs(old.value.data), old.type), ""


def _changed_rounding(_: Attribute, random: Random) -> tuple[Attribute, str]:
    return tosa.RoundingModeAttr(random.choice([*tosa.RoundingMode])), ""


def _changed_padding(old: Any, random: Random) -> tuple[Attribute, str]:
    """Move an element of padding to the other side."""
    values = [*old.get_values()]
    index = 2 * random.randrange(len(values) // 2)
    values[index : index + 2] = values[index] + 1, values[index + 1] - 1
    return DenseArrayBase.from_list(old.elt_type, values), ""


def _changed_maps(old: Any, random: Random) -> tuple[Attribute, str]:
    """Exchange two results of an affine map."""
    maps: list[AffineMap] = [attribute.data for attribute in old]
    indices = [i for i, map_ in enumerate(maps) if len(map_.results) > 1]
    if not indices:
        return old, ""
    index = random.choice(indices)
    before = maps[index]
    results = [*before.results]
    place = random.randrange(len(results) - 1)
    results[place : place + 2] = results[place + 1], results[place]
    maps[index] = AffineMap(before.num_dims, before.num_symbols, tuple(results))
    return ArrayAttr(map(AffineMapAttr, maps)), f"[{index}]: {before} to {maps[index]}"


_CHANGES: dict[str, Callable[[Any, Random], tuple[Attribute, str]]] = {
    **dict.fromkeys(("value", "values", "max_val", "min_val"), _changed_value),
    "predicate": _changed_predicate,
    "round": _negated,
    "rounding_mode": _changed_rounding,
    "pad": _changed_padding,
    "indexing_maps": _changed_maps,
}
"""Changes by name of the property."""
