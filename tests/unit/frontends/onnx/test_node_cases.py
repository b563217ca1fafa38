"""ONNX's own node tests: import, interpret, compare with the results of the cases."""

import onnx
import pytest

from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function

from .node_cases import array_of_value, check_close, node_cases

_PARTS = 40
"""Number of parts that the cases are divided into: each is a test."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("part", range(_PARTS))
def test_node_cases(part: int):
    failures: list[str] = []
    for case in node_cases()[part::_PARTS]:
        if case.left_out is not None:
            continue
        try:
            case.run()
        except Exception as e:
            # All failures of a part are reported at once.
            failures.append(f"{case.name}: {type(e).__name__}: {e}")
    assert not failures, "\n".join(failures)


def _with_unknown_batch(model: onnx.ModelProto) -> bytes:
    """Return a model in which the first size of the first input is a symbol."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    content: bytes = copy.SerializeToString()
    return content


_CASES = """
averagepool_2d_pads basic_conv_with_padding celu concat_2d_axis_1 conv_with_strides_padding
dequantizelinear elu_example flatten_axis2 gelu_tanh_1 globalmaxpool hardswish
leakyrelu_example logsoftmax_axis_1 matmul_2d maxpool_2d_ceil mish quantizelinear selu
softmax_axis_2 softplus
""".split()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", _CASES)
def test_node_cases_of_unknown_batch(name: str):
    case = next(case for case in node_cases() if case.name == f"test_{name}")
    module = read_onnx(_with_unknown_batch(case.model))
    assert "?" in str(module)
    for inputs, outputs in case.data:
        results = run_function(module, None, *map(array_of_value, inputs))
        for result, expected in zip(results, outputs, strict=True):
            check_close(result, array_of_value(expected), case.rtol, case.atol)
