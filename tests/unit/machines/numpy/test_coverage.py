"""Which ops have no interpretation."""

import pytest
from xdsl.dialects.arith import Arith
from xdsl.dialects.cf import Cf
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.math import Math
from xdsl.dialects.tensor import Tensor
from xdsl.interpreter import Interpreter
from xdsl.ir import Dialect

from xdsl_quant.dialects.quant import Quant
from xdsl_quant.dialects.shape import Shape
from xdsl_quant.frontends.tflite.dialect import TFL
from xdsl_quant.machines.numpy import register_implementations

from .running import parse


@pytest.mark.parametrize(
    ("dialect", "missing"),
    [
        (Arith, set[str]()),
        (Cf, {"cf.switch"}),
        (Linalg, set[str]()),
        (Math, {"math.cttz", "math.ipowi"}),
        (Shape, set[str]()),
        (Tensor, set[str]()),
        (TFL, set[str]()),
    ],
)
def test_missing_ops(dialect: Dialect, missing: set[str]):
    interpreter = Interpreter(parse("builtin.module {}")[1])
    register_implementations(interpreter)
    known = interpreter._impls._impl_dict  # pyright: ignore[reportPrivateUsage] no public way
    # Terminators and `linalg.index` are evaluated with the op around them.
    inner = {f"{dialect.name}.yield", f"{dialect.name}.index"}
    names = {op.name for op in dialect.operations if op not in known}
    assert names - inner == missing


def test_ops_of_the_quant_dialect():
    """All but kernels, which are inlined before."""
    interpreter = Interpreter(parse("builtin.module {}")[1])
    register_implementations(interpreter)
    known = interpreter._impls._impl_dict  # pyright: ignore[reportPrivateUsage] no public way
    assert {op.name for op in Quant.operations if op not in known} == {
        "quant.region",
        "quant.return",
    }
