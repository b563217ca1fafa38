"""
StableHLO dialect, with verification of quantized types.

See external [documentation](https://openxla.org/stablehlo/spec).
"""

from .attributes import *
from .base import dialect_of
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

StableHLO = dialect_of("stablehlo", globals().values())
"""StableHLO dialect with all ops, attributes and types of this package."""
