"""
TensorFlow Lite's dialect `tfl`: ops of quantized models, attributes and TensorFlow types.

See external [documentation](https://www.tensorflow.org/mlir/tfl_ops).
"""

from xdsl.ir import Dialect, Operation

from . import (
    activations,
    attributes,
    constants,
    control_flow,
    data_movement,
    elementwise,
    fourier,
    products,
    recurrent,
    reduction,
    state,
    windows,
)
from .activations import *
from .attributes import *
from .attributes import ConstBytesAttr, LSTMKernelAttr, MirrorPadAttr
from .constants import *
from .control_flow import *
from .data_movement import *
from .elementwise import *
from .fourier import *
from .products import *
from .recurrent import *
from .reduction import *
from .state import *
from .windows import *

__all__ = ["TFL"]
__all__ += activations.__all__
__all__ += attributes.__all__
__all__ += constants.__all__
__all__ += control_flow.__all__
__all__ += data_movement.__all__
__all__ += elementwise.__all__
__all__ += fourier.__all__
__all__ += products.__all__
__all__ += recurrent.__all__
__all__ += reduction.__all__
__all__ += state.__all__
__all__ += windows.__all__

_EXPORTED = [
    value for name in __all__ if isinstance(value := globals().get(name), type)
]

TFL = Dialect(
    "tfl",
    [value for value in _EXPORTED if Operation in value.__mro__],
    [ConstBytesAttr, LSTMKernelAttr, MirrorPadAttr],
)
"""Dialect `tfl` with the ops and attributes of this package."""
