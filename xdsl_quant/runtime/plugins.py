"""
The plugin interface: a package extends xdsl-quant with a `QuantizationUniverse` in its
entry points of the group `xdsl.universe`.

The frontends of this package use the same interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Never, Protocol, TypeAlias, TypedDict

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.target import Target

from xdsl_quant.diagnostics import op_name

from .garbage_collection import without_garbage_collection

if TYPE_CHECKING:
    from xdsl.interpreter import InterpreterFunctions
    from xdsl.utils.frontend import Frontend

    from xdsl_quant.dialects.quant.dialect_ops import DialectOps
    from xdsl_quant.dialects.quant.type_rules import RuleSet

    from .model_dialects import ModelDialect

Specs: TypeAlias = "list[Attribute]"
"""Operand or result types: quantized, or the expressed type if unconstrained."""

QuantFn: TypeAlias = Callable[[Specs, Specs], tuple[Sequence[int], Sequence[int]]]
"""
Constraint in Python: takes the specifications of operands and of results, replaces some
of them by uniform types, and returns the indices that it replaced.
"""

MatchFn: TypeAlias = Callable[[Operation], "Sequence[Operation] | None"]
"""
Pattern in Python: takes the last op of a potential kernel and returns the ops of the
kernel in order, or `None`.
"""


def lazy(module: str, name: str) -> Callable[[], Any]:
    """
    Return a factory that imports a value of this package when it is called.

    Its return type is `Any`, as the type of the value is unknown before the import.

    Args:
        module: dotted name of the module in the package.
        name: name of the value in the module.
    """
    # Classes of ops are never garbage.
    return without_garbage_collection()(
        lambda: getattr(import_module(f"xdsl_quant.{module}"), name)
    )


def optional_module(name: str) -> ModuleType | None:
    """Import a module of this package, or return `None` if its folder is deleted."""
    path = f"xdsl_quant.{name}"
    folder, _, _ = path.rpartition(".")
    try:
        import_module(folder)
    except ModuleNotFoundError as e:
        if e.name is None or not folder.startswith(e.name):
            raise
        return None
    return import_module(path)


def pass_factories(
    room: str, names: Iterable[str] = ()
) -> dict[str, Callable[[], type[ModulePass]]]:
    """
    Return a lazy factory for each pass in a folder whose modules are named after passes.

    Args:
        room: dotted name of the folder in the package.
        names: pass names; by default one for each module of the folder but `slice`.
    """
    folder = Path(__file__).parents[1].joinpath(*room.split("."))
    modules = sorted({path.stem for path in folder.glob("[!_]*.py")} - {"slice"})
    return {
        name: partial(_pass_class, f"xdsl_quant.{room}.{name.replace('-', '_')}", name)
        for name in names or [module.replace("_", "-") for module in modules]
    }


@without_garbage_collection()
def _pass_class(module: str, name: str) -> type[ModulePass]:
    try:
        imported = import_module(module)
    except ModuleNotFoundError as e:
        if e.name is None or not e.name.startswith("xdsl_quant."):
            raise
        return _missing_pass(name, e.name)
    return next(
        value
        for value in vars(imported).values()
        if isinstance(value, type)
        and issubclass(value, ModulePass)
        and getattr(value, "name", None) == name
    )


def _missing_pass(pass_name: str, module: str) -> type[ModulePass]:
    class MissingPass(ModulePass):
        name = pass_name

        @classmethod
        def from_pass_spec(cls, spec: ArgSpec) -> MissingPass:
            return cls()

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            raise PassFailedException(
                f"the pass {pass_name} needs {module}, which is missing; install "
                "xdsl-quant again"
            )

    return MissingPass


def target_files(folder: Path, names: Iterable[str]) -> dict[str, Callable[[], Path]]:
    """Return lazy factories of `.toml` paths in a folder, by target name."""
    return {name: partial(folder.joinpath, f"{name}.toml") for name in names}


class ReaderOptions(TypedDict, total=False):
    """Options of readers of model files."""

    shapes: Mapping[str, Sequence[int]] | None
    """Shapes for inputs of dynamic shape, by input name."""

    static: bool
    """True to replace dynamic sizes by those stored in the file."""

    constants: Sequence[str]
    """Texts `NAME=VALUE` of inputs that become constants."""


class ModelReader(Protocol):
    """Reader of model files; raises `ModelFileError`, `OSError` or `ImportError`."""

    def __call__(
        self,
        source: str | Path | bytes,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        static: bool = False,
        constants: Sequence[str] = (),
    ) -> ModuleOp: ...


class PluginError(ValueError):
    """Raised when installed plugins conflict."""


class ModelFileError(ValueError):
    """Raised for a damaged model file or an unsupported conversion."""


@dataclass(frozen=True)
class ModelFormat:
    """A kind of model file, with lazily imported reader and writer."""

    reader: Callable[[], ModelReader]

    writer: Callable[[], Callable[[ModuleOp], bytes]]
    """Factory of a writer, which returns bytes or raises `ModelFileError`."""

    target: str
    """Name of the default hardware target for its models."""

    is_content: Callable[[bytes], bool] = lambda _: False
    """Predicate of the first bytes of such files."""


GetInterpreterFunctions: TypeAlias = (
    "Callable[[ModuleOp], Iterable[InterpreterFunctions]]"
)


def _nothing() -> Mapping[str, Never]:
    return {}


@dataclass(eq=False, kw_only=True, repr=False)
class QuantizationUniverse(Universe):
    """A universe (xDSL's registry of dialects and passes) that extends this package."""

    all_dialects: dict[str, Callable[[], Dialect]] = field(default_factory=dict)
    all_passes: dict[str, Callable[[], type[ModulePass]]] = field(default_factory=dict)
    all_targets: dict[str, Callable[[], type[Target]]] = field(default_factory=dict)
    all_frontends: dict[str, Callable[[], type[Frontend]]] = field(default_factory=dict)

    on_load: Mapping[str, Callable[[Context], None]] = field(default_factory=_nothing)
    """
    Functions that extend a context after it has loaded a dialect, by dialect name.
    Unsupported in plugins of other packages.
    """

    hardware_targets: Mapping[str, Callable[[], Path]] = field(default_factory=_nothing)
    """Target files, by target name."""

    constraints: Mapping[str, Callable[[], QuantFn]] = field(default_factory=_nothing)
    """Constraints in Python, by name."""

    kernel_patterns: Mapping[str, Callable[[], MatchFn]] = field(
        default_factory=_nothing
    )
    """Kernel patterns in Python, by name."""

    model_formats: Mapping[str, ModelFormat] = field(default_factory=_nothing)
    """Model file formats, by suffix, e.g. `.tflite`."""

    model_objects: Mapping[str, Callable[[], Callable[[object], ModuleOp]]] = field(
        default_factory=_nothing
    )
    """
    Converters of models that are Python objects, by the package of their class. They raise
    `ModelFileError`, `TypeError` or `ImportError`.
    """

    foreign_files: Mapping[str, str] = field(default_factory=_nothing)
    """Advice on files that have no reader, by suffix; the end of an error message."""

    own_op_copies: Mapping[str, Callable[[], Callable[[ModuleOp], ModuleOp]]] = field(
        default_factory=_nothing
    )
    """Functions that copy modules with ops of another package, by dialect name."""

    dialect_ops: Mapping[str, Callable[[], DialectOps]] = field(
        default_factory=_nothing
    )
    """Ops that passes create, by dialect name."""

    model_dialects: Mapping[str, Callable[[], ModelDialect]] = field(
        default_factory=_nothing
    )
    """Hooks by which dialects of float models adapt the quantizer, by dialect name."""

    rule_sets: Mapping[str, Callable[[], RuleSet]] = field(default_factory=_nothing)
    """Rules of `verify-quant-constraints`, by name."""

    interpreters: Mapping[str, Callable[[], GetInterpreterFunctions]] = field(
        default_factory=_nothing
    )
    """
    Implementations for xDSL's interpreter, by the Python module of the dialect. They
    are imported only if that module has been imported.
    """


_EXTENSIONS = {
    "hardware_targets": "target",
    "constraints": "constraint",
    "kernel_patterns": "pattern",
    "model_formats": "model format",
    "model_objects": "package of models",
    "foreign_files": "file suffix",
    "own_op_copies": "dialect",
    "dialect_ops": "dialect",
    "model_dialects": "dialect",
    "rule_sets": "rule set",
    "interpreters": "interpreter",
}
"""Fields of a universe that extend this package, and the nouns for them in messages."""


def add_extensions(
    universe: QuantizationUniverse,
    others: Sequence[tuple[str, QuantizationUniverse]],
) -> QuantizationUniverse:
    """
    Add the extensions of other universes, except dialects, passes and output targets,
    to `universe`, and return `universe`.

    Args:
        universe: universe without extensions.
        others: plugin names and universes.

    Raises:
        PluginError: if two plugins define the same name.
    """
    for field_name, kind in _EXTENSIONS.items():
        owners: dict[str, str] = {}
        united: dict[str, object] = {}
        for plugin, other in others:
            for name, value in getattr(other, field_name).items():
                if (owner := owners.setdefault(name, plugin)) != plugin:
                    raise PluginError(
                        f"duplicate {kind} in plugins, found '{name}' in '{owner}' and "
                        f"'{plugin}'; uninstall one of them"
                    )
                united[name] = value
        setattr(universe, field_name, united)
    return universe


@cache
def plugins() -> QuantizationUniverse:
    """
    Return the merged extensions of all plugins that `xdsl-opt` finds.

    Raises:
        PluginError: if two plugins define the same name.
    """
    # Slow to import, and `xdsl-opt` imports this module at startup.
    from importlib.metadata import entry_points

    entries = sorted(entry_points(group="xdsl.universe"), key=lambda p: p.name)
    universes = [(plugin.name, plugin.load()) for plugin in entries]
    return add_extensions(
        QuantizationUniverse(),
        [item for item in universes if isinstance(item[1], QuantizationUniverse)],
    )


def dialect_ops(dialect: str) -> DialectOps:
    """Return the ops that passes create in a dialect; by default those of `quant`."""
    if (found := plugins().dialect_ops.get(dialect)) is not None:
        return found()
    # Keeps this module light for universes that import it.
    from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS

    return QUANT_OPS


def dialects_in(module: Operation) -> AbstractSet[str]:
    """Return the names of the dialects of the ops in a module."""
    return {op_name(op).partition(".")[0] for op in module.walk()}
