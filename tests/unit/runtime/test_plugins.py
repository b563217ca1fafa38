"""Extensions that packages add by their entry points, and how the core finds them."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.universe import Universe

from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS
from xdsl_quant.frontends.stablehlo.dialect_ops import STABLEHLO_OPS
from xdsl_quant.frontends.tflite.dialect_ops import TFL_OPS
from xdsl_quant.frontends.tflite.files import read_tflite, write_tflite
from xdsl_quant.runtime.loading import (
    IRError,
    as_module,
    is_tflite_file,
    model_format,
    parse_module,
    read_model_file,
    suffixes,
)
from xdsl_quant.runtime.plugins import (
    ModelFileError,
    ModelFormat,
    PluginError,
    QuantizationUniverse,
    add_extensions,
    dialect_ops,
    dialects_in,
    plugins,
)
from xdsl_quant.tools import run


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Universe]]]:
    """Names and universes of the plugins that are found."""
    found: list[tuple[str, Universe]] = []

    def entry_points(*, group: str) -> list[Mock]:
        assert group == "xdsl.universe"
        points: list[Mock] = []
        for name, universe in found:
            points.append(Mock(load=lambda universe=universe: universe))
            points[-1].name = name
        return points

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    plugins.cache_clear()
    yield found
    plugins.cache_clear()


def test_extensions_of_plugins_are_united(installed: list[tuple[str, Universe]]):
    one, two = Path("one.toml"), Path("two.toml")
    installed += [
        ("b", QuantizationUniverse(hardware_targets={"two": lambda: two})),
        ("a", QuantizationUniverse(hardware_targets={"one": lambda: one})),
        ("of-xdsl", Universe()),
    ]
    targets = plugins().hardware_targets
    assert {name: path() for name, path in targets.items()} == {"one": one, "two": two}


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("hardware_targets", "target"),
        ("constraints", "constraint"),
        ("kernel_patterns", "pattern"),
        ("model_formats", "model format"),
        ("dialect_ops", "dialect"),
        ("rule_sets", "rule set"),
        ("interpreters", "interpreter"),
    ],
)
def test_two_plugins_with_one_name(
    field: str, kind: str, installed: list[tuple[str, Universe]]
):
    for name in ("b", "a"):
        universe = QuantizationUniverse()
        setattr(universe, field, {"x": object()})
        installed.append((name, universe))
    with pytest.raises(PluginError) as caught:
        plugins()
    assert str(caught.value) == (
        f"duplicate {kind} in plugins, found 'x' in 'a' and 'b'; uninstall one of them"
    )


def test_commands_name_plugins_that_do_not_go_together(
    installed: list[tuple[str, Universe]], capsys: pytest.CaptureFixture[str]
):
    for name in ("b", "a"):
        universe = QuantizationUniverse(hardware_targets={"x": Path})
        installed.append((name, universe))
    assert run.main(["model.mlir"]) == 1
    assert capsys.readouterr().err == (
        "xdsl.universe: error: duplicate target in plugins, found 'x' in 'a' and 'b'; "
        "uninstall one of them\n"
    )


def test_a_format_of_a_plugin(installed: list[tuple[str, Universe]], tmp_path: Path):
    module = ModuleOp([])

    def read(
        source: str | Path | bytes,
        *,
        shapes: object = None,
        static: bool = False,
        constants: object = (),
    ):
        if not isinstance(source, bytes) and Path(source).name == "damaged.net":
            raise ModelFileError(f"{source}: error: damaged")
        assert (shapes, static, constants) in (
            ({"x": [1]}, True, ()),
            (None, False, ()),
        )
        return module

    form = ModelFormat(lambda: read, Mock, "npu")
    installed.append(("a", QuantizationUniverse(model_formats={".net": form})))
    assert model_format("a.net") is model_format(Path("A.NET")) is form
    assert read_model_file("a.net", shapes={"x": [1]}, static=True) is module
    assert as_module("a.net") is module
    with pytest.raises(IRError, match=r"^damaged.net: error: damaged$"):
        read_model_file("damaged.net")
    with pytest.raises(IRError) as caught:
        read_model_file("a.tflite")
    assert (
        str(caught.value)
        == "a.tflite: error: unknown kind of file, expected a .net file"
    )
    assert suffixes(".mlir") == ".mlir or .net"


def test_no_formats(installed: list[tuple[str, Universe]]):
    assert installed == []
    with pytest.raises(IRError) as caught:
        read_model_file("a.tflite")
    assert str(caught.value) == (
        "a.tflite: error: unknown kind of file, expected a model file"
    )


def test_the_format_of_tensorflow_lite():
    form = model_format("a.tflite")
    assert form is not None
    assert form.reader() is read_tflite
    assert form.writer() is write_tflite
    assert form.target == "tflite-int8"
    assert (is_tflite_file("a.tflite"), is_tflite_file("a.mlir")) == (True, False)
    assert model_format("func.func @f()\n// .tflite") is None
    assert model_format(1) is None


def test_ops_that_passes_create():
    assert dialect_ops("tfl") is TFL_OPS
    assert dialect_ops("stablehlo") is STABLEHLO_OPS
    assert dialect_ops("toy") is QUANT_OPS


def test_dialects_in_a_module():
    module = parse_module("func.func @f() {\n  func.return\n}")
    assert dialects_in(module) == {"builtin", "func"}


def test_every_field_of_a_universe_is_of_xdsl_or_an_extension():
    extensions = {
        name
        for name in QuantizationUniverse.__dataclass_fields__
        if not name.startswith("all_") and name != "on_load"
    }
    universe, other = QuantizationUniverse(), QuantizationUniverse()
    for name in extensions:
        setattr(other, name, {"x": name})
    assert add_extensions(universe, [("other", other)]) is universe
    assert {name: getattr(universe, name) for name in extensions} == {
        name: {"x": name} for name in extensions
    }
