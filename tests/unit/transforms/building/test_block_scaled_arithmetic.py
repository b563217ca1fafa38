import pytest
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type

from xdsl_quant.transforms.building.quantization_arithmetic import dense


@pytest.mark.parametrize(
    ("type_", "digits"),
    [
        (BFloat16Type(), "c03f80be"),
        (Float16Type(), "003e00b4"),
        (Float32Type(), "0000c03f000080be"),
    ],
    ids=str,
)
def test_numbers_of_blocks(
    type_: BFloat16Type | Float16Type | Float32Type, digits: str
):
    attr = dense([1.5, -0.25], type_, [2])
    assert attr.data.data.hex() == digits
