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


@pytest.mark.parametrize(
    ("elements", "is_used", "name"),
    [
        ("[[1, 2], [3, 4]]", False, None),
        ("5", True, None),
        ("[[1, 2], [3, 4]]", True, "linalg.generic"),
    ],
)
def test_initial_values_differ_between_pixels(
    elements: str, is_used: bool, name: str | None
):
    module = parse_module(f"""
    func.func @main(%x: tensor<2x2xi8>) -> tensor<2x2xi8> {{
      %init = arith.constant dense<{elements}> : tensor<2x2xi8>
      %y = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
        affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}}
        ins(%x : tensor<2x2xi8>) outs(%init : tensor<2x2xi8>) {{
      ^bb0(%a: i8, %b: i8):
        %c = arith.addi %a, {"%b" if is_used else "%a"} : i8
        linalg.yield %c : i8
      }} -> tensor<2x2xi8>
      return %y : tensor<2x2xi8>
    }}""")
    form = KernelForm.of(module)
    assert form.is_elementwise(form.function.args) == name


def test_transposition_in_a_result_map_is_not_elementwise():
    module = parse_module("""
    func.func @main(%x: tensor<2x2xi8>) -> tensor<2x2xi8> {
      %init = tensor.empty() : tensor<2x2xi8>
      %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
        affine_map<(d0, d1) -> (d1, d0)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<2x2xi8>) outs(%init : tensor<2x2xi8>) {
      ^bb0(%a: i8, %b: i8):
        %c = arith.addi %a, %a : i8
        linalg.yield %c : i8
      } -> tensor<2x2xi8>
      return %y : tensor<2x2xi8>
    }""")
    form = KernelForm.of(module)
    assert form.is_elementwise(form.function.args) == "linalg.generic"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("tosa.cast %x : (tensor<2xi8>) -> tensor<2xi32>", Kind.AFFINE),
        # Sums of floats are rounded.
        ("tosa.cast %x : (tensor<2xi8>) -> tensor<2xf32>", Kind.OTHER),
        ("tosa.cast %x : (tensor<2xi8>) -> tensor<2xi1>", Kind.OTHER),
        ("func.call @other() : () -> tensor<2xi8>", Kind.OTHER),
    ],
)
def test_kind_of_an_op(code: str, kind: Kind):
    type_ = code.rpartition("-> ")[2]
    module = parse_module(f"""
    func.func private @other() -> tensor<2xi8>
    func.func @main(%x: tensor<2xi8>) -> {type_} {{
      %y = {code}
      return %y : {type_}
    }}""")
    form = KernelForm.of(module)
    assert [form.kinds[result] for result in form.results] == [kind]
