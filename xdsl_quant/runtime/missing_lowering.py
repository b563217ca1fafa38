"""Ops that cannot be run before a lowering, and the pass that lowers them."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant import QuantizedType

_TO_LINALG = "convert-stablehlo-to-linalg"

_QUANTIZED_TO_LINALG = "convert-quantized-stablehlo-to-linalg"


def missing_lowering(ops: Iterable[Operation]) -> str | None:
    """
    What to do before ops, with all that is in them, can be run, and where; `None` if they
    are not of StableHLO.
    """
    found = [
        inner
        for op in ops
        for inner in op.walk()
        if inner.name.startswith("stablehlo.")
    ]
    if not found:
        return None
    is_quantized = any(map(_has_quantized_values, found))
    advice = f"run '{_QUANTIZED_TO_LINALG if is_quantized else _TO_LINALG}' first"
    where = location_prefix(found[0].location)
    start = f"{where}error: " if where else ""
    return f"{start}'{found[0].name}' op cannot be run: {advice}"


def _has_quantized_values(op: Operation) -> bool:
    return any(
        QuantizedType.get_quantized_element_type(value.type) is not None
        for value in (*op.operands, *op.results)
    )
