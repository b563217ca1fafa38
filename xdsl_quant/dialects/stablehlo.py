"""The dialect `stablehlo`, which is in `frontends.stablehlo.dialect`."""

from xdsl_quant.frontends.stablehlo.dialect import *
