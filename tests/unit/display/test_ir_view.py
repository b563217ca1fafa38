"""`show` and `compare`."""

from typing import Any
from xml.etree import ElementTree

import pytest
from IPython.core.formatters import DisplayFormatter
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32, i8

from tests.unit.display.html_tree import classes, parse_html, text_of
from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.display import compare, show

A = UniformQuantizedType(i8, f32, 0.5)
B = UniformQuantizedType(i8, f32, 2.0)
A_TEXT = "!quant.uniform<i8:f32, 5.000000e-01>"
B_TEXT = "!quant.uniform<i8:f32, 2.000000e+00>"
MODULE_TEXT = f"""\
!q0 = {A_TEXT}
builtin.module {{
  %0 = "test.op"() : () -> !q0
}}"""


def _html(view: object) -> ElementTree.Element:
    return parse_html(getattr(view, "_repr_html_")())


def _plain(view: object) -> str:
    """What IPython shows without HTML."""
    formatter: Any = DisplayFormatter()
    data, _ = formatter.format(view)
    return data["text/plain"]


def _columns(view: object) -> list[list[tuple[str, bool]]]:
    """The lines of each column, and whether they are marked."""
    return [
        [(text_of(line), "style" in line.attrib) for line in column.iter("div")]
        for column in _html(view).iter("pre")
    ]


def test_show_module():
    view = show(ModuleOp([test.TestOp(result_types=[A])]))
    assert view.text == str(view) == repr(view) == MODULE_TEXT
    tree = _html(view)
    (pre,) = tree.iter("pre")
    assert text_of(pre) == MODULE_TEXT
    titles = [span.get("title") for span in tree.iter("span") if span.get("title")]
    assert titles == [A_TEXT, A_TEXT]


def test_show_without_aliases():
    view = show(ModuleOp([test.TestOp(result_types=[A])]), aliases=False)
    assert view.text == f'builtin.module {{\n  %0 = "test.op"() : () -> {A_TEXT}\n}}'


def test_show_any_op():
    op = test.TestOp(result_types=[A])
    assert str(show(op)) == f'!q0 = {A_TEXT}\n%0 = "test.op"() : () -> !q0'


def test_show_text():
    text = "!a = i8\n\nfunc.func private @f(!a) // <b>"
    view = show(f"\n{text}\n")
    assert str(view) == text
    tree = _html(view)
    assert text_of(next(tree.iter("pre"))) == text
    assert ("c", "// <b>") in classes(tree)


def test_what_is_shown_does_not_change_with_the_op():
    op = test.TestOp(result_types=[A])
    view = show(op)
    op.attributes["a"] = StringAttr("b")
    assert "a =" not in str(view)
    assert "a =" in str(show(op))


def test_show_many_lines():
    text = "\n".join(f"test.op{i}" for i in range(1500))
    view = show(text)
    assert str(view) == text
    (pre,) = _html(view).iter("pre")
    lines = text_of(pre).split("\n")
    assert lines == [*text.split("\n")[:1000], "// ... and 500 more lines"]
    assert _plain(view) == "\n".join(lines)


LONG = f'test.op dense<"0x{"00" * 100_000}">'


@pytest.mark.parametrize(
    "view", [show(LONG), compare("", LONG)], ids=["show", "compare"]
)
def test_a_notebook_stores_no_long_constants(view: object):
    assert LONG in str(view)
    assert "test.op dense" in _plain(view)
    assert len(_plain(view)) < 200
    assert len(getattr(view, "_repr_html_")()) < 3000


def test_compare_aligns_lines_and_marks_changes():
    view = compare("a\nb\nc\nd", "a\nx\ny\nz\nc\nd\ne")
    assert _columns(view) == [
        [("a", False), ("b", True), (" ", False), (" ", False), ("c", False),
         ("d", False), (" ", False)],
        [("a", False), ("x", True), ("y", True), ("z", True), ("c", False),
         ("d", False), ("e", True)],
    ]  # fmt: skip
    labels = [div.get("aria-label") for div in _html(view).iter("div")]
    assert [label for label in labels if label] == ["before", "after"]


def test_compare_has_one_alias_for_a_type_on_both_sides():
    view = compare(
        ModuleOp([test.TestOp(result_types=[A]), test.TestOp(result_types=[B])]),
        ModuleOp([test.TestOp(result_types=[B])]),
    )
    assert view.before.startswith(f"!q0 = {A_TEXT}\n!q1 = {B_TEXT}\n")
    assert view.after.startswith(f"!q1 = {B_TEXT}\nbuiltin.module")
    assert str(view) == f"// before\n{view.before}\n// after\n{view.after}"
    before, after = _columns(view)
    assert (f"!q1 = {B_TEXT}", False) in before
    assert (f"!q1 = {B_TEXT}", False) in after


def test_compare_without_aliases():
    module = ModuleOp([test.TestOp(result_types=[A])])
    view = compare(module, module, aliases=False)
    assert view.before == view.after == str(module)


@pytest.mark.parametrize("value", [None, A, 3])
def test_what_is_no_ir(value: Any):
    message = f"expected an op or IR text, found {type(value).__name__}"
    for call in (
        lambda: show(value),
        lambda: show(value, aliases=False),
        lambda: compare("", value),
        lambda: compare(value, ModuleOp([])),
    ):
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value) == message


def test_file_name_instead_of_a_text():
    message = r"^expected an op or IR text, found the file name 'models/f.mlir'$"
    for call in (
        lambda: show("models/f.mlir"),
        lambda: compare("", "models/f.mlir"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
