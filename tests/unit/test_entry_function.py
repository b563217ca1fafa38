"""Which function is called."""

import re

import pytest

from xdsl_quant.entry_function import entry_function
from xdsl_quant.loading import parse_module

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
            "there is no function 'g': there are 'f', 'main', 'helper', 'elsewhere'",
        ),
        (TEXT, "elsewhere", "function 'elsewhere' has no body"),
        (
            TEXT.replace("@main", "@g"),
            None,
            "the name of a function is needed: there are 'f', 'g'",
        ),
        ("builtin.module {}", None, "the module has no public function with a body"),
        (
            "builtin.module {}",
            "f",
            "there is no function 'f': the module has none at all",
        ),
    ],
)
def test_no_function(text: str, name: str | None, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        entry_function(parse_module(text), name)
