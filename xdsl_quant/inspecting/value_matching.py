"""
Matching of the values of a float model and of a quantized model.

Values are matched by location name (tensor name in TensorFlow Lite files), else by
position: the n-th result of the ops with the same name and shape, if both models have
the same number of these ops, in the whole model or between two matched values. Ops of
different dialects match if they have the same kind. A contraction, its bias and its
activation match one fused op. Constants match if ops with the same name use them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TypeVar

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
        return tuple(argument for _, argument in sorted(numbers, key=lambda x: x[0]))

    @property
    def layers(self) -> Sequence[ModelValue]:
        return [value for value in self.values if value.is_layer]

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


def _signature_names(function: FuncOp, key: str) -> Sequence[str]:
    """Return the names of the arguments or results of a TensorFlow Lite model."""
    names = function.attributes.get("tf.entry_function")
    if not isinstance(names, DictionaryAttr):
        return []
    text = names.data.get(key)
    return text.data.split(",") if isinstance(text, StringAttr) else []


@dataclass(frozen=True)
class MatchedValue:
    """A value of the float model and its counterpart."""

    key: str
    """Key with which both values are recorded."""

    float_value: ModelValue
    quantized_value: ModelValue
    is_by_name: bool


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

    @staticmethod
    def of(float_model: ComparedModel, quantized: ComparedModel) -> ValueMatching:
        """Match the values of two models."""
        matching = ValueMatching(float_model, quantized)
        matching._match_names()
        matching._match_positions(_name_and_shape)
        matching._match_positions(_name_of_op)
        matching._match_fused_layers()
        matching._match_positions(_kind_and_shape)
        matching._match_constants()
        return matching

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
        self, value: ModelValue, other: ModelValue, *, is_by_name: bool = False
    ) -> bool:
        if (
            value.value in self.pairs
            or other.value in self.counterparts
            or value.is_constant != other.is_constant
            or not may_be_equal(value.shape, other.shape)
        ):
            return False
        key = f"{_VALUE}{len(self.pairs)}"
        self.pairs[value.value] = MatchedValue(key, value, other, is_by_name)
        self.counterparts[other.value] = value.value
        for each in (value, other):
            self.reasons.pop(each.value, None)
        return True

    def _match_names(self) -> None:
        by_name: dict[tuple[str, str] | None, ModelValue] = {}
        for value in self.quantized.values:
            # A tensor and its casts have the same location: take the first.
            by_name.setdefault(value.tensor_name, value)
        by_name.pop(None, None)
        for value in self.float_model.values:
            if (other := by_name.get(value.tensor_name)) is not None:
                self._match(value, other, is_by_name=True)

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
                continue
            if self._match(layer[-1], other[-1]):
                for value in chain(layer[:-1], other[:-1]):
                    if not self._is_matched(value):
                        self.reasons[value.value] = "fused in the other model"

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
                groups[value.place, kind_of(value.op), layer[-1].shape].append(layer)
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


_KINDS = MultipliesAndAccumulates, Adds, Subtracts, Multiplies, Divides
"""Traits of ops that have the same kind in all dialects."""


def kind_of(op: Operation) -> str:
    """Return a name that is common to the same ops of all dialects."""
    for trait_type in _KINDS:
        if has_quantization_trait(op, trait_type):
            return trait_type.__name__
    return op_name(op).rpartition(".")[2]


def _name_and_shape(value: ModelValue) -> Hashable:
    return op_name(value.op), value.shape


def _name_of_op(value: ModelValue) -> Hashable:
    return op_name(value.op)


def _kind_and_shape(value: ModelValue) -> Hashable:
    if has_quantization_trait(value.op, *_KINDS):
        # These ops may be fused with others.
        return None
    return kind_of(value.op), value.shape


_T = TypeVar("_T")


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
    """Yield the result of an op, and of the bias and the activations that follow."""
    result, is_bias = value.value, True
    yield result
    while len(uses := [*result.uses]) == 1:
        op = uses[0].operation
        others = [operand for operand in op.operands if operand is not result]
        if len(op.results) != 1 or not all(map(_depends_on_constants, others)):
            return
        is_sum = is_bias and bool(others) and has_quantization_trait(op, Adds)
        if is_sum or _is_activation(op):
            is_bias = False
            yield op.results[0]
        elif not _casts_quantization(op):
            return
        result = op.results[0]


def _is_activation(op: Operation) -> bool:
    return has_quantization_trait(op, Clamps) or (
        has_quantization_trait(op, OrdersElements)
        and has_quantization_trait(op, ComputesElementwise)
    )


def _have_equal_activations(
    layer: Sequence[ModelValue], other: Sequence[ModelValue]
) -> bool:
    """Return True if the activations of two layers are equal, or of other dialects."""
    dialects = {op_name(each[0].op).partition(".")[0] for each in (layer, other)}
    return len(dialects) > 1 or _activation_name(layer) == _activation_name(other)


def _activation_name(layer: Sequence[ModelValue]) -> str:
    if _is_activation(layer[-1].op):
        return kind_of(layer[-1].op)
    fused = layer[0].op.get_attr_or_prop("fused_activation_function")
    return fused.data.lower() if isinstance(fused, StringAttr) else "none"


def may_be_equal(shape: Sequence[int], other_shape: Sequence[int]) -> bool:
    """Return True if two shapes are equal, apart from dynamic sizes."""
    return len(shape) == len(other_shape) and all(
        a == b or min(a, b) < 0 for a, b in zip(shape, other_shape, strict=True)
    )


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
