"""Constants that `tfl.quantize` quantizes, compared with the real dialect."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import f64

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.float_text import float_text
from xdsl_quant.runtime.loading import apply_passes, parse_module

COUNT, SIZE = 60, 12
CONSTANT = re.compile(r'"tfl\.pseudo_qconst".*?qtype = (.*?), value = (dense<.*?>) :')


def constants(seed: int) -> str:
    """A function that quantizes constants, some of them on the midpoints of a grid."""
    rng = np.random.default_rng(seed)
    lines: list[str] = []
    for i in range(COUNT):
        bits = int(rng.choice([8, 8, 16, 32]))
        is_narrow = bits == 8 and rng.random() < 0.4
        scale = float(2.0 ** (rng.integers(-8, 2) if i % 2 else rng.uniform(-11, 3)))
        zero_point = int(rng.integers(-127, 128)) if bits == 8 else 0
        largest = min((1 << (bits - 1)) - 1, 1 << 20)
        stored = rng.integers(-largest - 3, largest + 3, SIZE)
        parts = rng.choice([0, 0.5, -0.5, 0.25], SIZE)
        values = ((stored - zero_point + parts) * scale).astype(np.float32)
        storage = f"i{bits}<-127:127>" if is_narrow else f"i{bits}"
        scale_text = float_text(scale, float_format(f64))
        qtype = (
            f"tensor<{SIZE}x!quant.uniform<{storage}:f32, {scale_text}:{zero_point}>>"
        )
        elements = ", ".join(f"{value:.9e}" for value in values)
        lines += [
            f"%c{i} = arith.constant dense<[{elements}]> : tensor<{SIZE}xf32>",
            f'%q{i} = "tfl.quantize"(%c{i}) <{{qtype = {qtype}}}>',
            f"  : (tensor<{SIZE}xf32>) -> {qtype}",
            f'"tfl.custom"(%q{i}) {{custom_code = "use", custom_option = '
            f'#tfl<const_bytes : "0x">}} : ({qtype}) -> ()',
        ]
    return "\n".join(["func.func @main() {", *lines, "func.return", "}"])


@pytest.mark.parametrize("seed", range(4))
def test_as_the_real_dialect(litert_converter: Mlir, seed: int):
    text = constants(seed)
    real = litert_converter.run(text, "tfl-fuse-qdq,func.func(tfl-post-quantize)")
    assert isinstance(real, Accepted), real
    module = parse_module(text, "constants.mlir")
    apply_passes(module, "quant-convert-const")
    ours = CONSTANT.findall(str(module))
    assert len(ours) == COUNT
    assert ours == CONSTANT.findall(real.text)
