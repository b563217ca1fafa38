"""What a runtime is, and which ones there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import ClassVar

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array


class Unavailable(Exception):
    """Why a runtime computes nothing, e.g. because it does not know a type."""


class Runtime(ABC):
    """
    Something that quantizes and dequantizes, per-tensor.

    Results are integers, or floats that are integers with NaN where it does not say what
    they are.
    """

    name: str
    """The name in tables and options."""

    package: ClassVar[str] = ""
    """The package that it is; empty if it needs none."""

    modules: ClassVar[Sequence[str]] = ()
    """What it imports, in a process of its own."""

    only_quantizes: ClassVar[bool] = False
    """Whether it has no dequantization."""

    def missing(self) -> str:
        """Which package is not installed; empty if none is missing."""
        for module in self.modules:
            if find_spec(module) is None:
                is_own = self.package and module == self.modules[0]
                return f"{self.package if is_own else module} is not installed"
        return ""

    def version(self) -> str:
        """The version of its package; empty if it needs none."""
        if not self.package:
            return ""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    @abstractmethod
    def quantize(self, parameters: QuantizationParameters, values: Array) -> Array:
        """
        Stored values of expressed ones.

        Raises:
            Unavailable: if it cannot.
        """

    @abstractmethod
    def dequantize(self, parameters: QuantizationParameters, stored: Array) -> Array:
        """
        Expressed values of stored ones, as floats of any type.

        Raises:
            Unavailable: if it cannot.
        """


class Library(Runtime):
    """A runtime that is called in a process of its own."""
