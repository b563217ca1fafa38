"""
StableHLO dialect, with verification of quantized types.

See external [documentation](https://openxla.org/stablehlo/spec).
"""

from xdsl.ir import Attribute, Dialect, Operation

from . import (
    attributes,
    collectives,
    composite,
    computations,
    constants_and_calls,
    control_flow,
    custom_calls,
    data_movement,
    deprecated,
    dynamic_shapes,
    dynamic_slices,
    elementwise,
    functions,
    linear_algebra,
    normalization,
    products,
    random_numbers,
    reduction,
    representations,
    scatter,
    select_and_scatter,
    transfers,
)
from .attributes import *
from .collectives import *
from .composite import *
from .computations import *
from .constants_and_calls import *
from .control_flow import *
from .custom_calls import *
from .data_movement import *
from .deprecated import *
from .dynamic_shapes import *
from .dynamic_slices import *
from .elementwise import *
from .functions import *
from .linear_algebra import *
from .normalization import *
from .products import *
from .random_numbers import *
from .reduction import *
from .representations import *
from .scatter import *
from .select_and_scatter import *
from .transfers import *

__all__ = ["StableHLO"]
__all__ += attributes.__all__
__all__ += collectives.__all__
__all__ += composite.__all__
__all__ += computations.__all__
__all__ += constants_and_calls.__all__
__all__ += control_flow.__all__
__all__ += custom_calls.__all__
__all__ += data_movement.__all__
__all__ += deprecated.__all__
__all__ += dynamic_shapes.__all__
__all__ += dynamic_slices.__all__
__all__ += elementwise.__all__
__all__ += functions.__all__
__all__ += linear_algebra.__all__
__all__ += normalization.__all__
__all__ += products.__all__
__all__ += random_numbers.__all__
__all__ += reduction.__all__
__all__ += representations.__all__
__all__ += scatter.__all__
__all__ += select_and_scatter.__all__
__all__ += transfers.__all__

_EXPORTED = [
    value for name in __all__ if isinstance(value := globals().get(name), type)
]

StableHLO = Dialect(
    "stablehlo",
    [value for value in _EXPORTED if Operation in value.__mro__],
    [value for value in _EXPORTED if Attribute in value.__mro__],
)
"""StableHLO dialect with all ops, attributes and types of this package."""
