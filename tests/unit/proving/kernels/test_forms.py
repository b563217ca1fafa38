"""Kinds of values of lowered kernels."""

import pytest

from xdsl_quant.proving.kernels.forms import KernelForm, Kind
from xdsl_quant.runtime.loading import parse_module


@pytest.mark.parametrize(
    ("padding", "kind"),
    [
        ("arith.constant 3 : i8", Kind.MOVED),
        ("tensor.extract %x[%zero] : tensor<4xi8>", Kind.OTHER),
    ],
)
def test_padding_depends_on_an_argument(padding: str, kind: Kind):
    module = parse_module(f"""
    func.func @main(%x: tensor<4xi8>) -> tensor<6xi8> {{
      %zero = arith.constant 0 : index
      %value = {padding}
      %y = tensor.pad %x low[1] high[1] {{
      ^bb0(%i: index):
        tensor.yield %value : i8
      }} : tensor<4xi8> to tensor<6xi8>
      return %y : tensor<6xi8>
    }}""")
    form = KernelForm.of(module)
    assert [form.kinds[result] for result in form.results] == [kind]
