"""Questions of the quantizer about the dialect of a model's ops."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue


class ModelDialect:
    """A dialect of float models; one that is not known has nothing to simplify."""

    has_zero_points = True
    """True if activations that are quantized at run time may have zero points."""

    def simplify(self, op: Operation) -> None:
        """Replace an op as frontends print it by the form that kernels have."""

    def hybrid_reason(self, product: Operation, weights: SSAValue) -> str | None:
        """
        Return why a product of floats cannot take quantized weights and quantize its
        activations at run time; `None` if it can.
        """
        return "no hybrid kernel"

    def set_zero_points(self, product: Operation, *, wanted: bool) -> None:
        """Say whether activations have zero points, if the op has a choice."""

    def quantize_activations(self, module: ModuleOp) -> None:
        """
        Replace products of floats and quantized weights by integer products, unless they
        quantize activations themselves.
        """
