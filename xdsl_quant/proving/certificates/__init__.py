"""Certificates: bounds of the error of a quantized network for all inputs of regions."""

from contextlib import suppress
from types import ModuleType

from . import common_readers
from .certificate import Certificate, KernelBound, RegionCertificate, certify, witnesses
from .regions import Region

READER_MODULES: list[ModuleType] = [common_readers]
"""Modules that register transfer functions; frontends may be missing."""

with suppress(ModuleNotFoundError):
    from . import stablehlo_readers

    READER_MODULES.append(stablehlo_readers)

with suppress(ModuleNotFoundError):
    from . import tfl_readers

    READER_MODULES.append(tfl_readers)

__all__ = [
    "Certificate",
    "KernelBound",
    "Region",
    "RegionCertificate",
    "certify",
    "witnesses",
]
