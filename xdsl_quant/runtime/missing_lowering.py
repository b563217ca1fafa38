"""Lowering of StableHLO for runners, and advice for other ops that they do not support."""

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import located_message, op_name
from xdsl_quant.dialects.quant import QuantizedType, RegionOp
from xdsl_quant.rounding_mode import Rounding

from .kernel_sets import kernel_set
from .loading import IRError, apply_passes, multiverse
from .plugins import dialect_ops

_TO_LINALG = "convert-stablehlo-to-linalg"

_QUANTIZED_TO_LINALG = "convert-quantized-stablehlo-to-linalg"


def has_stablehlo_ops(ops: Iterable[Operation]) -> bool:
    """Return True if an op or an op nested in it is of StableHLO."""
    return bool(_stablehlo_ops(ops))


def lower_stablehlo_ops(module: ModuleOp, rounding: Rounding) -> None:
    """
    Lower StableHLO ops to linalg in place. Keep quantized ops if they would be rounded in
    another way; `missing_lowering` reports them.

    Raises:
        IRError: if an op has no lowering.
    """
    if not (found := _stablehlo_ops([module])):
        return
    is_fused = kernel_set(module) == "onnxruntime"
    is_quantized = not is_fused and _has_quantized_types(found)
    lowering = _QUANTIZED_TO_LINALG if is_fused or is_quantized else _TO_LINALG
    if lowering not in multiverse().all_passes or (
        is_quantized and rounding != Rounding()
    ):
        return
    apply_passes(module, lowering, is_routine=True)
    if left := _stablehlo_ops([module]):
        message = f"'{left[0].name}' op cannot be run: it has no lowering to linalg"
        raise IRError(located_message(left[0], message))


def missing_lowering(ops: Iterable[Operation]) -> str | None:
    """
    Return an error message with the first StableHLO op or `quant.region` and the pass
    that lowers it; `None` if the ops contain neither.

    Nested ops are searched too.
    """
    ops = [*ops]
    kernels = (
        inner for op in ops for inner in op.walk() if isinstance(inner, RegionOp)
    )
    if (kernel := next(kernels, None)) is not None:
        return _advice(kernel, "quant-inline-regions")
    if not (found := _stablehlo_ops(ops)):
        return None
    is_quantized = _has_quantized_types(found)
    return _advice(found[0], _QUANTIZED_TO_LINALG if is_quantized else _TO_LINALG)


def compiled_only(ops: Iterable[Operation]) -> Operation | None:
    """Return the first op that `compile` supports but the interpreter does not."""
    first: dict[str, Operation] = {}
    for op in (inner for op in ops for inner in op.walk()):
        first.setdefault(op_name(op).partition(".")[0], op)
    found = (op for dialect, op in first.items() if dialect_ops(dialect).mlir_passes)
    return next(found, None)


def compiler_advice(ops: Iterable[Operation]) -> str | None:
    """Return an error message if an op must be compiled, with its location."""
    if (op := compiled_only(ops)) is None:
        return None
    message = f"'{op_name(op)}' op cannot be interpreted; use 'compile'"
    return located_message(op, message)


def _stablehlo_ops(ops: Iterable[Operation]) -> Sequence[Operation]:
    walked = (inner for op in ops for inner in op.walk())
    return [op for op in walked if op.name.startswith(("chlo.", "stablehlo."))]


def _has_quantized_types(ops: Iterable[Operation]) -> bool:
    return any(
        QuantizedType.get_quantized_element_type(value.type) is not None
        for op in ops
        for value in (*op.operands, *op.results)
    )


def _advice(op: Operation, lowering: str) -> str:
    return located_message(op, f"'{op.name}' op cannot be run; run '{lowering}' first")
