"""The dialect `stablehlo`, defined in `frontends.stablehlo.dialect`."""

from xdsl_quant.frontends.stablehlo.dialect import *
