"""Recurrent ops, which keep their states between calls of a model."""

import math
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
    region_def,
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
    static_shape_of,
    verified,
    without_blocks,
)

__all__ = [
    "LSTMOp",
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

    INTERMEDIATES: ClassVar[Sequence[Sequence[str]]] = ()
    """
    Properties with the types of intermediate tensors, in the order of files. Files have
    all of one sequence, or none.
    """

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
_STORED_BIAS = kinds.tensor_of("f32 QI32")
_WEIGHTS = kinds.tensor_of("f32 QI8")
_OPTIONAL_WEIGHTS = kinds.tensor_of_or_none("f32 QI8")
_PEEPHOLE = kinds.tensor_of_or_none("f32 QI8 QI16")
_NORM = kinds.tensor_of_or_none("f32 QI16")


class LSTMCellOp(RecurrentOp, ABC):
    """
    Base class of ops that compute steps of an LSTM, with their first operands. The next
    ones are the biases, which the ops verify differently, and `LSTMStatesOp`.

    Intermediate types have the quantization parameters of the gates before their
    activation (with layer normalization), and of the hidden state before its projection.
    """

    STATES: ClassVar = (18, 19)
    INTERMEDIATES: ClassVar = (
        (
            "input_to_input_intermediate",
            "input_to_forget_intermediate",
            "input_to_cell_intermediate",
            "input_to_output_intermediate",
            "effective_hidden_scale_intermediate",
        ),
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
    asymmetric_quantize_inputs = opt_prop_def(props.BOOL)
    cell_clip = opt_prop_def(props.F32)
    effective_hidden_scale_intermediate = opt_prop_def(props.TYPE)
    fused_activation_function = prop_def(props.ACTIVATION)
    input_to_cell_intermediate = opt_prop_def(props.TYPE)
    input_to_forget_intermediate = opt_prop_def(props.TYPE)
    input_to_input_intermediate = opt_prop_def(props.TYPE)
    input_to_output_intermediate = opt_prop_def(props.TYPE)
    proj_clip = opt_prop_def(props.F32)
    output = result_def(_F32_QI8)
    updated_states = var_result_def(kinds.variadic_of("any"))


class LSTMFloatBiasesOp(TFLOp, ABC):
    """Base class with the biases of `tfl.unidirectional_sequence_lstm`."""

    forget_gate_bias = operand_def(kinds.FLOAT)
    cell_bias = operand_def(kinds.FLOAT)
    output_gate_bias = operand_def(kinds.FLOAT)


class LSTMBiasesOp(TFLOp, ABC):
    """Base class with the biases of `tfl.lstm`."""

    forget_gate_bias = operand_def(_STORED_BIAS)
    cell_bias = operand_def(_STORED_BIAS)
    output_gate_bias = operand_def(_STORED_BIAS)


class LSTMStatesOp(TFLOp, ABC):
    """Base class with the last operands of ops that compute steps of an LSTM."""

    projection_weights = operand_def(_OPTIONAL_WEIGHTS)
    projection_bias = operand_def(_F32_QI32)
    input_activation_state = operand_def(kinds.STATE)
    input_cell_state = operand_def(kinds.STATE)
    input_layer_norm_coefficients = operand_def(_NORM)
    forget_layer_norm_coefficients = operand_def(_NORM)
    cell_layer_norm_coefficients = operand_def(_NORM)
    output_layer_norm_coefficients = operand_def(_NORM)


@irdl_op_definition
class UnidirectionalSequenceLSTMOp(
    LSTMCellOp, LSTMFloatBiasesOp, LSTMStatesOp, InferredTypesOp
):
    """
    Long short-term memory: a recurrent layer that processes the steps of a sequence.

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

    diagonal_recurrent_tensors = opt_prop_def(props.BOOL)
    time_major = prop_def(props.BOOL)

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


_INPUT_SHAPE = "the first input operand should have more than 2 dimensions."
_SIZES = "inputs don't match with the dimensions."
_COEFFICIENTS = (
    "coefficient inputs have more than 2 dimensions or don't match the dimension with "
    "input operand `input_to_output_weights`."
)


@irdl_op_definition
class LSTMOp(LSTMCellOp, LSTMBiasesOp, LSTMStatesOp):
    """
    One step of a long short-term memory.

    Files with 12 intermediate tensors, whose sums have 8 bits, state three types a gate:
    of the gate, of the product with the inputs, and of the product with the outputs of the
    step before. The real dialect has properties for 5 tensors only.

    Example:

    ```mlir
    %24 = "tfl.lstm"(%0, %1, %2, %3, %4, %5, %6, %7, %8, %none, %none, %none, %12, %13,
        %14, %15, %none, %none, %18, %19, %none, %none, %none, %none) <{
        fused_activation_function = "TANH", kernel_type = #tfl<lstm_kernel_type_attr FULL>
    }> ({
    }) : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>,
        tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>,
        none, none, none, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>,
        none, none, tensor<1x4xf32>, tensor<1x4xf32>, none, none, none, none)
        -> tensor<1x4xf32>
    ```
    """

    name = "tfl.lstm"

    PRODUCT_INTERMEDIATES: ClassVar = tuple(
        f"{part}_intermediate"
        for gate in ("input", "forget", "cell", "output")
        for part in (f"{gate}_gate", f"input_to_{gate}", f"recurrent_to_{gate}")
    )
    """Properties of ops whose sums have 8 bits."""

    INTERMEDIATES: ClassVar = (*LSTMCellOp.INTERMEDIATES, PRODUCT_INTERMEDIATES)

    cell_clip = opt_prop_def(props.NON_NEGATIVE_F32)
    proj_clip = opt_prop_def(props.NON_NEGATIVE_F32)
    kernel_type = opt_prop_def(props.LSTM_KERNEL)
    cell_gate_intermediate = opt_prop_def(props.TYPE)
    forget_gate_intermediate = opt_prop_def(props.TYPE)
    input_gate_intermediate = opt_prop_def(props.TYPE)
    output_gate_intermediate = opt_prop_def(props.TYPE)
    recurrent_to_cell_intermediate = opt_prop_def(props.TYPE)
    recurrent_to_forget_intermediate = opt_prop_def(props.TYPE)
    recurrent_to_input_intermediate = opt_prop_def(props.TYPE)
    recurrent_to_output_intermediate = opt_prop_def(props.TYPE)
    internal = region_def()

    traits = traits_def(
        Requires(
            _peepholes_match,
            _COUPLING_MATCHES,
            _PROJECTION_MATCHES,
            result_has_operand_type(
                0, "the input and result tensor elemental types must be same"
            ),
            *(require_rank(index, 2) for index in (2, 3, 5, 6, 7)),
            *(require_rank(index, 1) for index in range(9, 16)),
            require_rank(16, 2),
            require_rank(17, 1),
        ),
        quant.MultipliesAndAccumulates(),
    )

    def verify_(self) -> None:
        RecurrentOp.verify_(self)
        if (shape := static_shape_of(self.input)) is None:
            return
        self.require(len(shape) > 1, _INPUT_SHAPE)
        operands = (
            self.input_activation_state,
            self.input_cell_state,
            self.input_to_output_weights,
            self.recurrent_to_output_weights,
        )
        found = map(static_shape_of, operands)
        shapes = [s for s in found if s is not None]
        if len(shapes) < len(operands):
            return
        outputs, cells, weights, recurrent = shapes
        self.require(min(len(weights), len(recurrent)) >= 2, _SIZES)
        batch = shape[0 if len(shape) == 2 else 1]
        self.require(
            math.prod(outputs) == batch * recurrent[1]
            and math.prod(cells) == batch * weights[0]
            and (weights[1], recurrent[0]) == (shape[-1], weights[0]),
            _SIZES,
        )
        if not _is_absent(self, 21):
            self.require(
                shape_of(self.forget_layer_norm_coefficients) == (weights[0],),
                _COEFFICIENTS,
            )
