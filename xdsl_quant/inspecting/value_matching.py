"""
Matching of the values of a float model and of a quantized model.

Values are matched by location name (tensor name in TensorFlow Lite files), else by
position: the n-th result of the ops with the same name and shape, if both models have
the same number of these ops, in the whole model or between two matched values. Ops of
different dialects match if they have the same kind. A contraction, its bias and its
activation match one fused op: the n-th kernel of the same kind, size and weight size.
Constants match if ops with the same name use them.

Models may have other layouts of channels (NCHW and NHWC). Values whose shape does not
tell their layout are then not matched, nor those after a reshape that mixes channels
and positions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import prod
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NameLoc,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from xdsl_quant.diagnostics import op_name, shortened_text
from xdsl_quant.dialects.quant.traits import (
    Adds,
    CastsQuantization,
    Clamps,
    ComputesElementwise,
    Divides,
    MovesElements,
    Multiplies,
    MultipliesAndAccumulates,
    OrdersElements,
    Reduces,
    Subtracts,
    has_quantization_trait,
)
from xdsl_quant.quantizer.recording import represents_floats
from xdsl_quant.quantizer.results import Model, QuantizedModel, module_of
from xdsl_quant.runtime.arrays import constant_attr, shape_of
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple
from xdsl_quant.runtime.entry_function import entry_function, ops_in_execution_order
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    candidates,
    is_tensor_with_values,
)

from .layouts import (
    are_in_other_layouts,
    have_ambiguous_layout,
    in_layout,
    layout_key,
    may_be_equal,
    moved_channels,
)


@dataclass(frozen=True)
class ModelValue:
    """A float or quantized tensor that an op of a model returns."""

    value: SSAValue
    function: str
    """Name of the function; empty for the entry function."""

    statistics_key: str
    """Key from `quant-insert-stats-refs`."""

    @property
    def op(self) -> Operation:
        owner = self.value.owner
        assert isinstance(owner, Operation)
        return owner

    @cached_property
    def is_constant(self) -> bool:
        return constant_attr(self.value) is not None

    @cached_property
    def depends_on_constants(self) -> bool:
        return _depends_on_constants(self.value)

    @property
    def is_layer(self) -> bool:
        """True for activations, except those of casts."""
        return not self.depends_on_constants and not _casts_quantization(self.op)

    @property
    def tensor_name(self) -> tuple[str, str] | None:
        if isinstance(location := self.op.location, NameLoc):
            return self.function, location.desc.data
        return None

    @property
    def name(self) -> str:
        """Location name or, without one, the statistics key."""
        name = self.tensor_name
        return self.statistics_key if name is None else name[1]

    @property
    def place(self) -> tuple[str, int]:
        """Function and result number."""
        assert isinstance(self.value, OpResult)
        return self.function, self.value.index

    @property
    def shape(self) -> tuple[int, ...]:
        return (*shape_of(self.value.type),)

    @property
    def description(self) -> str:
        """Op name and shape."""
        sizes = "x".join("?" if size < 0 else str(size) for size in self.shape)
        return f"'{op_name(self.op)}' of shape {sizes or 'scalar'}"


class ComparedModel:
    """A model and its values in execution order."""

    def __init__(self, given: Model | QuantizedModel, entry: str | None):
        self.module = module_of(given)
        self.function = entry_function(self.module, entry)
        signature = self.function.function_type
        self.argument_types: Sequence[Attribute] = signature.inputs.data
        self.result_types: Sequence[Attribute] = signature.outputs.data
        self.argument_order: Sequence[int] = range(len(self.argument_types))
        self.result_order: Sequence[int] = range(len(self.result_types))
        self.values = [*self._values()]
        self.by_value = {value.value: value for value in self.values}

    def order_like(self, other: ComparedModel) -> None:
        """Order arguments and results like those of another model with the same names."""
        self.argument_order = self._order("inputs", other)
        self.result_order = self._order("outputs", other)
        self.argument_types = [self.argument_types[n] for n in self.argument_order]
        self.result_types = [self.result_types[n] for n in self.result_order]

    def _order(self, key: str, other: ComparedModel) -> Sequence[int]:
        names, expected = (
            _signature_names(model.function, key) for model in (self, other)
        )
        order = self.argument_order if key == "inputs" else self.result_order
        if sorted(names) == sorted(expected) and len({*names}) == len(order):
            return [names.index(name) for name in expected]
        return order

    def in_own_order(self, batch: Batch) -> Arguments:
        """Return arguments in the order of the model's function."""
        arguments = as_tuple(batch)
        if len(arguments) != len(self.argument_order):
            # Let the call of the function raise the error.
            return arguments
        numbers = zip(self.argument_order, arguments, strict=True)
        ordered = [value for _, value in sorted(numbers, key=lambda x: x[0])]
        types = self.function.function_type.inputs.data
        return tuple(map(_in_layout_of_type, ordered, types))

    @property
    def layers(self) -> Sequence[ModelValue]:
        return [value for value in self.values if value.is_layer]

    @cached_property
    def mixed_values(self) -> frozenset[SSAValue]:
        """Values after a reshape of channels and positions, up to the next kernel."""
        mixed = set[SSAValue]()
        for op in ops_in_execution_order(self.module, self.function):
            if has_quantization_trait(op, MultipliesAndAccumulates, Reduces):
                continue
            if not mixed.isdisjoint(op.operands) or _mixes_channels(op):
                mixed |= {*op.results}
        return frozenset(mixed)

    def _values(self) -> Iterator[ModelValue]:
        ops = ops_in_execution_order(self.module, self.function)
        order: dict[Operation | Block, int] = {
            op: number for number, op in enumerate(ops)
        }
        entry = self.function.sym_name.data
        known = (each for each in candidates(self.module) if each.value.owner in order)
        for candidate in sorted(known, key=lambda each: order[each.value.owner]):
            value, symbol = candidate.value, candidate.symbol or ""
            if (
                represents_floats(value.type)
                and isinstance(value.type, TensorType)
                and is_tensor_with_values(candidate)
            ):
                function = "" if symbol == entry else symbol
                yield ModelValue(value, function, candidate.key)


def _in_layout_of_type(argument: ArrayLike, type_: Attribute) -> ArrayLike:
    """Transpose an argument of a model with another layout of channels."""
    shape, expected = np.shape(argument), [-1, *[*shape_of(type_)][1:]]
    if len(shape) != len(expected) or may_be_equal(shape, expected):
        return argument
    moved = in_layout(argument, expected)
    # Let the call of the function raise an error.
    return argument if moved is None else moved


def _signature_names(function: FuncOp, key: str) -> Sequence[str]:
    """Return the names of the arguments or results of a TensorFlow Lite model."""
    names = function.attributes.get("tf.entry_function")
    if not isinstance(names, DictionaryAttr):
        return []
    text = names.data.get(key)
    return text.data.split(",") if isinstance(text, StringAttr) else []


Match: TypeAlias = Literal["name", "position", "kernel order"]
"""Way in which two values were matched."""


@dataclass(frozen=True)
class MatchedValue:
    """A value of the float model and its counterpart."""

    key: str
    """Key with which both values are recorded."""

    float_value: ModelValue
    quantized_value: ModelValue
    match: Match

    @property
    def is_transposed(self) -> bool:
        """True if the models have other layouts of channels."""
        return are_in_other_layouts(self.quantized_value.shape, self.float_value.shape)


@dataclass(frozen=True)
class UnmatchedLayer:
    """A layer of one model without a counterpart in the other."""

    model: str
    """`float` or `quantized`."""

    name: str
    """Location name of the value, or its statistics key."""

    op: str

    reason: str


_VALUE = "value:"
"""Prefix of the key of a matched value."""

_Key = Callable[[ModelValue], Hashable]


@dataclass
class ValueMatching:
    """Matched values of two models."""

    float_model: ComparedModel
    quantized: ComparedModel
    pairs: dict[SSAValue, MatchedValue] = field(
        default_factory=dict[SSAValue, MatchedValue]
    )
    """Matched values by value of the float model."""

    counterparts: dict[SSAValue, SSAValue] = field(
        default_factory=dict[SSAValue, SSAValue]
    )
    """Values of the float model by matched value of the quantized model."""

    reasons: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """Known reasons why values of either model are not matched."""

    have_other_layouts: bool = False
    """True if the models have other layouts of channels."""

    @staticmethod
    def of(float_model: ComparedModel, quantized: ComparedModel) -> ValueMatching:
        """Match the values of two models."""
        matching = ValueMatching(float_model, quantized)
        types = float_model.argument_types, quantized.argument_types
        matching.have_other_layouts = any(
            are_in_other_layouts(*map(shape_of, each))
            for each in zip(*types, strict=True)
        )
        matching._match_all()
        pairs = matching.pairs.values()
        if not matching.have_other_layouts and any(p.is_transposed for p in pairs):
            matching = ValueMatching(float_model, quantized, have_other_layouts=True)
            matching._match_all()
        return matching

    def _match_all(self) -> None:
        self._match_names()
        self._match_positions(_name_and_shape)
        self._match_positions(_name_of_op)
        self._match_fused_layers()
        self._match_positions(_kind_and_shape)
        self._match_constants()

    def in_order(self) -> Sequence[MatchedValue]:
        """Return the matched values in the execution order of the float model."""
        values = (value.value for value in self.float_model.values)
        return [self.pairs[value] for value in values if value in self.pairs]

    def unmatched_counts(self, model: ComparedModel) -> Mapping[str, int]:
        """Return the number of unmatched values of a model by op name."""
        return dict(Counter(op_name(value.op) for value in self._unmatched(model)))

    def unmatched_layers(self) -> Iterator[UnmatchedLayer]:
        """Yield the unmatched layers of both models with reasons."""
        models = (self.float_model, "float"), (self.quantized, "quantized")
        counts = [Counter(map(_name_and_shape, model.layers)) for model, _ in models]
        for number, (model, name) in enumerate(models):
            _, other_name = models[1 - number]
            for layer in self._unmatched(model):
                if not layer.is_layer:
                    continue
                key = _name_and_shape(layer)
                found, others = counts[number][key], counts[1 - number][key]
                reason = self.reasons.get(layer.value) or (
                    f"{found} {layer.description}, {others or 'none'} in the "
                    f"{other_name} model"
                )
                yield UnmatchedLayer(name, layer.name, op_name(layer.op), reason)

    def _unmatched(self, model: ComparedModel) -> Iterator[ModelValue]:
        return (value for value in model.values if not self._is_matched(value))

    def _match(
        self, value: ModelValue, other: ModelValue, match: Match = "position"
    ) -> bool:
        if (
            value.value in self.pairs
            or other.value in self.counterparts
            or value.is_constant != other.is_constant
            or not self._have_equal_elements(value, other)
        ):
            return False
        key = f"{_VALUE}{len(self.pairs)}"
        self.pairs[value.value] = MatchedValue(key, value, other, match)
        self.counterparts[other.value] = value.value
        for each in (value, other):
            self.reasons.pop(each.value, None)
        return True

    def _have_equal_elements(self, value: ModelValue, other: ModelValue) -> bool:
        """Return True if two values have the same elements in a known order."""
        if value.is_constant:
            return may_be_equal(value.shape, other.shape)
        if moved_channels(other.shape, value.shape) is None:
            return False
        if not self.have_other_layouts:
            return True
        mixed = value.value in self.float_model.mixed_values
        if mixed or other.value in self.quantized.mixed_values:
            reason = "the order of elements differs after a reshape"
        elif have_ambiguous_layout(value.shape, other.shape):
            reason = "the shape does not tell the layout of channels"
        else:
            return True
        self.reasons[value.value] = self.reasons[other.value] = reason
        return False

    def _match_names(self) -> None:
        named, others = (_named_values(m) for m in (self.float_model, self.quantized))
        for key, value in named.items():
            if (other := others.get(key)) is not None:
                self._match(value, other, "name")

    def _match_positions(self, key: _Key) -> None:
        """
        Match the n-th values with the same key, if both models have equally many; then
        those between two matched values.
        """
        for is_segmented in (False, True):
            groups, others = (
                self._groups(model, key, is_segmented=is_segmented)
                for model in (self.float_model, self.quantized)
            )
            for value, other in _pairs_of_equal_groups(groups, others):
                difference = _attribute_difference(value.op, other.op)
                if _terms(value) != _terms(other):
                    difference = _OTHER_TERMS
                if difference is None:
                    self._match(value, other)
                else:
                    self.reasons[value.value] = self.reasons[other.value] = difference

    def _groups(
        self, model: ComparedModel, key: _Key, *, is_segmented: bool
    ) -> Mapping[Hashable, Sequence[ModelValue]]:
        groups = defaultdict[Hashable, list[ModelValue]](list)
        segment = None
        for value in model.values:
            if value.is_constant:
                continue
            if self._is_matched(value):
                if is_segmented:
                    segment = self.counterparts.get(value.value, value.value)
                continue
            if (name := key(value)) is not None:
                groups[segment, value.place, name].append(value)
        return groups

    def _match_fused_layers(self) -> None:
        """Match ops with a bias and an activation of their own with fused ops."""
        groups, others = map(self._fused_layers, (self.float_model, self.quantized))
        for layer, other in _pairs_of_equal_groups(groups, others):
            if not _have_equal_activations(layer, other):
                if op_name(layer[0].op) != op_name(other[0].op):
                    self.reasons[layer[-1].value] = _OTHER_ACTIVATION
                    self.reasons[other[-1].value] = _OTHER_ACTIVATION
                continue
            if len(layer) != len(other):
                for value in chain(layer[:-1], other[:-1]):
                    self.reasons[value.value] = "fused in the other model"
                layer, other = layer[-1:], other[-1:]
            for pair in zip(layer, other, strict=True):
                self._match(*pair, "kernel order")

    def _fused_layers(
        self, model: ComparedModel
    ) -> Mapping[Hashable, Sequence[Sequence[ModelValue]]]:
        groups = defaultdict[Hashable, list[Sequence[ModelValue]]](list)
        known = set[SSAValue]()
        for value in model.layers:
            if value.value in known or not has_quantization_trait(value.op, *_KINDS):
                continue
            layer = [
                model.by_value[result]
                for result in _fused_results(value)
                if result in model.by_value
            ]
            known |= {each.value for each in layer}
            if not self._is_matched(layer[-1]):
                key = kind_of(value.op), layout_key(layer[-1].shape)
                groups[value.place, key, weight_key(value.op)].append(layer)
        return groups

    def _is_matched(self, value: ModelValue) -> bool:
        return value.value in self.pairs or value.value in self.counterparts

    def _match_constants(self) -> None:
        for pair in [*self.pairs.values()]:
            ops = pair.float_value.op, pair.quantized_value.op
            if op_name(ops[0]) != op_name(ops[1]):
                continue
            for operands in zip(*(op.operands for op in ops), strict=False):
                values = [
                    model.by_value.get(uncast(operand))
                    for model, operand in zip(
                        (self.float_model, self.quantized), operands, strict=True
                    )
                ]
                if values[0] is None or values[1] is None:
                    continue
                if values[0].is_constant:
                    self._match(values[0], values[1])


_OTHER_ACTIVATION = "another activation in the other model"
_OTHER_TERMS = "another bias or factor, which may be folded, in the other model"

_TERMS = Adds, Subtracts, Multiplies, Divides
_KINDS = MultipliesAndAccumulates, *_TERMS
"""Traits of ops that have the same kind in all dialects."""


def _named_values(model: ComparedModel) -> Mapping[Hashable, ModelValue]:
    """
    Return the value of each name. All ops of a node have the name of its result, and so
    do casts of this result: take the last value that no cast returns.
    """
    named: dict[Hashable, ModelValue] = {}
    for value in model.values:
        if value.tensor_name is None:
            continue
        key = value.tensor_name, value.depends_on_constants, value.place
        if value.is_layer or key not in named:
            named[key] = value
    return named


def kind_of(op: Operation) -> str:
    """Return a name that is common to the same ops of all dialects."""
    for trait_type in _KINDS:
        if has_quantization_trait(op, trait_type):
            return trait_type.__name__
    name = op_name(op).rpartition(".")[2]
    is_maximum = name == "reduce_window" and any(
        inner.name.endswith(".maximum") for inner in op.walk()
    )
    return "max_pool_2d" if is_maximum else name


def _name_and_shape(value: ModelValue) -> Hashable:
    return op_name(value.op), value.shape


def _name_of_op(value: ModelValue) -> Hashable:
    return op_name(value.op)


def _kind_and_shape(value: ModelValue) -> Hashable:
    if has_quantization_trait(value.op, *_KINDS):
        # These ops may be fused with others.
        return None
    return kind_of(value.op), layout_key(value.shape)


_T = TypeVar("_T")


def weight_key(op: Operation) -> Hashable:
    """Return a key that is equal for constant operands of an op in any layout."""
    shapes = (
        tuple(sorted(size for size in shape_of(operand.type) if size != 1))
        for operand in op.operands
        if has_quantization_trait(op, MultipliesAndAccumulates)
        and _depends_on_constants(operand)
    )
    return max(shapes, key=prod, default=())


def _pairs_of_equal_groups(
    groups: Mapping[Hashable, Sequence[_T]], others: Mapping[Hashable, Sequence[_T]]
) -> Iterator[tuple[_T, _T]]:
    for key, values in groups.items():
        if len(values) == len(others.get(key, ())):
            yield from zip(values, others[key], strict=True)


def _casts_quantization(op: Operation) -> bool:
    return has_quantization_trait(op, CastsQuantization)


def uncast(value: SSAValue) -> SSAValue:
    """Return the operand of the casts that compute a value."""
    while isinstance(op := value.owner, Operation) and _casts_quantization(op):
        value = op.operands[0]
    return value


def _depends_on_constants(value: SSAValue) -> bool:
    """Return True for constants, also after casts and broadcasts."""
    while isinstance(op := value.owner, Operation) and has_quantization_trait(
        op, CastsQuantization, MovesElements
    ):
        value = op.operands[0]
    return constant_attr(value) is not None


def _fused_results(value: ModelValue) -> Iterator[SSAValue]:
    """
    Yield the result of an op, of the factors and biases that follow, such as those of a
    batch norm, and of the activations after them.
    """
    result, is_affine = value.value, True
    yield result
    while len(uses := [*result.uses]) == 1:
        op = uses[0].operation
        others = [operand for operand in op.operands if operand is not result]
        if len(op.results) != 1 or not all(map(_depends_on_constants, others)):
            return
        is_term = is_affine and bool(others) and has_quantization_trait(op, *_TERMS)
        if is_term or _is_activation(op):
            is_affine = is_term
            yield op.results[0]
        elif not _casts_quantization(op):
            return
        result = op.results[0]


def _terms(value: ModelValue) -> Sequence[str]:
    """Return the kinds of the factors and biases that follow a contraction."""
    if not has_quantization_trait(value.op, MultipliesAndAccumulates):
        return ()
    owners = (result.owner for result in _fused_results(value))
    ops = (op for op in owners if has_quantization_trait(op, *_TERMS))
    return [kind_of(op) for op in ops if isinstance(op, Operation)]


def _mixes_channels(op: Operation) -> bool:
    """Return True for reshapes of more than one dimension besides the batch."""
    if not has_quantization_trait(op, MovesElements) or not op.operands:
        return False
    sizes, others = (
        [size for size in shape_of(value.type)[1:] if size != 1]
        for value in (op.operands[0], op.results[0])
    )
    return len(sizes) > 1 and len(sizes) != len(others)


def _is_activation(op: Operation) -> bool:
    return has_quantization_trait(op, Clamps) or (
        has_quantization_trait(op, OrdersElements)
        and has_quantization_trait(op, ComputesElementwise)
    )


def _have_equal_activations(
    layer: Sequence[ModelValue], other: Sequence[ModelValue]
) -> bool:
    """
    Return True if the activations of two layers are equal. In other dialects, the range
    of the quantized layer may replace the activation, but not add one.
    """
    names = _activation_name(layer), _activation_name(other)
    dialects = {op_name(each[0].op).partition(".")[0] for each in (layer, other)}
    if len(dialects) > 1:
        return names[0] != "none" or names[1] == "none"
    return names[0] == names[1]


def _activation_name(layer: Sequence[ModelValue]) -> str:
    if _is_activation(layer[-1].op):
        return kind_of(layer[-1].op)
    fused = layer[0].op.get_attr_or_prop("fused_activation_function")
    return fused.data.lower() if isinstance(fused, StringAttr) else "none"


_COMPARED_ATTRIBUTES = (StringAttr, IntegerAttr, FloatAttr, ArrayAttr, DenseArrayBase)
"""Attribute classes to compare: without types and elements, which quantization changes."""


def _is_compared(attribute: Attribute) -> bool:
    return isinstance(attribute, _COMPARED_ATTRIBUTES)


def _attribute_difference(float_op: Operation, quantized_op: Operation) -> str | None:
    """Return a text with the first attribute that both ops have and that differs."""
    if op_name(float_op) != op_name(quantized_op):
        return None
    for name, value in (float_op.properties | float_op.attributes).items():
        other = quantized_op.get_attr_or_prop(name)
        if _is_compared(value) and other is not None and other != value:
            texts = [shortened_text(str(each)) for each in (value, other)]
            return f"'{name}' is {texts[0]} in the float model, else {texts[1]}"
    return None
