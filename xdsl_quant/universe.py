"""What `xdsl-opt` finds in this package: name -> factory, nothing imported before it is used."""

from xdsl.universe import Universe


def get_quant():
    from xdsl_quant.dialects.quant import Quant

    return Quant


XDSL_QUANT_UNIVERSE = Universe(all_dialects={"quant": get_quant})
