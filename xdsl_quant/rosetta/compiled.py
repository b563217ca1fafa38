"""Casts as machine code: this package's lowering, and MLIR's `lower-quant-ops`."""

from collections.abc import Callable
from functools import cache

from xdsl_quant.execution import compile
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rounding_mode import Rounding

from .runtimes import CastKind, Runtime, cast_types

DEFAULT = Rounding()

ROUNDINGS = (
    DEFAULT,
    Rounding(zero_point_order="after-rounding"),
    Rounding("nearest-away"),
    Rounding("nearest-away", "after-rounding"),
    Rounding("truncate"),
)
"""All combinations of rounding options, except the options for NaN."""


def compile_options(rounding: Rounding) -> dict[str, str]:
    """Return the options of `lower-quant-ops` that select a non-default rounding."""
    names = ("rounding-mode", "zero-point-order", "nan")
    values = zip(names, rounding, DEFAULT, strict=True)
    return {name: value for name, value, default in values if value != default}


def _cast_text(parameters: QuantizationParameters, op: CastKind) -> str:
    source, target = cast_types(parameters, op)
    return (
        f"func.func @main(%x: {source}) -> {target} {{\n"
        f"  %y = quant.{op[0]}cast %x : {source} to {target}\n"
        f"  return %y : {target}\n}}\n"
    )


class Compiled(Runtime):
    """Machine code from this package's lowering."""

    modules = ("mlir",)

    def __init__(self, rounding: Rounding = DEFAULT):
        self.rounding = rounding
        options = (
            f" {name}={value}" for name, value in compile_options(rounding).items()
        )
        self.name = "compiled" + "".join(options)

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        text = _cast_text(parameters, op)
        return compile(text, **self.rounding.arguments())(values)


class MLIRDefault(Runtime):
    """
    Machine code from MLIR's `lower-quant-ops`, which rounds toward zero. Overflow is
    undefined.
    """

    name = "mlir"
    package = "xtc-mlir-python-bindings"
    modules = ("mlir",)

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        function = _lowered_by_mlir(parameters, op)
        # MLIR's pass uses signless integers.
        if op == "quantize":
            return function(values).view(parameters.storage_dtype)
        return function(values.view(f"i{values.itemsize}"))


@cache
def _lowered_by_mlir(
    parameters: QuantizationParameters, op: CastKind
) -> Callable[[Array], Array]:
    # Needs the extra `mlir`.
    from xdsl_quant.execution.mlir_bindings import ir, run_passes

    with ir.Context():
        module = ir.Module.parse(_cast_text(parameters, op))
        casts = "func.func(lower-quant-ops)"
        run_passes(module, (casts, "strip-func-quant-types", "canonicalize"))
        return compile(str(module))
