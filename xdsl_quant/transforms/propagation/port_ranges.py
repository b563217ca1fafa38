"""
Kernel attributes with ranges of ports, with keys of values that share parameters, and with
the rounding of results. Each entry has a port number: operands come first, then results.

A calibrated type has a single range, so per-axis ranges are in the attribute
`quant.port_stats`. For `!quant.any`, which has a width but no range, the attribute also
contains the range of all elements.

```mlir
quant.region "k" (%a = %x : tensor<2x4xf32> as !quant.calibrated<f32<-1.0:2.0>>)
  attributes {quant.port_stats = [{
    port = 0 : i64, quant.axis = 0 : i64,
    quant.axis_stats = dense<[[-1.0, 0.0], [0.0, 2.0]]> : tensor<2x2xf64>
  }]} {
}
quant.region "k" (%a = %x : tensor<4xf32> as !quant.any<i16:f32>) attributes {
  quant.port_stats = [{port = 0 : i64, quant.layer_stats = array<f64: -1.0, 2.0>}]
} {
}
```

Values with the same `quant.coupled_ref` key share parameters. Until their parameters
are chosen, the key is in the attribute `quant.coupled_ports`.

```mlir
quant.region "k" (%a = %x : tensor<4xf32> as !quant.calibrated<f32<-1.0:2.0>>)
  attributes {quant.coupled_ports = [{port = 0 : i64, key = "state"}]} {
}
```

If a cast of a result states its rounding (see
[`cast_rounding`][xdsl_quant.dialects.quant.ops.cast_rounding]), the attribute
`quant.port_rounding` contains these attributes of the cast. Kernels that stay in floating
point round their results accordingly; integer kernels round like their target.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    RegionOp,
)
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.transforms.statistics.ranges.value_ranges import (
    ValueRanges,
    attribute_ranges,
    calibrated_ranges,
)

PORT_STATS = "quant.port_stats"
"""Kernel attribute with the per-axis ranges of ports."""

COUPLED_PORTS = "quant.coupled_ports"
"""Kernel attribute with the `quant.coupled_ref` keys of ports."""

PORT_ROUNDING = "quant.port_rounding"
"""Kernel attribute with the rounding attributes of casts of results."""

_Entry: TypeAlias = Mapping[str, Attribute]


def _refuse_ranges(kernel: RegionOp, message: str) -> NoReturn:
    fail(kernel, f"'{kernel.name}' op {message}")


def _port_entries(kernel: RegionOp, name: str) -> Sequence[tuple[int, _Entry]] | None:
    """Return pairs of port number and attribute entry; `None` if malformed."""
    entries = kernel.attributes.get(name, ArrayAttr[DictionaryAttr](()))
    if not isa(entries, ArrayAttr[DictionaryAttr]):
        return None
    numbered = [
        (port.value.data, entry.data)
        for entry in entries
        if isinstance(port := entry.data.get("port"), IntegerAttr)
    ]
    return numbered if len(numbered) == len(entries) else None


def _set_port_entries(
    kernel: RegionOp, name: str, entries: Mapping[int, _Entry]
) -> None:
    """Set an attribute to an entry per port, or remove it if there are none."""
    kernel.attributes.pop(name, None)
    if entries:
        kernel.attributes[name] = ArrayAttr(
            DictionaryAttr({"port": IntegerAttr(port, i64), **entry})
            for port, entry in sorted(entries.items())
        )


def port_ranges(kernel: RegionOp) -> dict[int, ValueRanges]:
    """
    Return the ranges of ports by number: from calibrated types, and from
    `quant.port_stats` for ports with `!quant.any` or without specification.

    Raises:
        PassFailedException: if the attribute `quant.port_stats` is invalid.
    """
    stats = _port_stats(kernel)
    types = *kernel.operand_types, *kernel.result_types
    ranges: dict[int, ValueRanges] = {}
    for index, spec in enumerate(kernel.specs):
        attributes = stats.get(index, {})
        try:
            if isinstance(spec, CalibratedQuantizedType):
                ranges[index] = calibrated_ranges(spec, attributes)
            elif isinstance(spec, AnyFloat | AnyQuantizedType) and (
                found := attribute_ranges(attributes)
            ):
                ranges[index] = found
            else:
                continue
        except ValueError as e:
            _refuse_ranges(kernel, str(e))
        pairs = ranges[index].axis_ranges
        if pairs is not None and not _has_axis(types[index], ranges[index]):
            found = (
                f"{len(pairs)} ranges of dimension {ranges[index].axis} of port {index}"
            )
            _refuse_ranges(
                kernel,
                f"has {found} in '{PORT_STATS}', but this port has type "
                f"'{types[index]}'; expected one range for each index of the dimension",
            )
    return ranges


def _checked_entries(kernel: RegionOp, name: str) -> Sequence[tuple[int, _Entry]]:
    if (entries := _port_entries(kernel, name)) is None:
        needed = "an array of dictionaries with an integer 'port'"
        _refuse_ranges(kernel, f"expects {needed} as '{name}'")
    return entries


def set_result_rounding(kernel: RegionOp, rounding: Mapping[int, _Entry]) -> None:
    """Add the rounding attributes of casts of results, by port number."""
    known = dict(_checked_entries(kernel, PORT_ROUNDING))
    _set_port_entries(kernel, PORT_ROUNDING, {**known, **rounding})


def result_rounding(kernel: RegionOp, index: int) -> _Entry:
    """
    Return the attributes of a cast of result number `index` that set its rounding.

    Raises:
        PassFailedException: if the attribute `quant.port_rounding` is malformed.
    """
    entries = dict(_checked_entries(kernel, PORT_ROUNDING))
    entry = entries.get(len(kernel.inputs) + index, {})
    return {name: value for name, value in entry.items() if name != "port"}


def _port_stats(kernel: RegionOp) -> Mapping[int, _Entry]:
    entries = _checked_entries(kernel, PORT_STATS)
    stats: dict[int, _Entry] = {}
    for index, entry in entries:
        if index in stats or not 0 <= index < len(kernel.specs):
            expected = f"distinct port numbers below {len(kernel.specs)}"
            _refuse_ranges(
                kernel, f"has '{PORT_STATS}' of port {index}, expected {expected}"
            )
        stats[index] = entry
    return stats


def remove_used_ranges(kernel: RegionOp) -> None:
    """Remove the ranges of ports that now have parameters from attributes."""
    left = {
        index: entry
        for index, entry in _port_stats(kernel).items()
        if not isinstance(kernel.specs[index], UniformType)
    }
    _set_port_entries(kernel, PORT_STATS, left)


def set_specs(
    kernel: RegionOp,
    specs: Sequence[Attribute],
    ranges: Mapping[int, ValueRanges],
) -> None:
    """
    Replace the specifications of a kernel.

    Args:
        kernel: the kernel.
        specs: the specifications of operands, then of results.
        ranges: the ranges by port number. Per-axis ranges are kept if they match the
            shape of the port; the range of all elements is kept only for `!quant.any`.
    """
    input_count = len(kernel.inputs)
    kernel.attributes["input_specs"] = ArrayAttr(specs[:input_count])
    kernel.attributes["output_specs"] = ArrayAttr(specs[input_count:])
    types = *kernel.operand_types, *kernel.result_types
    stats: dict[int, _Entry] = {}
    for index, port in ranges.items():
        attributes = port.axis_attributes() if _has_axis(types[index], port) else {}
        if isinstance(specs[index], AnyQuantizedType):
            attributes |= port.layer_attributes()
        if attributes:
            stats[index] = attributes
    _set_port_entries(kernel, PORT_STATS, stats)


def _has_axis(type_: Attribute, ranges: ValueRanges) -> bool:
    """Return True if a type has an axis with as many indices as there are ranges."""
    _, axis, pairs = ranges
    if axis is None or pairs is None or not isinstance(type_, TensorType):
        return False
    shape = type_.get_shape()
    return 0 <= axis < len(shape) and shape[axis] in (DYNAMIC_INDEX, len(pairs))


def coupled_ports(kernel: RegionOp) -> Mapping[int, str]:
    """
    Return the `quant.coupled_ref` keys of ports by port number.

    Raises:
        PassFailedException: if the attribute `quant.coupled_ports` is invalid.
    """
    entries = _port_entries(kernel, COUPLED_PORTS)
    keys = {
        port: key.data
        for port, entry in entries or ()
        if 0 <= port < len(kernel.specs)
        and isinstance(key := entry.get("key"), StringAttr)
    }
    if entries is None or len(keys) < len(entries):
        port = f"an integer 'port' below {len(kernel.specs)}"
        needed = f"an array of dictionaries with {port} and a string 'key'"
        _refuse_ranges(kernel, f"expects {needed} as '{COUPLED_PORTS}'")
    return keys


def set_coupled_ports(kernel: RegionOp, keys: Mapping[int, str]) -> None:
    """Set the `quant.coupled_ref` keys of some ports, given by port number."""
    keys = {**coupled_ports(kernel), **keys}
    entries = {port: {"key": StringAttr(key)} for port, key in keys.items()}
    _set_port_entries(kernel, COUPLED_PORTS, entries)
