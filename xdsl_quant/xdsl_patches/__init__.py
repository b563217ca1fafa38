"""
Workarounds for xDSL features that quantized modules need.

A module named after an xDSL dialect lists the dialect's patches in `PATCHES`: functions
that change xDSL's classes in place. Patches are applied when a `Context` loads the dialect
(`apply_on_load`), or all at once for code that builds ops without a context (`apply`). With
`XDSL_QUANT_PATCHES=off` in the environment, no patch is applied.

A patch accepts more input than xDSL and keeps xDSL's error messages. Each patch first tests
xDSL's behaviour and does nothing if the installed xDSL needs no patch. The documentation
lists all patches, MLIR's behaviour, and the xDSL change that would make each one obsolete.

`xdsl-opt` imports this package at every start: at module level, import only modules that
`xdsl.universe` has already imported.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from typing import TypeVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail

_Apply = TypeVar("_Apply", bound=Callable[..., object])

PATCHED_DIALECTS = ("builtin", "arith", "func", "linalg", "tensor", "tosa")
"""The patched dialects; all of them need the patches of `builtin`."""

NEWEST_TESTED_XDSL = (0, 75)
"""The newest xDSL release that `make xdsl-versions` tests."""

_MODULES = {
    "linalg": ("xdsl_quant.frontends.linalg_named_ops.patches", f"{__name__}.linalg"),
    "tosa": ("xdsl_quant.frontends.tosa.patches",),
}
"""Patch modules by dialect, if some belong to slices, which may be missing."""


def are_on() -> bool:
    """Return True unless the environment disables patches."""
    return os.environ.get("XDSL_QUANT_PATCHES") != "off"


@cache
def _warn_of_untested_xdsl() -> None:
    # Imported here to keep the start of `xdsl-opt` fast.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        # `distribution("xdsl").version` parses all metadata, which takes 7 ms.
        metadata = distribution("xdsl").read_text("METADATA") or ""
    except PackageNotFoundError:
        return
    version = re.search(r"^Version: (\d+)\.(\d+)", metadata, re.MULTILINE)
    if version is None or (*map(int, version.groups()),) <= NEWEST_TESTED_XDSL:
        return
    major, minor = NEWEST_TESTED_XDSL
    warnings.warn(
        f"xDSL {version[1]}.{version[2]} is newer than the newest tested release: "
        f"{major}.{minor}; if something fails, install 'xdsl<{major}.{minor + 1}'",
        stacklevel=3,
    )


def patches_of(dialect_name: str) -> Sequence[Callable[[], None]]:
    """Return the patches of a dialect, without those of slices that are deleted."""
    patches: list[Callable[[], None]] = []
    for module in _MODULES.get(dialect_name, (f"{__name__}.{dialect_name}",)):
        try:
            patches += import_module(module).PATCHES
        except ModuleNotFoundError:
            if module.startswith(__name__):
                raise
    return patches


@cache
def _apply_to(dialect_name: str) -> None:
    for patch in patches_of(dialect_name):
        patch()


def explanation() -> str:
    """Return a hint for error messages that patches are off; empty if patches are on."""
    return "" if are_on() else ", XDSL_QUANT_PATCHES is 'off'; unset it to patch xDSL"


def apply(*dialect_names: str) -> None:
    """
    Apply the patches of the named dialects, unless patches are off. Without names, apply
    the patches of all dialects except `tosa`, whose patches add many ops.

    Repeated calls are cheap. The first call warns if xDSL is newer than
    `NEWEST_TESTED_XDSL`.
    """
    _warn_of_untested_xdsl()
    if are_on():
        for name in dialect_names or PATCHED_DIALECTS:
            if dialect_names or name != "tosa":
                _apply_to(name)


def apply_to_tool() -> None:
    """Apply the patches of `xdsl-opt` in a process of `xdsl-opt`, unless they are off."""
    if are_on() and "xdsl.xdsl_opt_main" in sys.modules:
        _apply_to("xdsl_opt")


def patched_pass(run: _Apply) -> _Apply:
    """
    Decorate `apply` or `rewrite` of a pass whose new ops are invalid in unpatched xDSL.

    All patches are applied before the pass runs. If patches are off, the pass fails at the
    first invalid op.
    """

    @wraps(run)
    def run_patched(self: object, ctx: Context, op: ModuleOp) -> object:
        apply()
        # The pass may create resources; the printer looks them up in the loaded dialect.
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
        after: callbacks by dialect name, called after a `Context` loads the dialect.
    """
    load = Context.load_registered_dialect
    if load.__module__ == __name__ or not are_on():
        return

    def load_registered_dialect(self: Context, name: str) -> None:
        # Patch first: loading copies the dialect's list of ops.
        apply("builtin", *({name} & {*PATCHED_DIALECTS}))
        load(self, name)
        if name in after:
            after[name](self)

    Context.load_registered_dialect = load_registered_dialect
