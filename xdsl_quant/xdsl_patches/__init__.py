"""
What xDSL does not do yet, and modules of quantized operations need.

Each module of this package is named after a dialect of xDSL and has the patches of it, in
`PATCHES`: functions that change xDSL's own classes in place. They are applied when a
`Context` loads the dialect (`apply_on_load`, once the plugin is found), or all at once for
code that builds operations without a context (`apply`). So modules that this package has
lowered, which have no quantized type left, are read by all of xDSL's tools.

A patch accepts or keeps more than xDSL, whose error messages stay as they are. It first
tries what it is about and does nothing if xDSL already does it, so it ends by itself when
xDSL catches up. The documentation lists all of them, with what MLIR does and the change
of xDSL that would end each.

With `XDSL_QUANT_PATCHES=off` in the environment none is applied.

This package is imported at every start of `xdsl-opt`: at module level it imports only what
`xdsl.universe` has imported before.
"""

import os
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache, wraps
from importlib import import_module
from typing import TypeVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail

_Apply = TypeVar("_Apply", bound=Callable[..., object])

PATCHED_DIALECTS = ("builtin", "arith", "func", "linalg", "tensor", "tosa")
"""The dialects that have patches; those of `builtin` are needed by all others."""

NEWEST_TESTED_XDSL = (0, 75)
"""The newest release of xDSL that `make xdsl-versions` runs the tests with."""

_SLICES = {"tosa": "xdsl_quant.frontends.tosa.patches"}
"""Modules with patches of a slice, which may be missing; few modules need them."""


def are_on() -> bool:
    """Return True if the environment lets xDSL be patched."""
    return os.environ.get("XDSL_QUANT_PATCHES") != "off"


@cache
def _warn_of_untested_xdsl() -> None:
    # Not imported by the plugin itself, whose import is part of each start of `xdsl-opt`.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        # `distribution("xdsl").version` takes 7 ms, as it parses all metadata.
        metadata = distribution("xdsl").read_text("METADATA") or ""
    except PackageNotFoundError:
        return
    found = re.search(r"^Version: (\d+)\.(\d+)", metadata, re.MULTILINE)
    if found is None or (*map(int, found.groups()),) <= NEWEST_TESTED_XDSL:
        return
    major, minor = NEWEST_TESTED_XDSL
    warnings.warn(
        f"xDSL {found[1]}.{found[2]} is newer than the newest tested release: "
        f"{major}.{minor}; if something fails, install 'xdsl<{major}.{minor + 1}'",
        stacklevel=3,
    )


@cache
def _apply_to(dialect_name: str) -> None:
    module = _SLICES.get(dialect_name, f"{__name__}.{dialect_name}")
    try:
        patches = import_module(module).PATCHES
    except ModuleNotFoundError:
        if dialect_name in _SLICES:
            return
        raise
    for patch in patches:
        patch()


def explanation() -> str:
    """What to add to a message about an op that xDSL does not take; mostly nothing."""
    return "" if are_on() else ", XDSL_QUANT_PATCHES is 'off'; unset it to patch xDSL"


def apply(*dialect_names: str) -> None:
    """
    Apply the patches of the named dialects, if they are switched on. Without names, those
    of all dialects but `tosa` are applied, of which the patches are many new ops.

    A call after the first costs next to nothing. The first call warns if xDSL is newer than
    `NEWEST_TESTED_XDSL`.
    """
    _warn_of_untested_xdsl()
    if are_on():
        for name in dialect_names or PATCHED_DIALECTS:
            if dialect_names or name not in _SLICES:
                _apply_to(name)


def patched_pass(run: _Apply) -> _Apply:
    """
    Decorate `apply` or `rewrite` of a pass that makes ops which only patched xDSL takes.

    All patches are applied before the pass runs. If they are switched off, the pass fails
    with the location of the first op that is invalid without them.
    """

    @wraps(run)
    def run_patched(self: object, ctx: Context, op: ModuleOp) -> object:
        apply()
        # The printer asks the loaded dialect for the resources that a pass makes.
        ctx.get_optional_dialect("builtin")
        result = run(self, ctx, op)
        if not are_on():
            _fail_if_invalid(op)
        return result

    return cast(_Apply, run_patched)


def _fail_if_invalid(module: ModuleOp) -> None:
    for op in module.walk():
        try:
            op.verify_()
        except (VerifyException, ValueError):
            fail(op, f"'{op.name}' op is invalid without patches{explanation()}")


def apply_on_load(after: Mapping[str, Callable[[Context], None]]) -> None:
    """
    Apply the patches of each dialect before a `Context` loads it.

    Args:
        after: what else is done with a `Context` that has loaded the named dialect.
    """
    load = Context.load_registered_dialect
    if load.__module__ == __name__ or not are_on():
        return

    def load_registered_dialect(self: Context, name: str) -> None:
        # A context copies the list of operations of a dialect.
        apply("builtin", *({name} & {*PATCHED_DIALECTS}))
        load(self, name)
        if name in after:
            after[name](self)

    Context.load_registered_dialect = load_registered_dialect
