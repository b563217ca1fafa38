"""Which function is called."""

import re

import pytest

from xdsl_quant.runtime.entry_function import entry_function, reachable_functions
from xdsl_quant.runtime.loading import parse_module

TEXT = """
func.func @f() { return }
func.func @main() { return }
func.func private @helper() { return }
func.func private @elsewhere()
"""


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        (TEXT, None, "main"),
        (TEXT, "f", "f"),
        (TEXT, "helper", "helper"),
        (TEXT.replace("@main", "private @main"), None, "f"),
    ],
)
def test_function_that_is_called(text: str, name: str | None, found: str):
    assert entry_function(parse_module(text), name).sym_name.data == found


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (
            TEXT,
            "g",
            "unknown function 'g'; available: 'f', 'main', 'helper', 'elsewhere'",
        ),
        (TEXT, "elsewhere", "function 'elsewhere' has no body"),
        (
            TEXT.replace("@main", "@g"),
            None,
            "missing function name; available: 'f', 'g'",
        ),
        ("builtin.module {}", None, "the module has no public function with a body"),
        (
            "builtin.module {}",
            "f",
            "unknown function 'f'; the module has none",
        ),
    ],
)
def test_no_function(text: str, name: str | None, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        entry_function(parse_module(text), name)


def test_functions_that_are_run():
    text = """
func.func @f() {
  func.call @g() : () -> ()
  return
}
func.func @g() {
  func.call @h() : () -> ()
  func.call @f() : () -> ()
  return
}
func.func private @h()
func.func @other() { return }
"""
    module = parse_module(text)

    def names(entry: str) -> set[str]:
        functions = reachable_functions(module, entry_function(module, entry))
        assert functions[0].sym_name.data == entry
        return {function.sym_name.data for function in functions}

    assert names("f") == names("g") == {"f", "g", "h"}
    assert names("other") == {"other"}
