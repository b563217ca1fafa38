"""Read float constants into NumPy arrays without a Python object per element."""

from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
)
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.float_dtypes import float_dtype
from xdsl_quant.runtime.arrays import dense_elements


def float_numbers(value: Attribute | None) -> Array | float | None:
    """
    Return the elements of a float attribute, or `None` for other attributes.

    Raises:
        ValueError: if the data is missing or of another size, or NumPy lacks the type.
        ImportError: if the type needs a package that is not installed.
    """
    if isinstance(value, FloatAttr):
        return value.value.data
    if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return None
    element_type = scalar_or_element_type(value.get_type())
    if not isinstance(element_type, AnyFloat):
        return None
    float_dtype(element_type.name)  # raises an error with the supported types
    return dense_elements(cast("DenseIntOrFPElementsAttr | DenseResourceAttr", value))


def float_elements(value: Attribute | None) -> NDArray[np.floating] | None:
    """
    Return the elements of a float attribute as an array with a NumPy float dtype, or
    `None` for other attributes.

    Raises:
        ValueError: if the data is missing, or NumPy lacks the float type.
        ImportError: if the type needs a package that is not installed.
    """
    if (numbers := float_numbers(value)) is None:
        return None
    array = np.asarray(numbers)
    # NumPy does not treat `ml_dtypes` types as floats.
    return array.astype(np.float32) if array.dtype.kind == "V" else array
