"""Recurrent ops, which keep their states between calls of a model."""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import NoneType, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_result_def,
)

from xdsl_quant.dialects.quant import traits as quant
from xdsl_quant.dialects.quant.types import scalar_or_element_type

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    InferredTypesOp,
    Requires,
    TFLOp,
    has_rank,
    require_operand_types,
    require_rank,
    require_rank_at_most,
    result_has_operand_type,
    shape_of,
    verified,
    without_blocks,
)

__all__ = [
    "SVDFOp",
    "UnidirectionalSequenceLSTMOp",
]


class RecurrentOp(TFLOp, ABC):
    """
    Base class of ops that update their states in place.

    `tfl-variables-to-arguments` returns the next states as additional results instead, a
    form that TensorFlow Lite does not support.
    """

    STATES: ClassVar[Sequence[int]]
    """Indices of the operands that are the states before the op."""

    INTERMEDIATES: ClassVar[Sequence[str]] = ()
    """Properties with the types of intermediate tensors, in the order of files."""

    @property
    def states(self) -> Sequence[SSAValue]:
        return [self.operands[index] for index in self.STATES]

    @property
    def next_states(self) -> Sequence[SSAValue]:
        """Return the results that are the states after the op; empty if it updates them."""
        return self.results[1:]

    def verify_(self) -> None:
        types = [state.type for state in self.next_states]
        is_one = len(self.STATES) == 1
        self.require(
            not types or types == [state.type for state in self.states],
            "requires the next state to have the type of the state"
            if is_one
            else "requires the next states to have the types of the states",
        )


_F32_QI8 = kinds.tensor_of("f32 QI8")


@irdl_op_definition
class SVDFOp(RecurrentOp):
    """
    Fully connected layer over the last steps of a signal; its weights are products of
    feature weights and time weights.

    Example:

    ```mlir
    %5 = "tfl.svdf"(%0, %1, %2, %3, %4) <{
        fused_activation_function = "RELU", rank = 1 : i32
    }> : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4x3xf32>, none, tensor<1x12xf32>)
        -> tensor<1x4xf32>
    ```
    """

    name = "tfl.svdf"

    STATES: ClassVar = (4,)

    input = operand_def(_F32_QI8)
    feature_weights = operand_def(kinds.tensor_of("f32 QI8 QUI8"))
    time_weights = operand_def(kinds.tensor_of("f32 QI16"))
    input_gate_bias = operand_def(kinds.tensor_of_or_none("f32 QI32"))
    activation_state = operand_def(kinds.STATE)
    asymmetric_quantize_inputs = opt_prop_def(props.BOOL)
    fused_activation_function = prop_def(props.ACTIVATION)
    rank = prop_def(props.POSITIVE_I32)
    output = result_def(_F32_QI8)
    next_state = opt_result_def(kinds.STATE)

    traits = traits_def(
        Requires(
            result_has_operand_type(
                0, "the input and result tensor elemental types must be same"
            ),
            without_blocks,
        ),
        quant.MultipliesAndAccumulates(),
        quant.AffineOpCoefficient(),
        quant.AccumulatorUniformScale(3, (2, 4)),
    )


# Operands of an LSTM


def _is_absent(op: Operation, index: int) -> bool:
    return isinstance(op.operands[index].type, NoneType)


def _are_all_or_none(op: Operation, indices: Sequence[int]) -> bool:
    return len({_is_absent(op, index) for index in indices}) == 1


_PEEPHOLES = "the optional peephole weights should all be specified or none"
_SAME_PEEPHOLES = require_operand_types(10, 11, _PEEPHOLES)
_SAME_INPUT_PEEPHOLE = require_operand_types(9, 10, _PEEPHOLES)


def _peepholes_match(op: Operation) -> str | None:
    # Without input weights, the input gate is 1 minus the forget gate.
    is_coupled = _is_absent(op, 1)
    return _SAME_PEEPHOLES(op) or (None if is_coupled else _SAME_INPUT_PEEPHOLE(op))


_COUPLING_MATCHES = verified(
    "the cifg inputs should all be specified or none",
    lambda op: _are_all_or_none(op, (1, 5, 12)),
)
_PROJECTION_MATCHES = verified(
    "either projection weight must be specified or both projection weight and "
    "projection bias must not be specified",
    lambda op: not _is_absent(op, 16) or _is_absent(op, 17),
)

_F32_QI32 = kinds.tensor_of_or_none("f32 QI32")
_WEIGHTS = kinds.tensor_of("f32 QI8")
_OPTIONAL_WEIGHTS = kinds.tensor_of_or_none("f32 QI8")
_PEEPHOLE = kinds.tensor_of_or_none("f32 QI8 QI16")
_NORM = kinds.tensor_of_or_none("f32 QI16")


@irdl_op_definition
class UnidirectionalSequenceLSTMOp(RecurrentOp, InferredTypesOp):
    """
    Long short-term memory: a recurrent layer that processes the steps of a sequence.

    The intermediate types have the quantization parameters of the gates before their
    activation (with layer normalization), and of the hidden state before its projection.

    Example:

    ```mlir
    %24 = "tfl.unidirectional_sequence_lstm"(%0, %1, %2, %3, %4, %5, %6, %7, %8, %none,
        %none, %none, %12, %13, %14, %15, %none, %none, %18, %19, %none, %none, %none,
        %none) <{
        fused_activation_function = "TANH", time_major = false
    }> : (tensor<1x9x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>,
        tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>,
        none, none, none, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>,
        none, none, tensor<1x4xf32>, tensor<1x4xf32>, none, none, none, none)
        -> tensor<1x9x4xf32>
    ```
    """

    name = "tfl.unidirectional_sequence_lstm"

    STATES: ClassVar = (18, 19)
    INTERMEDIATES: ClassVar = (
        "input_to_input_intermediate",
        "input_to_forget_intermediate",
        "input_to_cell_intermediate",
        "input_to_output_intermediate",
        "effective_hidden_scale_intermediate",
    )

    input = operand_def(_F32_QI8)
    input_to_input_weights = operand_def(_OPTIONAL_WEIGHTS)
    input_to_forget_weights = operand_def(_WEIGHTS)
    input_to_cell_weights = operand_def(_WEIGHTS)
    input_to_output_weights = operand_def(_WEIGHTS)
    recurrent_to_input_weights = operand_def(_OPTIONAL_WEIGHTS)
    recurrent_to_forget_weights = operand_def(_WEIGHTS)
    recurrent_to_cell_weights = operand_def(_WEIGHTS)
    recurrent_to_output_weights = operand_def(_WEIGHTS)
    cell_to_input_weights = operand_def(_PEEPHOLE)
    cell_to_forget_weights = operand_def(_PEEPHOLE)
    cell_to_output_weights = operand_def(_PEEPHOLE)
    input_gate_bias = operand_def(_F32_QI32)
    forget_gate_bias = operand_def(kinds.FLOAT)
    cell_bias = operand_def(kinds.FLOAT)
    output_gate_bias = operand_def(kinds.FLOAT)
    projection_weights = operand_def(_OPTIONAL_WEIGHTS)
    projection_bias = operand_def(_F32_QI32)
    input_activation_state = operand_def(kinds.STATE)
    input_cell_state = operand_def(kinds.STATE)
    input_layer_norm_coefficients = operand_def(_NORM)
    forget_layer_norm_coefficients = operand_def(_NORM)
    cell_layer_norm_coefficients = operand_def(_NORM)
    output_layer_norm_coefficients = operand_def(_NORM)
    asymmetric_quantize_inputs = opt_prop_def(props.BOOL)
    cell_clip = opt_prop_def(props.F32)
    diagonal_recurrent_tensors = opt_prop_def(props.BOOL)
    effective_hidden_scale_intermediate = opt_prop_def(props.TYPE)
    fused_activation_function = prop_def(props.ACTIVATION)
    input_to_cell_intermediate = opt_prop_def(props.TYPE)
    input_to_forget_intermediate = opt_prop_def(props.TYPE)
    input_to_input_intermediate = opt_prop_def(props.TYPE)
    input_to_output_intermediate = opt_prop_def(props.TYPE)
    proj_clip = opt_prop_def(props.F32)
    time_major = prop_def(props.BOOL)
    output = result_def(_F32_QI8)
    updated_states = var_result_def(kinds.variadic_of("any"))

    traits = traits_def(
        Requires(
            _peepholes_match,
            _COUPLING_MATCHES,
            _PROJECTION_MATCHES,
            result_has_operand_type(
                0, "the input and result tensor elemental types must be same"
            ),
            has_rank(0, 2, None, "operand 0 is at least 2-D"),
            *(require_rank(index, 2) for index in range(1, 5)),
            *(require_rank_at_most(index, 2) for index in range(5, 9)),
            *(require_rank(index, 1) for index in range(9, 16)),
            require_rank(16, 2),
            require_rank(17, 1),
        ),
        quant.MultipliesAndAccumulates(),
    )

    def inferred_types(self) -> Sequence[Attribute]:
        shape, state = shape_of(self.input), shape_of(self.input_activation_state)
        self.require(
            (shape is None or len(shape) == 3) and (state is None or len(state) == 2),
            "failed to infer returned types",
        )
        element_type = scalar_or_element_type(self.input.type)
        output = (
            UnrankedTensorType(element_type)
            if shape is None or state is None
            else TensorType(element_type, (*shape[:2], state[1]))
        )
        return (output, *(state.type for state in self.next_states))

    def verify_(self) -> None:
        RecurrentOp.verify_(self)
        InferredTypesOp.verify_(self)
