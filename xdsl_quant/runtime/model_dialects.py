"""Hooks by which a dialect of float models adapts the quantizer to its ops."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

BlockScales: TypeAlias = Literal["expressed", "f16"]


class ModelDialect:
    """Hooks for a dialect of float models. The defaults here apply to unknown dialects."""

    has_zero_points = True
    """True if activations quantized at run time may have zero points."""

    block_scales: BlockScales = "expressed"
    """Type of the scales of blocks: see the pass `quant-quantize-weights`."""

    def supports_blocks(self, op: Operation, bits: int) -> bool:
        """
        Return True if weights of a contraction or lookup may have block scales. Warn if the
        scales of these weights, with stored values of `bits`, are out of range.
        """
        return True

    def simplify(self, op: Operation) -> None:
        """Replace an op that frontends export by ops that kernel patterns match."""

    def hybrid_reason(self, product: Operation, weights: SSAValue) -> str | None:
        """
        Return the reason if a float contraction does not support dynamic range quantization
        (quantized weights, activations quantized at run time), or `None` if it does.
        """
        return "no hybrid kernel"

    def set_zero_points(self, product: Operation, *, wanted: bool) -> None:
        """Enable or disable zero points of activations, if `product` has this option."""

    def quantize_activations(self, module: ModuleOp) -> None:
        """
        Replace contractions of float activations and quantized weights by integer
        contractions, except ops that quantize their activations themselves. Weights that
        such ops require as constants are folded.
        """

    def set_argument_shapes(
        self, module: ModuleOp, function: FuncOp, shapes: Sequence[Sequence[int]]
    ) -> None:
        """
        Set the shapes of the arguments of a function in place, and infer the shapes of
        results; do nothing if ops of the dialect support dynamic sizes.
        """
