"""
StableHLO dialect, with verification of quantized types.

See external [documentation](https://openxla.org/stablehlo/spec).
"""

from xdsl import ir

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

_DEFINED = [
    value
    for value in [*globals().values()]
    if isinstance(value, type) and value.__module__.startswith(__name__)
]

StableHLO = ir.Dialect(
    "stablehlo",
    [value for value in _DEFINED if issubclass(value, ir.Operation)],
    [value for value in _DEFINED if issubclass(value, ir.Attribute)],
)
"""StableHLO dialect with all ops, attributes and types of this package."""
