"""Lowered modules in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_quant import xdsl_patches
from xdsl_quant.dialects.quant import Quant

from . import disk_cache
from .entry_point import Boundary, EntryPoint

_PACKAGES = {"xdsl", "xdsl_quant"}
"""Packages whose versions are known when a key is made."""


class Lowered(NamedTuple):
    """A function that is ready for MLIR."""

    entry_point: EntryPoint

    text: str
    """The function and all that it needs, lowered."""


def read_lowered(key: str) -> Lowered | None:
    """The function that is kept under a key, without its module."""
    if (entry := disk_cache.read(key)) is None:
        return None
    header = entry.header
    arguments, results = (
        [Boundary.of(type_, name) for type_ in _parsed_types(header[name])]
        for name in ("arguments", "results")
    )
    entry_point = EntryPoint(
        header["name"],
        ModuleOp([]),
        header["symbols"],
        arguments,
        results,
        {},
    )
    return Lowered(entry_point, entry.content.decode())


def write_lowered(key: str, lowered: Lowered) -> None:
    """Keep a function, if the types of its signature are read as they are written."""
    entry_point, text = lowered
    signature = {
        "arguments": [str(b.type_) for b in entry_point.arguments],
        "results": [str(b.type_) for b in entry_point.results],
    }
    types = [b.type_ for b in (*entry_point.arguments, *entry_point.results)]
    try:
        if [
            *_parsed_types(signature["arguments"]),
            *_parsed_types(signature["results"]),
        ] != types:
            return
    except ParseError:
        return
    header = {
        "name": entry_point.name,
        "symbols": [*entry_point.symbols],
        **signature,
    }
    disk_cache.write(key, disk_cache.Entry(header, text.encode()))


def _parsed_types(texts: Iterable[str]) -> Iterator[Attribute]:
    xdsl_patches.apply("builtin")
    ctx = Context()
    for dialect in (Builtin, Quant):
        ctx.load_dialect(dialect)
    for text in texts:
        yield Parser(ctx, text).parse_type()


def is_known(module: ModuleOp) -> bool:
    """Whether all that lowering does to a module is code of xDSL and of this package."""
    types = {type(op) for op in module.walk()}
    return {type_.__module__.partition(".")[0] for type_ in types} <= _PACKAGES
