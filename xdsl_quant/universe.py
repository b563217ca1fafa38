"""What `xdsl-opt` finds in this package: name -> factory, nothing imported before use."""

from xdsl.dialects import get_all_dialects
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe


def get_quant():
    from xdsl_quant.dialects.quant import Quant

    return Quant


def get_shape():
    from xdsl_quant.dialects.shape import Shape

    return Shape


def get_lower_quant_ops():
    from xdsl_quant.transforms.lower_quant_ops import LowerQuantOpsPass

    return LowerQuantOpsPass


# A name that xDSL itself has, too, would make every tool refuse to start.
XDSL_QUANT_UNIVERSE = Universe(
    all_dialects={
        name: factory
        for name, factory in {"quant": get_quant, "shape": get_shape}.items()
        if name not in get_all_dialects()
    },
    all_passes={
        name: factory
        for name, factory in {"lower-quant-ops": get_lower_quant_ops}.items()
        if name not in get_all_passes()
    },
)
