"""
Extensions of this package by others: a `QuantizationUniverse` as an entry point of the
group `xdsl.universe`. The frontends of this package are declared in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Protocol, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target

from xdsl_quant.diagnostics import op_name

if TYPE_CHECKING:
    from xdsl.interpreter import InterpreterFunctions
    from xdsl.utils.frontend import Frontend

    from xdsl_quant.dialects.quant.dialect_ops import DialectOps
    from xdsl_quant.dialects.quant.type_rules import RuleSet

    from .model_dialects import ModelDialect

Specs: TypeAlias = "list[Attribute]"
"""
The specifications of operands, or of results: quantized types, and expressed types where
nothing is said.
"""

QuantFn: TypeAlias = Callable[[Specs, Specs], tuple[Sequence[int], Sequence[int]]]
"""
A constraint in Python: takes the specifications of operands and those of results, replaces
some of them by uniform types, and returns the indices of those that it replaced.
"""

MatchFn: TypeAlias = Callable[[Operation], "Sequence[Operation] | None"]
"""
A pattern in Python: takes the last op of a kernel that may be there, and returns the ops of
the kernel in their order, or `None`.
"""


def lazy(module: str, name: str) -> Callable[[], Any]:
    """
    Return a factory that imports a value of this package when it is called.

    Its type is `Any`: the name of a value does not say its type.

    Args:
        module: dotted name of the module inside the package.
        name: name of the value in the module.
    """
    return lambda: getattr(import_module(f"xdsl_quant.{module}"), name)


def pass_factories(
    room: str, names: Iterable[str] = ()
) -> dict[str, Callable[[], type[ModulePass]]]:
    """
    Return a lazy factory for each pass of a folder whose modules are named after them.

    Args:
        room: dotted name of the folder inside the package.
        names: names of the passes; by default each module of the folder is one.
    """
    folder = Path(__file__).parents[1].joinpath(*room.split("."))
    modules = sorted(path.stem for path in folder.glob("[!_]*.py"))
    return {
        name: partial(_pass_class, f"xdsl_quant.{room}.{name.replace('-', '_')}", name)
        for name in names or [module.replace("_", "-") for module in modules]
    }


def _pass_class(module: str, name: str) -> type[ModulePass]:
    """Import a module, and return its pass of a name."""
    return next(
        value
        for value in vars(import_module(module)).values()
        if isinstance(value, type)
        and issubclass(value, ModulePass)
        and getattr(value, "name", None) == name
    )


def target_files(folder: Path, names: Iterable[str]) -> dict[str, Callable[[], Path]]:
    """Return factories of the paths of `.toml` files in a folder, by the target's name."""
    return {name: partial(folder.joinpath, f"{name}.toml") for name in names}


class ModelReader(Protocol):
    """Reads a model file; its errors are `ModelFileError`, `OSError` and `ImportError`."""

    def __call__(
        self,
        source: str | Path,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        static: bool = False,
    ) -> ModuleOp: ...


class PluginError(ValueError):
    """Installed plugins do not go together."""


class ModelFileError(ValueError):
    """A model file is damaged, or a module or a file contains what the other cannot."""


@dataclass(frozen=True)
class ModelFormat:
    """A kind of model files. Its reader and its writer are imported when they are used."""

    reader: Callable[[], ModelReader]

    writer: Callable[[], Callable[[ModuleOp], bytes]]
    """Returns a function from a module to a file's bytes; its error is `ModelFileError`."""

    target: str
    """Name of the hardware target that its models are quantized for by default."""


GetInterpreterFunctions: TypeAlias = (
    "Callable[[ModuleOp], Iterable[InterpreterFunctions]]"
)


def _nothing() -> Mapping[str, Never]:
    return {}


@dataclass(eq=False, kw_only=True, repr=False)
class QuantizationUniverse(Universe):
    """A universe of dialects, passes and targets that also extends this package."""

    all_dialects: dict[str, Callable[[], Dialect]] = field(default_factory=dict)
    all_passes: dict[str, Callable[[], type[ModulePass]]] = field(default_factory=dict)
    all_targets: dict[str, Callable[[], type[Target]]] = field(default_factory=dict)
    all_frontends: dict[str, Callable[[], type[Frontend]]] = field(default_factory=dict)

    on_load: Mapping[str, Callable[[Context], None]] = field(default_factory=_nothing)
    """
    Functions that extend a context after it has loaded a dialect, by the dialect's name.
    Plugins of other packages cannot have them.
    """

    hardware_targets: Mapping[str, Callable[[], Path]] = field(default_factory=_nothing)
    """The files of targets, by name."""

    constraints: Mapping[str, Callable[[], QuantFn]] = field(default_factory=_nothing)
    """Constraints in Python, by name."""

    kernel_patterns: Mapping[str, Callable[[], MatchFn]] = field(
        default_factory=_nothing
    )
    """Patterns in Python, by name."""

    model_formats: Mapping[str, ModelFormat] = field(default_factory=_nothing)
    """Kinds of model files, by suffix: `.tflite`, for example."""

    dialect_ops: Mapping[str, Callable[[], DialectOps]] = field(
        default_factory=_nothing
    )
    """The ops that passes create, by the name of the dialect."""

    model_dialects: Mapping[str, Callable[[], ModelDialect]] = field(
        default_factory=_nothing
    )
    """Answers to questions of the quantizer about float models, by dialect."""

    rule_sets: Mapping[str, Callable[[], RuleSet]] = field(default_factory=_nothing)
    """Rules of `verify-quant-constraints`, by name."""

    interpreters: Mapping[str, Callable[[], GetInterpreterFunctions]] = field(
        default_factory=_nothing
    )
    """
    Functions of xDSL's interpreter for a module, by the Python module of the dialect: they
    are imported if the dialect is.
    """


_EXTENSIONS = {
    "hardware_targets": "target",
    "constraints": "constraint",
    "kernel_patterns": "pattern",
    "model_formats": "model format",
    "dialect_ops": "dialect",
    "model_dialects": "dialect",
    "rule_sets": "rule set",
    "interpreters": "interpreter",
}
"""Fields of a universe that extend this package, and the kind of thing each has."""


def add_extensions(
    universe: QuantizationUniverse,
    others: Sequence[tuple[str, QuantizationUniverse]],
) -> QuantizationUniverse:
    """
    Give a universe the extensions of others, without their dialects, passes and targets
    of text, and return it.

    Args:
        universe: a universe without extensions.
        others: names and universes of plugins.

    Raises:
        PluginError: if two plugins have one name for different things.
    """
    for field_name, kind in _EXTENSIONS.items():
        owners: dict[str, str] = {}
        united: dict[str, object] = {}
        for plugin, other in others:
            for name, value in getattr(other, field_name).items():
                if (owner := owners.setdefault(name, plugin)) != plugin:
                    raise PluginError(
                        f"two plugins with one {kind}, found '{name}' in '{owner}' and "
                        f"'{plugin}'; uninstall one of them"
                    )
                united[name] = value
        setattr(universe, field_name, united)
    return universe


@cache
def plugins() -> QuantizationUniverse:
    """
    Return the extensions of all plugins that `xdsl-opt` finds.

    Raises:
        PluginError: if two plugins have one name for different things.
    """
    # At a start of `xdsl-opt`, which imports this module, xDSL imports it later or never.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group="xdsl.universe"), key=lambda each: each.name)
    universes = [(plugin.name, plugin.load()) for plugin in found]
    return add_extensions(
        QuantizationUniverse(),
        [each for each in universes if isinstance(each[1], QuantizationUniverse)],
    )


def dialect_ops(dialect: str) -> DialectOps:
    """Return the ops that passes create in a dialect; those of `quant` by default."""
    if (found := plugins().dialect_ops.get(dialect)) is not None:
        return found()
    # No import of a universe needs it.
    from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS

    return QUANT_OPS


def dialects_in(module: Operation) -> AbstractSet[str]:
    """Return the names of the dialects of the ops in a module."""
    return {op_name(op).partition(".")[0] for op in module.walk()}
