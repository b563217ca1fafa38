"""Bit-exact block-scaled formats of hardware and checkpoints."""

from collections.abc import Mapping

from .block_scaled import BlockScaled, Stored
from .format import Format
from .gguf import GGUF_FORMATS
from .grouped import GROUP_FORMATS
from .mx import MX_FORMATS, NVFP4_FORMAT, ScaleRule
from .nf4 import NF4_FORMAT
from .quantize_linear import QuantizeLinear


class _Formats(dict[str, Format]):
    def __missing__(self, name: str) -> Format:
        raise KeyError(f"unknown format '{name}', available: {', '.join(self)}")


FORMATS: Mapping[str, Format] = _Formats(
    (format.name, format)
    for format in (*MX_FORMATS, NVFP4_FORMAT, NF4_FORMAT, *GGUF_FORMATS, *GROUP_FORMATS)
)

__all__ = ["FORMATS", "BlockScaled", "Format", "QuantizeLinear", "ScaleRule", "Stored"]
