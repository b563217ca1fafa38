"""
The ports of a kernel whose values have one set of parameters with others.

`quant.coupled_ref` says so by a key. Where parameters are not known yet, the key is in the
attribute `quant.coupled_ports` of the kernel, with the number of the port: operands are
counted first, then results.

```mlir
quant.region "k" (%a = %x : tensor<4xf32> as !quant.calibrated<f32<-1.0:2.0>>)
  attributes {quant.coupled_ports = [{port = 0 : i64, key = "state"}]} {
}
```
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import RegionOp

COUPLED_PORTS = "quant.coupled_ports"
"""The attribute of a kernel with the keys of its ports."""


def coupled_ports(kernel: RegionOp) -> Mapping[int, str]:
    """
    The keys of ports by number.

    Raises:
        PassFailedException: if the attribute is wrong.
    """
    entries = kernel.attributes.get(COUPLED_PORTS, ArrayAttr[DictionaryAttr](()))
    keys: dict[int, str] = {}
    if isa(entries, ArrayAttr[DictionaryAttr]):
        for entry in entries:
            port, key = entry.data.get("port"), entry.data.get("key")
            if isinstance(port, IntegerAttr) and isinstance(key, StringAttr):
                keys[port.value.data] = key.data
        if len(keys) == len(entries) and all(
            0 <= port < len(kernel.specs) for port in keys
        ):
            return keys
    fail(
        kernel,
        f"'{kernel.name}' op needs an array of dictionaries with the integer 'port', the "
        f"number of one of its {len(kernel.specs)} ports, and the string 'key' as "
        f"'{COUPLED_PORTS}'",
    )


def set_coupled_ports(kernel: RegionOp, keys: Mapping[int, str]) -> None:
    """Give ports keys, by number."""
    keys = {**coupled_ports(kernel), **keys}
    kernel.attributes[COUPLED_PORTS] = ArrayAttr(
        DictionaryAttr({"port": IntegerAttr(port, i64), "key": StringAttr(key)})
        for port, key in sorted(keys.items())
    )
