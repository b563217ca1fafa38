"""Conversion of array arguments to expressed and stored values, with checks."""

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, DType, check_bounds, check_unmasked, numbers
from .float_dtypes import rounded
from .parameters import QuantizationParameters, check_storable
from .small_floats import SmallFloat


def check_are_parameters(*values: object) -> None:
    """Raise a `TypeError` if a value is not a `QuantizationParameters`."""
    for value in values:
        if isinstance(value, QuantizationParameters):
            continue
        # Compare names, because importing the type would import xDSL.
        is_type = str(getattr(value, "name", "")).startswith("quant.")
        hint = "; use QuantizationParameters.from_type" if is_type else ""
        raise TypeError(
            f"expected QuantizationParameters, found {type(value).__name__}{hint}"
        )


def check_requantization(
    source: QuantizationParameters, target: QuantizationParameters
) -> None:
    """
    Check the arguments of a requantization.

    Raises:
        TypeError: if an argument is not a `QuantizationParameters`.
        ValueError: if the expressed types differ.
    """
    check_are_parameters(source, target)
    if source.expressed != target.expressed:
        raise ValueError(
            f"cannot requantize from expressed type '{source.expressed}' to "
            f"'{target.expressed}'; expected equal types"
        )


def expressed_array(values: ArrayLike, parameters: QuantizationParameters) -> Array:
    """
    Return expressed values as an array. Python numbers are rounded to the expressed type.

    Raises:
        TypeError: if an array is masked or does not have the expressed dtype, or values are
            not numbers.
    """
    check_are_parameters(parameters)
    expected = parameters.expressed_dtype
    if isinstance(values, np.ndarray | np.generic):
        return _with_dtype(cast(Array, values), expected, "expressed values")
    array = numbers(values, "expressed values", "iuf")
    return rounded(array.astype(np.float64), expected)


def stored_array(values: ArrayLike, parameters: QuantizationParameters) -> Array:
    """
    Return stored values as an array.

    Raises:
        TypeError: if an array is masked or does not have the storage dtype, or values are
            not integers.
        ValueError: if a value is out of range of the storage type.
    """
    check_are_parameters(parameters)
    expected = parameters.storage_dtype
    if parameters.small_float is not None:
        return _small_float_codes(values, parameters.small_float, expected)
    if isinstance(values, np.ndarray | np.generic):
        array = _with_dtype(cast(Array, values), expected, "stored values")
        if parameters.storage_width == 8 * expected.itemsize and (
            parameters.table is None
        ):
            return array
    else:
        array = numbers(values, "stored values", "iu")
    if parameters.table is None:
        check_storable(array, parameters.storage, "stored value")
    else:
        last = parameters.table_min + parameters.table.size - 1
        check_bounds(
            array,
            parameters.table_min,
            last,
            f"expected table indices from {parameters.table_min} to {last}, found {{}}",
        )
    return array.astype(expected, copy=False)


def _small_float_codes(values: ArrayLike, format: SmallFloat, expected: DType) -> Array:
    if not isinstance(values, np.ndarray | np.generic):
        raise TypeError(
            f"expected an array of '{format.name}', found {type(values).__name__}"
        )
    array = cast(Array, values)
    if array.dtype != np.uint8:
        return _with_dtype(array, expected, "stored values")
    check_unmasked(array, "stored values")
    last = (1 << format.bits) - 1
    message = f"expected codes of {format.name} from 0 to {last}, found {{}}"
    check_bounds(array, 0, last, message)
    return array


def _with_dtype(values: Array, expected: DType, what: str) -> Array:
    check_unmasked(values, what)
    array = np.asarray(values)
    if array.dtype.newbyteorder("=") != expected:
        raise TypeError(f"expected {what} with dtype {expected}, found {array.dtype}")
    return array
