"""Ops of TOSA with keywords in their text."""

from itertools import permutations

import pytest

from xdsl_quant.runtime.loading import parse_module

ENTRIES = {
    "kernel": "array<i64: 1, 1>",
    "pad": "array<i64: 0, 0, 0, 0>",
    "stride": "array<i64: 1, 1>",
}


@pytest.mark.parametrize("names", [*permutations(ENTRIES)])
def test_properties_are_in_the_order_of_the_text(names: tuple[str, ...]):
    entries = ", ".join(f"{name} = {ENTRIES[name]}" for name in names)
    module = parse_module(f"""
      func.func @f(%x: tensor<1x2x2x1xf32>) {{
        %y = tosa.max_pool2d %x {{{entries}, nan_mode = IGNORE}}
          : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
        return
      }}""")
    (pool,) = [op for op in module.walk() if op.name == "tosa.max_pool2d"]
    assert [*pool.properties] == [*names, "nan_mode"]
