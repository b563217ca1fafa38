"""
Count the figures of the package that are limits of its design, from its sources.

`python -m tests.house` prints each figure, its value in `FIGURES`, and the limit.
`python -m tests.house 'functions over 60 lines'` prints the places that the figure counts.
The unit tests fail if a figure is worse than in `FIGURES`: lower it there after a change
for the better. Sources are parsed, not imported, except to count loaded files.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "xdsl_quant"

FIGURES: dict[str, tuple[float, float]] = {
    "lines of code": (100_377, 62_500),
    "lines of code of the core": (35_775, 36_000),
    "Any in 1,000 lines of code": (3.4, 6),
    "percent of functions over 40 lines": (0.7, 1),
    "functions over 40 lines": (42, 55),
    "functions over 60 lines": (0, 0),
    "imports inside functions": (35, 40),
    "circles": (0, 0),
    "files in circles": (0, 0),
    "circles, with TYPE_CHECKING": (0, 0),
    "files in circles, with TYPE_CHECKING": (0, 0),
    "arrows up": (0, 0),
    "imports of slices by the core": (0, 0),
    "repeated public names": (0, 0),
    "repeated private names": (0, 0),
    "files that import xdsl_quant.quantizer loads": (65, 130),
    "files that lower-quant-ops loads": (30, 30),
}
"""Value of today and limit of the design of each figure; smaller is better."""

ORDER: Sequence[Sequence[str]] = (
    ("kernel_set", "moved_modules", "numerics", "rounding_mode", "unsupported"),
    ("diagnostics", "xdsl"),
    ("dialects", "pass_outcome", "targets", "xdsl_patches"),
    ("runtime",),
    ("machines",),
    ("transforms",),
    ("execution",),
    ("calibration", "display"),
    ("quantizer",),
    ("tools", "universe"),
)
"""Rooms from the lowest to the highest; a room may import its own row and lower rows."""

SLICES = (
    "dialects.stablehlo",
    "dialects.tfl",
    "display",
    "execution.scheduling",
    "frontends",
    "inspecting",
    "numerics.formats",
    "proving",
    "quantizer.bit_search",
    "quantizer.simulation",
    "rosetta",
    "tools.compare",
    "tools.inspect",
    "tools.prove",
    "tools.prove_certificates",
    "tools.prove_claims",
    "tools.rosetta",
    "tools.target",
    "tools.trace",
    "transforms.composites",
    "transforms.float_layers",
)
"""Files and folders of slices, which may import every room; the rest is the core."""

MACHINES = (
    "frontends.stablehlo.lowering.linalg",
    "frontends.tflite.lowering.kernels",
    "frontends.tflite.lowering.stablehlo",
    "frontends.tflite.lowering.tosa",
    "machines.numpy",
    "transforms.building.tensor_expressions",
)
"""Folders that each have functions for the same ops and functions of NumPy."""

CANONICALIZATION = "get_canonicalization_patterns"
"""Function of a trait whose imports count neither as arrows nor in circles, as in xDSL."""

QUANTIZER = "import xdsl_quant.quantizer"
LOWER_QUANT_OPS = """
import os
os.environ["XDSL_QUANT_PATCHES"] = "off"
from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.parser import Parser
from xdsl_quant.dialects.quant import Quant
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass
ctx = Context()
for dialect in (builtin.Builtin, func.Func, Quant):
    ctx.load_dialect(dialect)
module = Parser(ctx, open("docs/examples/quantize.mlir").read()).parse_module()
LowerQuantOpsPass().apply(ctx, module)
"""
"""What the pass needs on an xDSL that needs no patches."""

XDSL_OPT = f"""
from xdsl.xdsl_opt_main import xDSLOptMain
options = ["-p", "lower-quant-ops", "-o", {os.devnull!r}]
xDSLOptMain(args=["docs/examples/quantize.mlir", *options]).run()
"""


@dataclass(frozen=True)
class Import:
    """One imported name of an import statement."""

    line: int
    module: str
    name: str | None
    """Name that is imported from the module; `None` for `import module`."""
    bound: str
    """Name in the importing file."""
    function: str | None
    """Innermost function around the statement."""
    is_type_checking: bool


@dataclass(frozen=True)
class Function:
    """A function or method; nested functions are functions of their own."""

    line: int
    name: str
    length: int
    """Lines from `def` to the last one, with docstring, comments and blank lines."""


@dataclass
class File:
    """The facts about one source file that the figures are counted from."""

    name: str
    """Dotted name of the module; a package has the name of its folder."""
    code_lines: int = 0
    imports: list[Import] = field(default_factory=list[Import])
    functions: list[Function] = field(default_factory=list[Function])
    definitions: set[str] = field(default_factory=set[str])
    """Functions and classes at module level, but for those of ops and types."""
    mnemonics: set[str] = field(default_factory=set[str])
    """Names of ops and types that the file declares, without their dialect."""
    aliases: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Values of assignments to one name at module level."""
    array_aliases: set[int] = field(default_factory=set[int])
    """Lines of `Name = NDArray[Any]` at module level."""
    uses: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Line and name of each name that is read, `module.name` for attributes."""

    @property
    def room(self) -> str:
        """Folder or file at the top of the package; empty for the package itself."""
        return _room(self.name)

    @property
    def is_slice(self) -> bool:
        """True if the file belongs to a slice."""
        return _within(self.name, SLICES)


def _room(name: str) -> str:
    parts = name.split(".")
    return parts[0] if parts[0] != PACKAGE else "".join(parts[1:2])


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _within(name: str, folders: Sequence[str]) -> bool:
    return any(f"{name}.".startswith(f"{PACKAGE}.{folder}.") for folder in folders)


def _dotted(node: ast.AST) -> str | None:
    """Return `name` or `module.name`, or `None` for other expressions."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute(value=ast.Name(id=module)):
            return f"{module}.{node.attr}"
        case _:
            return None


def _unquoted(node: ast.expr) -> ast.expr:
    """Return the expression in a string, or the same expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value.strip(), mode="eval").body
        except SyntaxError:
            pass
    return node


def _quotable(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the types in a node that may be written as strings."""
    match node:
        case ast.arg(annotation=ast.expr() as annotation):
            yield annotation
        case ast.FunctionDef(returns=ast.expr() as annotation):
            yield annotation
        case ast.AnnAssign():
            yield node.annotation
            if node.value is not None and _dotted(node.annotation) == "TypeAlias":
                yield node.value
        case ast.Call(func=ast.Name(id="cast"), args=[annotation, *_]):
            yield annotation
        case _:
            pass


def _module_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements at module level, also those in `if` and `try`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            for name in ("body", "handlers", "orelse", "finalbody"):
                for part in getattr(statement, name, ()):
                    inner = part.body if isinstance(part, ast.ExceptHandler) else [part]
                    yield from _module_statements(inner)


class _Reader:
    """Reads one source into a `File`."""

    def __init__(self, module: str, source: str):
        self.module = module
        self.file = File(module.removesuffix(".__init__"))
        self.docstring_lines: set[int] = set()
        self.string_lines: set[int] = set()
        tree = ast.parse(source)
        for statement in _module_statements(tree.body):
            self.read_definition(statement)
        self.walk(tree, None, False)
        self.file.code_lines = sum(
            bool(text := line.strip())
            and number not in self.docstring_lines
            and (text[0] != "#" or number in self.string_lines)
            for number, line in enumerate(source.splitlines(), 1)
        )

    def read_definition(self, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                mnemonics = set(_mnemonics(statement))
                self.file.mnemonics |= mnemonics
                # The class of an op or type is named after its dialect, too.
                if not mnemonics:
                    self.file.definitions.add(statement.name)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                self.file.aliases[name] = alias = _unquoted(value)
                # Tables take long to print.
                is_type = isinstance(alias, ast.Subscript)
                if is_type and ast.unparse(alias) == "NDArray[Any]":
                    self.file.array_aliases.add(value.lineno)
            case _:
                pass

    def walk(self, node: ast.AST, function: str | None, is_type_checking: bool) -> None:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                self.docstring_lines.update(_lines(node))
                return
            case ast.Constant(value=str()) | ast.JoinedStr():
                if node.end_lineno != node.lineno:
                    self.string_lines.update(_lines(node)[1:])
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                function = node.name
                length = len(_lines(node))
                self.file.functions.append(Function(node.lineno, function, length))
            case ast.Import() | ast.ImportFrom():
                self.read_import(node, function, is_type_checking)
            case ast.If(test=test) if (_dotted(test) or "").endswith("TYPE_CHECKING"):
                for statement in node.body:
                    self.walk(statement, function, True)
                for statement in node.orelse:
                    self.walk(statement, function, is_type_checking)
                return
            case ast.Name(ctx=ast.Load()) | ast.Attribute(value=ast.Name()):
                self.file.uses.append((node.lineno, _dotted(node) or ""))
            case _:
                pass
        for type in _quotable(node):
            for part in ast.walk(type):
                if isinstance(part, ast.Constant):
                    self.read_quoted_type(part)
        for child in ast.iter_child_nodes(node):
            self.walk(child, function, is_type_checking)

    def read_quoted_type(self, quoted: ast.Constant) -> None:
        for part in ast.walk(_unquoted(quoted)):
            if name := _dotted(part):
                self.file.uses.append((quoted.lineno, name))

    def read_import(
        self,
        node: ast.Import | ast.ImportFrom,
        function: str | None,
        is_type_checking: bool,
    ) -> None:
        for alias in node.names:
            module, name = alias.name, None
            if isinstance(node, ast.ImportFrom):
                parents = self.module.split(".")[: -node.level] if node.level else []
                module = ".".join([*parents, *filter(None, [node.module])])
                name = alias.name
            self.file.imports.append(
                Import(
                    node.lineno,
                    module,
                    name,
                    alias.asname or alias.name,
                    function,
                    is_type_checking,
                )
            )


def _circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one file (Tarjan)."""
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(file: str) -> None:
        number = lowest[file] = len(lowest)
        position = len(stack)
        stack.append(file)
        for target in sorted(graph.get(file, ())):
            if target not in lowest:
                visit(target)
            if target in stack:
                lowest[file] = min(lowest[file], lowest[target])
        if lowest[file] == number:
            if len(stack) - position > 1:
                circles.append(sorted(stack[position:]))
            del stack[position:]

    for file in graph:
        if file not in lowest:
            visit(file)
    return circles


class House:
    """
    The files of the package, and the places that each figure counts.

    Args:
        sources: text of each file by its module, `xdsl_quant.room.__init__` for packages.
    """

    def __init__(self, sources: Mapping[str, str]):
        files = [_Reader(module, source).file for module, source in sources.items()]
        self.files = {file.name: file for file in files}

    @classmethod
    def of_package(cls) -> House:
        """Read the package in this checkout."""
        return cls(
            {
                ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text()
                for path in sorted((ROOT / PACKAGE).rglob("*.py"))
            }
        )

    def target(self, imported: Import) -> str:
        """Return the file that an import names; a module if it is no file of ours."""
        inner = f"{imported.module}.{imported.name}"
        return inner if inner in self.files else imported.module

    def edges(self) -> Iterator[tuple[File, Import, str]]:
        """Yield each import with its file and its target, but those of lazy patterns."""
        for file in self.files.values():
            for imported in file.imports:
                target = self.target(imported)
                if imported.function != CANONICALIZATION:
                    yield file, imported, target

    def code_lines(self) -> Counter[str]:
        """
        Count lines with code by room, without blank lines, comments and docstrings.

        Every string that is a statement counts as docstring. All non-blank lines of other
        strings are code.
        """
        counts: Counter[str] = Counter()
        for file in self.files.values():
            counts[file.room] += file.code_lines
        return counts

    def core_lines(self) -> int:
        """Count lines with code in files of no slice."""
        return sum(f.code_lines for f in self.files.values() if not f.is_slice)

    def lazy_imports(self) -> list[str]:
        """
        Return the import statements inside functions that import from the package.

        Imports of other packages (start-up, optional extras) do not count, nor names that
        `import_module` imports.
        """
        return _unique(
            f"{file.name}:{imported.line}"
            for file in self.files.values()
            for imported in file.imports
            if imported.function and imported.module.split(".")[0] == PACKAGE
        )

    def anys(self) -> list[str]:
        """
        Return each use of `Any` outside of import statements.

        Counts `typing.Any` in annotations, also quoted ones, in aliases, casts and calls,
        once for each time that it is written. A name whose value is `Any` or a union with
        `Any` counts at its definition and at each use, in other files, too. The `Any` of
        `Name = NDArray[Any]` at module level and uses of that name do not count; an
        `NDArray[Any]` that is written elsewhere does.
        """
        return [
            f"{file.name}:{line} {name}"
            for file in self.files.values()
            for line, name in sorted(file.uses)
            if not (name == "Any" and line in file.array_aliases)
            and self.is_any(file, name)
        ]

    def is_any(self, file: File, name: str) -> bool:
        """True if a name that a file reads is `Any` or an alias of it."""
        key = file.name, name
        if key not in self._any_names:
            self._any_names[key] = False  # Ends circles.
            self._any_names[key] = self._is_any(file, name)
        return self._any_names[key]

    @cached_property
    def _any_names(self) -> dict[tuple[str, str], bool]:
        return {}

    def _is_any(self, file: File, name: str) -> bool:
        if name in file.aliases:
            return self._is_any_value(file, file.aliases[name])
        first, _, attribute = name.partition(".")
        for imported in file.imports:
            if imported.bound != first:
                continue
            module, inner = imported.module, imported.name
            if attribute:
                module, inner = self.target(imported), attribute
            if (module, inner) == ("typing", "Any"):
                return True
            if (
                module in self.files
                and inner
                and self.is_any(self.files[module], inner)
            ):
                return True
        return False

    def _is_any_value(self, file: File, value: ast.expr) -> bool:
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
            return any(self._is_any_value(file, v) for v in (value.left, value.right))
        name = _dotted(value)
        return name is not None and self.is_any(file, name)

    def functions(self, longer_than: int = 0) -> list[str]:
        """Return the functions with more lines, docstrings included."""
        return [
            f"{file.name}:{function.line} {function.name} ({function.length})"
            for file in self.files.values()
            for function in file.functions
            if function.length > longer_than
        ]

    def circles(self, type_checking: bool) -> list[list[str]]:
        """
        Return the circles of imports between files, imports inside functions included.

        The import of a module counts for the module, not for the packages around it.

        Args:
            type_checking: whether imports under `TYPE_CHECKING` count.
        """
        graph: defaultdict[str, set[str]] = defaultdict(set)
        for file, imported, target in self.edges():
            if target in self.files and imported.is_type_checking <= type_checking:
                graph[file.name].add(target)
        return _circles(graph)

    def arrows_up(self) -> list[str]:
        """
        Return imports of the core that go up in `ORDER`, one for each pair of files.

        Imports inside functions and under `TYPE_CHECKING` count.

        Raises:
            ValueError: if a room is missing in `ORDER`.
        """
        rows = {room: row for row, rooms in enumerate(ORDER) for room in rooms}
        rows[""] = 0
        core = [file for file in self.files.values() if not file.is_slice]
        if missing := sorted({file.room for file in core} - rows.keys()):
            raise ValueError(f"rooms missing in ORDER: {', '.join(missing)}")
        return _unique(
            f"{file.name} -> {target}"
            for file, _, target in self.edges()
            if not file.is_slice
            and not _within(target, SLICES)
            # Packages other than xDSL are below all rooms.
            and rows[file.room] < rows.get(_room(target), 0)
        )

    def slice_imports(self) -> list[str]:
        """Return imports of slices by the core, one for each pair of files."""
        return _unique(
            f"{file.name} -> {target}"
            for file, _, target in self.edges()
            if not file.is_slice and _within(target, SLICES)
        )

    def repeated_names(self, private: bool) -> list[str]:
        """
        Return names that functions or classes of several files have at module level.

        Those of the same concept do not count: classes of ops (`AddOp`), what has the name
        of an op or type, what each of several machines has, and the `main` of commands.
        """
        files: defaultdict[str, list[str]] = defaultdict(list)
        same = {"main"}.union(*(file.mnemonics for file in self.files.values()))
        for file in self.files.values():
            for name in file.definitions:
                is_same = name.lstrip("_") in same or name.startswith("__")
                if not is_same and not name.endswith("Op"):
                    files[name].append(file.name)
        return [
            f"{name}: {', '.join(files[name])}"
            for name in sorted(files)
            if len(files[name]) > 1
            and name.startswith("_") == private
            and not _are_of_different_machines(files[name])
        ]

    def places(self) -> dict[str, list[str]]:
        """Return what each figure counts, for those that count places."""
        circles = self.circles(type_checking=False)
        all_circles = self.circles(type_checking=True)
        return {
            "Any": self.anys(),
            "functions over 40 lines": self.functions(40),
            "functions over 60 lines": self.functions(60),
            "imports inside functions": self.lazy_imports(),
            "circles": [" ".join(files) for files in circles],
            "files in circles": [*chain(*circles)],
            "circles, with TYPE_CHECKING": [" ".join(files) for files in all_circles],
            "files in circles, with TYPE_CHECKING": [*chain(*all_circles)],
            "arrows up": self.arrows_up(),
            "imports of slices by the core": self.slice_imports(),
            "repeated public names": self.repeated_names(private=False),
            "repeated private names": self.repeated_names(private=True),
        }

    def figures(self) -> dict[str, float]:
        """Return the figures that sources show."""
        lines = self.code_lines().total()
        counts: dict[str, float] = {
            figure: len(places) for figure, places in self.places().items()
        }
        anys = counts.pop("Any")
        share = counts["functions over 40 lines"] / max(len(self.functions()), 1)
        return {
            "lines of code": lines,
            "lines of code of the core": self.core_lines(),
            "Any in 1,000 lines of code": round(1000 * anys / max(lines, 1), 1),
            "percent of functions over 40 lines": round(100 * share, 1),
            **counts,
        }


def _are_of_different_machines(names: Sequence[str]) -> bool:
    folders = [next((m for m in MACHINES if _within(n, (m,))), None) for n in names]
    return None not in folders and len({*folders}) == len(folders)


def _mnemonics(definition: ast.stmt) -> Iterator[str]:
    """Return `add` for a class with `name = "dialect.add"`."""
    for node in ast.iter_child_nodes(definition):
        match node:
            case ast.Assign(
                targets=[ast.Name(id="name")], value=ast.Constant(value=str(name))
            ) if "." in name:
                yield name.partition(".")[2]
            case _:
                pass


def _unique(places: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(places))


def loaded_files(program: str) -> int:
    """
    Run a Python program in a new process and count the files with code that it loads of
    the package.

    Raises:
        subprocess.CalledProcessError: if the program fails.
    """
    files = (
        "for m in sys.modules.values(): print(m.__name__, getattr(m, '__file__', 0))"
    )
    command = (sys.executable, "-c", f"{program}\nimport sys\n{files}")
    output = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    loaded = (line.split() for line in output.splitlines())
    return sum(
        _Reader(name, Path(file).read_text()).file.code_lines > 0
        for name, file in loaded
        if name.split(".")[0] == PACKAGE
    )


PROGRAMS = {
    "files that import xdsl_quant.quantizer loads": QUANTIZER,
    "files that lower-quant-ops loads": LOWER_QUANT_OPS,
}


def main(figure: str | None = None) -> int:
    """Print all figures, or the places of one, and return the exit code."""
    house = House.of_package()
    if figure is not None:
        if (places := house.places().get(figure)) is None:
            print(f"figure without places: {figure!r}", file=sys.stderr)
            return 1
        print(*places, sep="\n")
        return 0
    found = house.figures() | {name: loaded_files(p) for name, p in PROGRAMS.items()}
    print(f"{'figure':46}{'found':>9}{'today':>9}{'limit':>9}")
    for name, value in found.items():
        today, limit = FIGURES[name]
        print(f"{name:46}{value:9,}{today:9,}{limit:9,}")
    print(f"\n{'lines of code by room':46}")
    for room, lines in sorted(house.code_lines().items()):
        print(f"{room or '__init__':46}{lines:9,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
