"""
Differences that generated inputs do not bring up: MLIR 24 answers like MLIR 22, so that
`docs/background/differences.md` says the same of both.
"""

import pytest

from .checks import MLIR_PIPELINES, Conformance
from .differences import PassName
from .real_mlir import Mlir

_LAYER = "!quant.uniform<i8:f32, 1.0>"
_BLOCKS = "!quant.uniform<i8:f32:{0:2}, {1.0, 2.0}>"
_ONE_BLOCK = "tensor<4x!quant.uniform<u8:f32:{}, {1.0:200}>>"
_QDQ = (
    f"func.func @f(%x: f32, %q: {_LAYER}, %r: {_ONE_BLOCK}) -> f32 {{\n"
    f"  %y = quant.qcast %x : f32 to {_LAYER}\n"
    f"  %z = quant.dcast %y : {_LAYER} to f32\n"
    "  return %z : f32\n"
    "}\n"
)

_EXAMPLES: dict[str, tuple[PassName, str]] = {
    "casts that fold, lowered": ("lower-quant-ops", _QDQ),
    "casts outside of functions": (
        "lower-quant-ops",
        f"%x = arith.constant 1.0 : f32\n%y = quant.qcast %x : f32 to {_LAYER}\n",
    ),
    "values of function type": (
        "strip-func-quant-types",
        f"func.func private @g({_LAYER})\n"
        f"func.func @f(%x: {_LAYER}) {{\n"
        f"  %c = func.constant @g : ({_LAYER}) -> ()\n"
        f"  func.call_indirect %c(%x) : ({_LAYER}) -> ()\n"
        "  return\n"
        "}\n",
    ),
    "casts that fold, stripped": ("strip-func-quant-types", _QDQ),
    "blocks of unranked tensors": (
        "strip-func-quant-types",
        f"func.func @f(%x: tensor<*x{_BLOCKS}>) -> tensor<*xf32> {{\n"
        f"  %y = quant.dcast %x : tensor<*x{_BLOCKS}> to tensor<*xf32>\n"
        "  return %y : tensor<*xf32>\n"
        "}\n",
    ),
    "zero point of 200": (
        "normalize-quant-types",
        f"func.func private @f({_ONE_BLOCK})\n",
    ),
    "axis of unranked tensors": (
        "normalize-quant-types",
        "func.func private @f(tensor<*x!quant.uniform<i8:f32:{1:1}, {1.0, 2.0}>>)\n",
    ),
    "nested modules": (
        "normalize-quant-types",
        f"module {{\n  func.func private @f({_ONE_BLOCK})\n}}\n",
    ),
    "function types": (
        "normalize-quant-types",
        f"func.func private @f(({_ONE_BLOCK}) -> ())\n",
    ),
    "casts that fold, normalized": ("normalize-quant-types", _QDQ),
}


@pytest.mark.parametrize("example", _EXAMPLES)
def test_mlir_24_answers_like_22(mlir: Mlir, conformance_24: Conformance, example: str):
    name, text = _EXAMPLES[example]
    before, after = (
        worker.run(text, MLIR_PIPELINES[name]) for worker in (mlir, conformance_24.mlir)
    )
    assert before == after
