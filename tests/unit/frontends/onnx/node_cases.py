"""ONNX's own backend node tests: models of one op (or its definition) with values."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import EllipsisType

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.test.case.node import collect_testcases
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.frontends.onnx.files.tensors import array_of
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

_UNSIGNED_BITS: Mapping[int, int] = {
    onnx.TensorProto.UINT4: 4,
    onnx.TensorProto.UINT2: 2,
}

_NARROW_RANGES: Mapping[str, tuple[int, int]] = {
    "UINT4": (0, 15),
    "INT4": (-8, 7),
    "UINT2": (0, 3),
    "INT2": (-2, 1),
}

LEFT_OUT: Mapping[str, str] = {
    "test_batchnorm_.*_training_mode": "training",
    "test_equal_string.*": "strings",
    "test_identity_(sequence|opt)": "sequence and optional types",
    "test_training_dropout(_default)?(_mask)?": "training: random masks",
    "test_split_to_sequence_.*": "sequence types",
    "test_(nonzero_example|unique_.*)": "the size of the result depends on data",
    "test_resize_downsample_scales_(linear|cubic)_align_corners": (
        "onnxruntime divides by the size of the result minus 1, these cases by the size "
        "before rounding"
    ),
    "test_attention_[34]d_.*bf16(_expanded)?|test_attention_4d_causal_fp16(_expanded)?": (
        "the cases round intermediate values otherwise: by up to 2 units in the last place"
    ),
    "test_if_(seq|opt)|test_loop13_seq|test_loop16_seq_none": (
        "sequence and optional types"
    ),
    "test_loop11|test_range_.*_delta_expanded": (
        "the number of iterations, which is the size of a result, depends on data"
    ),
    "test_(adagrad|adam|momentum|nesterov_momentum)(_multiple)?": "training",
    "test_(ai_onnx_ml|image_decoder|tfidfvectorizer|melweightmatrix).*": (
        "no conversion: preparation of data"
    ),
    "test_(regex|string|strnormalizer)_.*": "strings",
    "test_(optional|sequence)_.*": "sequence and optional types",
    "test_bernoulli.*": "random numbers",
    "test_(basic_deform_conv|deform_conv|det|maxunpool).*": "no conversion",
    "test_dft_inverse(_opset19)?": (
        "the cases have rounding errors of 2e-7 where the result is 0"
    ),
    "test_nonmaxsuppression_.*": "the size of the result depends on data",
    "test_scan_sum": "Scan of opset 8, whose sequences have a batch dimension",
}
"""Reasons for the cases that are not run, by a regular expression of their names."""


@dataclass(frozen=True)
class NodeCase:
    """A model, its arguments and its results."""

    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Sequence[object], Sequence[object]]]
    rtol: float
    atol: float

    @property
    def op_types(self) -> set[str]:
        """Ops of the model and of its functions."""
        return {node.op_type for node in self.model.graph.node}

    @property
    def left_out(self) -> str | None:
        """Reason why the case is not run; `None` if it is run."""
        return next(
            (v for k, v in LEFT_OUT.items() if re.fullmatch(k, self.name)), None
        )

    def run(self) -> None:
        """Import the model, interpret it and compare results."""
        for inputs, outputs in self.data:
            arrays = [array_of_value(value) for value in inputs]
            module, arguments = imported_case(self.model, arrays)
            self.check_results(run_function(module, None, *arguments), arrays, outputs)

    def _defined(self, arrays: Sequence[Array]) -> Array | EllipsisType:
        """
        Index the elements whose results ONNX defines: not those of floats that are cast
        to a narrow integer which cannot hold them. The cases have what `ml_dtypes` gives:
        the lowest bits before version 0.7, now 0.
        """
        if not (
            match := re.match(r"test_cast(like)?_FLOAT\d*_to_(U?INT[24])", self.name)
        ):
            return ...
        low, high = _NARROW_RANGES[match[2]]
        integers = np.trunc(arrays[0].astype(np.float64))
        return (low <= integers) & (integers <= high)

    def check_results(
        self,
        results: Sequence[Array],
        arrays: Sequence[Array],
        outputs: Sequence[object],
    ) -> None:
        """Compare the interpreter's results for arguments with those of the case."""
        defined = self._defined(arrays)
        types = [value.type.tensor_type for value in self.model.graph.output]
        for result, value, type_ in zip(results, outputs, types, strict=True):
            if (bits := _UNSIGNED_BITS.get(type_.elem_type)) is not None:
                # Narrow results are sign extended.
                result = result & ((1 << bits) - 1)
            expected = array_of_value(value)
            assert result.shape == expected.shape
            check_close(result[defined], expected[defined], self.rtol, self.atol)


def imported_case(
    model: onnx.ModelProto, arrays: Sequence[Array]
) -> tuple[ModuleOp, Sequence[Array]]:
    """
    Import a model. If shapes of results depend on inputs, these become constants: all but
    the first one, or all of them. Return the module and the arguments that remain.
    """
    names = [value.name for value in model.graph.input]
    for count in (len(arrays), 1, 0):
        shapes = {
            name: array.shape
            for name, array in zip(names, arrays[:count], strict=False)
        }
        content = _with_constants(model, arrays, count).SerializeToString()
        try:
            return read_onnx(content, shapes=shapes), arrays[:count]
        except ONNXFileError as e:
            if not count or "depend on data" not in str(e):
                raise
    raise AssertionError


def _with_constants(
    model: onnx.ModelProto, arrays: Sequence[Array], count: int
) -> onnx.ModelProto:
    """Return a copy of a model in which only the first `count` inputs are no constants."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    inputs = copy.graph.input
    for value, array in zip(inputs[count:], arrays[count:], strict=False):
        copy.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del inputs[count:]
    return copy


def array_of_value(value: object) -> Array:
    """Return a value as an array; cases of narrow types have tensors instead of arrays."""
    is_tensor = isinstance(value, onnx.TensorProto)
    return array_of(value, None) if is_tensor else np.asarray(value)


def check_close(
    result: NDArray[np.generic],
    expected: NDArray[np.generic],
    rtol: float,
    atol: float,
) -> None:
    """
    Compare an array with that of a case. Integers without sign and narrow ones have the
    dtype of the signless type: see `xdsl_quant.runtime.arrays`.
    """
    assert result.shape == expected.shape
    if result.dtype.kind == "i" and result.dtype.itemsize == expected.dtype.itemsize:
        result = result.view(expected.dtype)
    assert result.dtype == expected.dtype
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(
            result.astype(np.float64), expected.astype(np.float64), rtol, atol
        )


@cache
def node_cases() -> Sequence[NodeCase]:
    """Return all cases of the package `onnx`, in its order."""
    with warnings.catch_warnings():
        # Some cases divide by zero on purpose.
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return [
        NodeCase(case.name, case.model, case.data_sets, case.rtol, case.atol)
        for case in found
        if case.model is not None and case.data_sets is not None
    ]


def cases_of(*op_types: str) -> Iterator[NodeCase]:
    """Yield the cases whose models contain no ops but these."""
    for case in node_cases():
        if case.op_types <= {*op_types}:
            yield case
