"""Tensors that blocks pass on: compiled code has the results of the interpreter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

HEAD = """
func.func @f(%p: !t, %c: i1, %n: index) -> !t {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %v = arith.addf %p, %p : !t
"""

VALUES = {
    "add": ("", "%v"),
    "for": (
        """
  %w = scf.for %i = %zero to %n step %one iter_args(%a = %v) -> (!t) {
    %s = arith.subf %a, %p : !t
    scf.yield %s : !t
  }
""",
        "%w",
    ),
    "if": (
        """
  %w = scf.if %c -> (!t) {
    %s = arith.subf %v, %p : !t
    scf.yield %s : !t
  } else {
    scf.yield %v : !t
  }
""",
        "%w",
    ),
    "while": (
        """
  %w:2 = scf.while (%a = %v, %q = %zero) : (!t, index) -> (!t, index) {
    %d = arith.cmpi ult, %q, %n : index
    scf.condition(%d) %a, %q : !t, index
  } do {
  ^bb0(%e: !t, %q: index):
    %s = arith.subf %e, %p : !t
    %m = arith.addi %q, %one : index
    scf.yield %s, %m : !t, index
  }
""",
        "%w#0",
    ),
}

TAIL = """
^x(%g: !t):
  %1 = arith.subf %g, %v : !t
  return %1 : !t
^y(%h: !t):
  %2 = arith.addf %h, %h : !t
  return %2 : !t
}
"""


def check(text: str, sizes: Sequence[int] = (1, 17, 60)) -> None:
    """Both results, with all branches and several sizes."""
    module, function = parse_module(text), compile(text)
    for size in sizes:
        for n in range(3):
            for c in (False, True):
                x = np.arange(size, dtype=np.float32) + 1
                (expected,) = run_function(module, "f", x, c, n)
                result: NDArray[Any] = function(x, c, n)
                assert result.tolist() == expected.tolist()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(
    ("one", "other"),
    [("{w}", "%p"), ("{w}", "{w}"), ("{w}", "%v"), ("%v", "{w}"), ("%p", "%p")],
)
def test_branches(name: str, one: str, other: str):
    ops, value = VALUES[name]
    branch = f"cf.cond_br %c, ^x({one} : !t), ^y({other} : !t)".format(w=value)
    check(f"!t = tensor<?xf32>\n{HEAD}{ops}  {branch}{TAIL}")


LOOP = f"""{HEAD}
  cf.br ^loop(%v, %zero : !t, index)
^loop(%a: !t, %i: index):
  %d = arith.cmpi ult, %i, %n : index
  cf.cond_br %d, ^body, ^end(%a : !t)
^body:
  %b = arith.subf %a, %p : !t
  %j = arith.addi %i, %one : index
"""


def test_loop_of_blocks():
    check(f"""!t = tensor<?xf32>
{LOOP}  cf.cond_br %c, ^loop(%b, %j : !t, index), ^loop(%a, %j : !t, index)
^end(%r: !t):
  return %r : !t
}}
""")


TWO_EXITS = f"""
{LOOP}  cf.cond_br %c, ^loop(%b, %j : !t, index), ^other(%a : !t)
^other(%o: !t):
  %s = arith.addf %o, %p : !t
  return %s : !t
^end(%r: !t):
  return %r : !t
}}
"""
"""A loop has two exits, and a value for each of them."""


def test_loop_with_two_exits():
    check(f"!t = tensor<5xf32>\n{TWO_EXITS}", [5])


def test_loop_with_two_exits_and_a_dynamic_size():
    message = (
        r"^value of type 'tensor<\?xf32>' is not defined on every path between blocks; "
        r"use scf\.if, scf\.for or scf\.while$"
    )
    with pytest.raises(CompilationError, match=message):
        compile(f"!t = tensor<?xf32>\n{TWO_EXITS}")
