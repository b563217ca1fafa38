"""Plugin declaration of the named ops of linalg."""

from xdsl_quant.runtime.plugins import QuantizationUniverse, lazy

_HERE = "frontends.linalg_named_ops"

SLICE = QuantizationUniverse(
    interpreters={
        f"xdsl_quant.{_HERE}.ops": lazy(f"{_HERE}.interpreter", "named_op_functions")
    }
)
