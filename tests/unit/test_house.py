"""Figures of the package that are limits of its design, and how they are counted."""

from pathlib import Path

import pytest

from tests import house
from tests.house import FIGURES, PROGRAMS, House, loaded_files


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    return House.of_package().figures()


def test_table_names_all_figures(figures: dict[str, float]):
    assert FIGURES.keys() == figures.keys() | PROGRAMS.keys()


@pytest.mark.parametrize("figure", [name for name in FIGURES if name not in PROGRAMS])
def test_figure_is_no_worse(figures: dict[str, float], figure: str):
    today, _ = FIGURES[figure]
    assert figures[figure] <= today, f"see: python -m tests.house '{figure}'"


@pytest.mark.parametrize("figure", PROGRAMS)
def test_no_more_files_are_loaded(figure: str):
    assert 0 < loaded_files(PROGRAMS[figure]) <= FIGURES[figure][0]


def _house(**sources: str) -> House:
    """Return a house of sources by file; `__` stands for a dot in names without dots."""
    dotted = {
        name if "." in name else name.replace("__", "."): source
        for name, source in sources.items()
    }
    return House({f"xdsl_quant.{name}": source for name, source in dotted.items()})


CODE = '''\
"""Docstring
of two lines."""

# Comment.
x = 1  # Code.
"""Docstring of a value."""

def f():
    """Docstring."""
    return """first
  # in a string

last"""
'''


def test_code_lines():
    files = _house(tools__a=CODE, tools__b="x = 1", frontends__c="y = 1\nz = 2")
    assert files.code_lines() == {"tools": 6, "frontends": 2}
    assert files.core_lines() == 6


@pytest.mark.parametrize(
    ("name", "is_slice"),
    [
        ("frontends", True),
        ("dialects.tfl.ops", True),
        ("dialects.tfl_like", False),
        ("dialects.quant", False),
        ("tools.prove", True),
    ],
)
def test_slices(name: str, is_slice: bool):
    assert House({f"xdsl_quant.{name}": "x = 1"}).core_lines() == (not is_slice)


def test_code_lines_of_nothing():
    figures = House({}).figures()
    assert {*figures.values()} == {0}


def test_lazy_imports():
    source = """\
from xdsl_quant.a import x
def f():
    from xdsl_quant.a import (
        x, y)
    import numpy
    def g():
        from . import b
class C:
    import xdsl_quant.a
    async def h(self):
        import xdsl_quant.b
"""
    assert _house(tools__m=source).lazy_imports() == [
        f"xdsl_quant.tools.m:{line}" for line in (3, 7, 11)
    ]


TERMS = """\
from typing import Any, TypeAlias
import typing as t
from numpy.typing import NDArray
Term: TypeAlias = Any
Plain = Any
Either: TypeAlias = "int | Term"
Array: TypeAlias = "NDArray[Any]"
Vector = NDArray[Any]
Function = Callable[..., Any]
def f(x: "dict[str, Any]", y: Term, z: Array, w: Vector) -> 'Either':
    v: list["Any"] = cast("Any", x)
    return t.Any, Plain, Function, str("Any")
"""


def test_anys():
    assert [place.split(":")[1] for place in _house(a=TERMS).anys()] == [
        "4 Any",
        "5 Any",
        "6 Term",
        "9 Any",
        "10 Any",
        "10 Either",
        "10 Term",
        "11 Any",
        "11 Any",
        "12 Plain",
        "12 t.Any",
    ]


def test_anys_are_found_through_imports():
    sources = {
        "a.terms": TERMS,
        "a.__init__": "from .terms import Term as Number, Function, Array",
        "b": """\
import xdsl_quant
from xdsl_quant import a
from xdsl_quant.a import Number, Function, Array
from xdsl_quant.a import terms
from other import Any
x: Number
y: a.Number
z: terms.Plain
f: Function
g: Array
h: Any
""",
        "c": "from .d import X\nx: X",
        "d": "from .c import X",
    }
    assert [place for place in _house(**sources).anys() if "terms:" not in place] == [
        "xdsl_quant.b:6 Number",
        "xdsl_quant.b:7 a.Number",
        "xdsl_quant.b:8 terms.Plain",
    ]


def test_anys_in_lines_of_code():
    source = "from typing import Any\nx: Any\n" + "y = 1\n" * 998
    assert _house(tools=source).figures()["Any in 1,000 lines of code"] == 1


def _function(lines: int, name: str) -> str:
    return f"@wrapped\ndef {name}():\n" + "    '''Docstring.'''\n" * (lines - 1)


def test_functions():
    source = "\n".join(
        [_function(n, f"f{n}") for n in (2, 40, 41, 60, 61)]
        + ["class C:\n    async def m(self):\n        def inner(): ..."]
    )
    files = _house(tools=source)
    assert [p.split()[1] for p in files.functions(1)] == [
        *("f2", "f40", "f41", "f60", "f61", "m")
    ]
    assert [p.split()[1:] for p in files.functions(40)] == [
        ["f41", "(41)"],
        ["f60", "(60)"],
        ["f61", "(61)"],
    ]
    figures = files.figures()
    assert figures["functions over 40 lines"] == 3
    assert figures["functions over 60 lines"] == 1
    assert figures["percent of functions over 40 lines"] == 42.9


def _imports_in_circles(type_checking: bool, **sources: str) -> list[list[str]]:
    circles = _house(**sources).circles(type_checking)
    return [[name.removeprefix("xdsl_quant.") for name in files] for files in circles]


def test_circles():
    sources = {
        "a.__init__": "from .x import f",
        "a.x": "from . import y",
        "a.y": "def f():\n    import xdsl_quant.b",
        "b": "from xdsl_quant.a.x import f\nfrom .c import g\nfrom . import b",
        "c": """\
import typing
if typing.TYPE_CHECKING:
    from .d import x
else:
    import numpy
""",
        "d": "from .c import g",
        "e": "from .a import f\nfrom .d import x",
    }
    two = [["a.x", "a.y", "b"]]
    assert _imports_in_circles(False, **sources) == two
    assert sorted(_imports_in_circles(True, **sources)) == [*two, ["c", "d"]]


def test_files_in_circles():
    lazy = "if TYPE_CHECKING:\n    from . import"
    files = _house(
        **{"tools.a": "from . import b", "tools.b": "from . import c"},
        **{"tools.c": "from . import a", "tools.d": f"{lazy} e"},
        **{"tools.e": "from . import d"},
    )
    figures = files.figures()
    assert figures["circles"] == 1
    assert figures["files in circles"] == 3
    assert figures["circles, with TYPE_CHECKING"] == 2
    assert figures["files in circles, with TYPE_CHECKING"] == 5


def test_two_circles_with_a_common_file_are_one():
    sources = {
        "a": "from . import b, c",
        "b": "from . import a",
        "c": "from . import a",
    }
    assert _imports_in_circles(False, **sources) == [["a", "b", "c"]]


def test_ways_of_different_lengths_make_one_circle():
    sources = {"m": "n", "n": "j, m, p", "j": "p", "p": "n"}
    sources = {file: f"from . import {names}" for file, names in sources.items()}
    assert _imports_in_circles(False, **sources) == [["j", "m", "n", "p"]]


def test_imports_in_the_other_branch_of_type_checking():
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    x = 1\n"
    sources = {"a": source + "else:\n    from . import b", "b": "from . import a"}
    assert _imports_in_circles(False, **sources) == [["a", "b"]]


def test_lazy_patterns_are_no_arrows_and_no_circles():
    trait = """\
class Trait:
    def get_canonicalization_patterns(cls):
        from xdsl_quant.transforms.p import Pattern
"""
    files = _house(dialects__d=trait, transforms__p="from xdsl_quant.dialects import d")
    assert files.circles(type_checking=True) == []
    assert files.arrows_up() == []


def test_arrows():
    lazy = "def f():\n    from xdsl_quant.transforms import t, t as u\n"
    checking = (
        "if TYPE_CHECKING:\n    from ..dialects import d\nimport numpy, xdsl.ir\n"
    )
    files = _house(
        dialects__d=lazy + "from xdsl_quant.numerics import n\nimport xdsl",
        numerics__n=checking,
        transforms__t="from xdsl_quant import dialects\nfrom . import u",
        tools__x="from xdsl_quant import transforms, universe",
        xdsl_patches__y="import xdsl_quant.dialects.c",
        dialects__c="import xdsl_quant.xdsl_patches",
        diagnostics="import xdsl.ir",
        frontends__f="import xdsl_quant.tools, xdsl_quant.frontends.g",
        frontends__g="",
        targets="from xdsl_quant.frontends import g",
        runtime__r="import xdsl_quant.frontends.f\nfrom xdsl_quant.frontends.f import x",
    )
    assert files.arrows_up() == [
        "xdsl_quant.dialects.d -> xdsl_quant.transforms.t",
        "xdsl_quant.numerics.n -> xdsl_quant.dialects.d",
        "xdsl_quant.numerics.n -> xdsl.ir",
    ]
    assert files.slice_imports() == [
        "xdsl_quant.targets -> xdsl_quant.frontends.g",
        "xdsl_quant.runtime.r -> xdsl_quant.frontends.f",
    ]
    assert House({"xdsl_quant.__init__": "import numpy"}).arrows_up() == []


def test_every_room_has_a_place_in_the_order():
    files = _house(attic="x = 1", cellar__a="x = 1", frontends="x = 1", tools="x = 1")
    with pytest.raises(ValueError, match=r"^rooms missing in ORDER: attic, cellar$"):
        files.arrows_up()


def test_repeated_names():
    source = """\
class AddOp:
    name = "d.add"
def _add(): ...
def main(): ...
def f(): ...
def f(): ...
def _g():
    def inner(): ...
class C:
    def method(self): ...
if True:
    class Late: ...
try:
    import x
except ImportError:
    async def h(): ...
"""
    files = _house(a=source, b=source.replace("f()", "once()"))
    assert files.repeated_names(private=False) == [
        f"{name}: xdsl_quant.a, xdsl_quant.b" for name in ("C", "Late", "h")
    ]
    assert files.repeated_names(private=True) == ["_g: xdsl_quant.a, xdsl_quant.b"]


def test_names_of_several_machines():
    numpy, tosa = "machines__numpy__a", "frontends__tflite__lowering__tosa__a"
    source = "def _joined(): ..."
    files = _house(**{numpy: source, tosa: source})
    assert files.repeated_names(private=True) == []
    files = _house(**{numpy: source, "machines__numpy__b": source, "a": source})
    assert files.repeated_names(private=True) == [
        "_joined: xdsl_quant.machines.numpy.a, xdsl_quant.machines.numpy.b, xdsl_quant.a"
    ]


def test_loaded_files():
    assert loaded_files("") == 0
    assert loaded_files("import xdsl_quant.rounding_mode, xdsl") == 3


def test_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    room = tmp_path / "xdsl_quant" / "tools"
    room.mkdir(parents=True)
    (room / "a.py").write_text(_function(61, "f"))
    monkeypatch.setattr(house, "ROOT", tmp_path)
    monkeypatch.setattr(house, "PROGRAMS", {})
    assert house.main() == 0
    figures, rooms = capsys.readouterr().out.split("\n\n")
    words = [line.split() for line in figures.splitlines()]
    assert words[0] == ["figure", "found", "today", "limit"]
    assert "functions over 60 lines 1 0 0".split() in words
    assert len(words) == 1 + len(FIGURES) - len(PROGRAMS)
    assert [line.split()[-2:] for line in rooms.splitlines()[1:]] == [["tools", "2"]]
    assert house.main("functions over 60 lines") == 0
    assert capsys.readouterr().out == "xdsl_quant.tools.a:2 f (61)\n"
    assert house.main("rooms") == 1
    assert capsys.readouterr().err == "figure without places: 'rooms'\n"
