"""Advice for ops that no runner supports: the pass that lowers them."""

from collections.abc import Iterable

from xdsl.ir import Operation

from xdsl_quant.diagnostics import located_message
from xdsl_quant.dialects.quant import QuantizedType, RegionOp

_TO_LINALG = "convert-stablehlo-to-linalg"

_QUANTIZED_TO_LINALG = "convert-quantized-stablehlo-to-linalg"


def missing_lowering(ops: Iterable[Operation]) -> str | None:
    """
    Return an error message with the first StableHLO op or `quant.region` and the pass
    that lowers it; `None` if the ops contain neither.

    Nested ops are searched too.
    """
    all_ops = [inner for op in ops for inner in op.walk()]
    if kernels := [op for op in all_ops if isinstance(op, RegionOp)]:
        return _advice(kernels[0], "quant-inline-regions")
    found = [op for op in all_ops if op.name.startswith("stablehlo.")]
    if not found:
        return None
    is_quantized = any(
        QuantizedType.get_quantized_element_type(value.type) is not None
        for op in found
        for value in (*op.operands, *op.results)
    )
    return _advice(found[0], _QUANTIZED_TO_LINALG if is_quantized else _TO_LINALG)


def _advice(op: Operation, lowering: str) -> str:
    return located_message(op, f"'{op.name}' op cannot be run; run '{lowering}' first")
