"""Syntax of enum attributes of several frontends."""

from abc import ABC
from typing import TypeVar

from xdsl.ir import Data
from xdsl.parser import AttrParser
from xdsl.printer import Printer

DataT = TypeVar("DataT", covariant=True)


class BracketedAttribute(Data[DataT], ABC):
    """Mixin that puts the parameter of an attribute, whose base follows, in `<` and `>`."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> DataT:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)
