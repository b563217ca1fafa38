"""
Forms of lowered kernels: which part of the code only moves stored values, which part is
affine, and which part is elementwise.

The classification looks at ops, not at values, so it holds for all inputs. A value is

* `CONSTANT`, if it does not depend on the arguments;
* `MOVED`, if each element is an element of an argument, or constant;
* `AFFINE`, if each element is a sum of extended elements of arguments, multiplied by
  constants, modulo a power of two;
* `OTHER`, else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.runtime.entry_function import entry_function

from ..terms import UnsupportedError, int_width


class Kind(IntEnum):
    """Dependence of a value on the arguments, from simple to general."""

    CONSTANT = 0
    MOVED = 1
    AFFINE = 2
    OTHER = 3


CONSTANTS = frozenset(
    ("arith.constant", "tensor.empty", "tosa.const", "tosa.const_shape")
)

_MOVEMENT = frozenset(
    (
        *("quant.scast", "linalg.broadcast", "linalg.copy", "linalg.transpose"),
        *("tensor.cast", "tensor.collapse_shape", "tensor.concat", "tensor.pad"),
        *("tensor.expand_shape", "tensor.extract_slice", "tensor.insert_slice"),
        *("tensor.reshape", "linalg.fill", "tosa.concat", "tosa.identity", "tosa.pad"),
        *("tosa.reshape", "tosa.reverse", "tosa.slice", "tosa.tile", "tosa.transpose"),
    )
)
"""Ops whose result elements are elements of their operands."""

_OVERWRITING = frozenset(
    ("linalg.broadcast", "linalg.copy", "linalg.fill", "linalg.transpose")
)
"""Ops that write all elements of their last operand."""

_RESHAPES = frozenset(
    (
        *("quant.scast", "tensor.collapse_shape", "tensor.expand_shape"),
        *("tensor.reshape", "tosa.reshape"),
    )
)
"""Ops that keep the order of elements."""

_EXTENSIONS = frozenset(("arith.extsi", "arith.extui", "tosa.cast"))

_SUMS = frozenset(("arith.addi", "arith.subi", "tosa.add", "tosa.sub"))

_PRODUCTS = frozenset(("tosa.conv2d", "tosa.depthwise_conv2d"))

_ELEMENTWISE = frozenset(
    (
        *("quant.scast", "linalg.fill", "tosa.abs", "tosa.add", "tosa.cast"),
        *("tosa.clamp", "tosa.equal", "tosa.greater", "tosa.greater_equal"),
        *("tosa.arithmetic_right_shift", "tosa.maximum", "tosa.minimum", "tosa.mul"),
        *("tosa.intdiv", "tosa.negate", "tosa.rescale", "tosa.select", "tosa.sub"),
        *("tosa.table",),
    )
)
"""Ops other than `linalg.generic` that compute each element alone."""


@dataclass
class KernelForm:
    """Kinds of the values of a lowered function with one block."""

    function: FuncOp

    kinds: dict[SSAValue, Kind] = field(default_factory=dict[SSAValue, Kind])

    factors: set[SSAValue] = field(default_factory=set[SSAValue])
    """Constants by which elements of arguments are multiplied."""

    negations: set[SSAValue] = field(default_factory=set[SSAValue])
    """Differences whose subtrahend depends on the arguments."""

    undefined: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values with elements that may be undefined."""

    extensions: set[str] = field(default_factory=set[str])
    """Names of the ops that extend elements of arguments."""

    @classmethod
    def of(cls, module: ModuleOp) -> "KernelForm":
        """
        Classify the values of the entry function of a lowered module.

        Raises:
            UnsupportedError: if the function has several blocks or uses undefined elements.
        """
        function = entry_function(module)
        if len(function.body.blocks) != 1:
            raise UnsupportedError("the lowered kernel has branches")
        form = cls(function)
        form.kinds.update(dict.fromkeys(function.args, Kind.MOVED))
        for op in form.ops:
            kind = form._kind(op)
            form.kinds.update(dict.fromkeys(op.results, kind))
            form._propagate_undefined(op)
        return form

    @property
    def ops(self) -> Sequence[Operation]:
        """Ops of the function, without the terminator."""
        return [*self.function.body.block.ops][:-1]

    @property
    def results(self) -> Sequence[SSAValue]:
        """Results of the function, before reshapes that keep the last dimension."""
        last = self.function.body.block.last_op
        return [] if last is None else [*map(_without_reshape, last.operands)]

    def affine_start(self) -> SSAValue:
        """
        Return the first affine value of which the results are an elementwise function.

        Raises:
            UnsupportedError: if there is none.
        """
        reason = "its code has no affine part of which the results are a function"
        for op in self.ops:
            for value in op.results:
                if self.kinds[value] is not Kind.AFFINE or self.is_bypassed(value):
                    continue
                if (name := self.is_elementwise([value])) is None:
                    return value
                reason = f"its code has '{name}' after the affine part"
        raise UnsupportedError(reason)

    def is_bypassed(self, value: SSAValue) -> bool:
        """Return True if results depend on arguments in another way than by a value."""
        tail = {result for op in self.tail([value]) for result in op.results}
        used = {operand for op in self.tail([value]) for operand in op.operands}
        varying = {v for v in used if self.kinds[v] is not Kind.CONSTANT}
        return not varying <= tail | {value} or not {*self.results} <= tail | {value}

    def tail(self, start: Sequence[SSAValue]) -> Sequence[Operation]:
        """Return the ops from given values to the results, in order."""
        needed, pending = set[Operation](), [*self.results]
        while pending:
            value = pending.pop()
            owner = value.owner
            if value in start or not isinstance(owner, Operation) or owner in needed:
                continue
            needed.add(owner)
            pending += (v for op in owner.walk() for v in op.operands)
        return [op for op in self.ops if op in needed]

    def is_elementwise(
        self, start: Sequence[SSAValue], *, keeps_channels: bool = True
    ) -> str | None:
        """
        Return `None` if the tail from values is elementwise, or the op that is not.

        Args:
            start: the values.
            keeps_channels: False to allow reshapes that change the last dimension.
        """
        for op in self.tail(start):
            name = op_name(op)
            is_known = name in CONSTANTS or name in _ELEMENTWISE or is_reshape(op)
            if not keeps_channels:
                is_known = is_known or name in _RESHAPES or self._is_lookup(op)
            if is_known or all(self.kinds[v] is Kind.CONSTANT for v in op.results):
                continue
            if not isinstance(op, GenericOp) or not self._is_elementwise_generic(op):
                return name
        return None

    def has_broadcasts(self, count: int) -> bool:
        """Return True if a value that is not constant has another number of elements."""
        return any(
            self.kinds[value] is not Kind.CONSTANT
            and prod(shape_of(value.type)) != count
            for op in self.ops
            for value in op.results
        )

    def _is_lookup(self, op: Operation) -> bool:
        """Return True if an op reads a constant table of numbers at each index."""
        if op_name(op) != "tosa.gather":
            return False
        table = op.operands[0]
        batch, _, channels = shape_of(table.type)
        return self.kinds[table] is Kind.CONSTANT and batch == channels == 1

    def has_constants_of_pixels(self, start: SSAValue) -> bool:
        """Return True if constants of a tail may differ in another index than the last."""
        for op in self.tail([start]):
            if isinstance(op, GenericOp) or self.kinds[op.results[0]] is Kind.CONSTANT:
                continue
            for operand in op.operands:
                is_constant = self.kinds[operand] is Kind.CONSTANT
                if is_constant and {*shape_of(operand.type)[:-1]} - {1}:
                    elements = elements_of_constant(operand)
                    if not isinstance(elements, DenseIntOrFPElementsAttr):
                        return True
                    if len({*elements.get_values()}) > 1:
                        return True
        return False

    def _is_elementwise_generic(self, op: GenericOp) -> bool:
        if any(
            kind.data is not IteratorType.PARALLEL for kind in op.iterator_types.data
        ):
            return False
        inner_ops = [*op.body.block.ops]
        captured = {v for inner in inner_ops for v in inner.operands} & {*self.kinds}
        if any(self.kinds[value] is not Kind.CONSTANT for value in captured) or any(
            op_name(inner) == "linalg.index" or inner.regions for inner in inner_ops
        ):
            return False
        sizes = shape_of(op.outputs[0].type)
        last = len(sizes) - 1
        maps = [attribute.data for attribute in op.indexing_maps.data]
        # Code that writes to other places moves elements.
        if {*maps[len(op.inputs) :]} != {AffineMap.identity(last + 1)}:
            return False
        for operand, map_ in zip(op.operands, maps, strict=True):
            if self.kinds[operand] is not Kind.CONSTANT:
                is_known = _is_identity_map(map_, sizes, shape_of(operand.type))
            else:
                # Constants may differ between channels, not between pixels.
                used = map_.used_dims()
                is_known = (
                    operand in unused_operands(op)
                    or used <= {last}
                    or is_broadcast_constant(operand)
                    or is_splat(operand)
                )
            if not is_known:
                return False
        return True

    def _propagate_undefined(self, op: Operation) -> None:
        """Mark the results of an op that keeps undefined elements."""
        name = op_name(op)
        used = [value for value in op.operands if value in self.undefined]
        if name in _OVERWRITING:
            used = [value for value in used if value is not op.operands[-1]]
        elif isinstance(op, GenericOp):
            used = [*{*used} - unused_operands(op)]
        if name == "tensor.empty" or (used and name in _MOVEMENT):
            self.undefined.update(op.results)
        elif used:
            raise UnsupportedError(f"its code has '{name}' of undefined elements")

    def has_negation(self, value: SSAValue) -> bool:
        """Return True if an affine value is computed by a subtraction of elements."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return False
        differences = {r for op in owner.walk() for r in op.results} & self.negations
        return bool(differences) or any(map(self.has_negation, owner.operands))

    # Kinds

    def _kind(self, op: Operation) -> Kind:
        name = op_name(op)
        kinds = [self.kinds[operand] for operand in op.operands]
        if name in CONSTANTS:
            return Kind.CONSTANT
        if name in _MOVEMENT:
            return self._movement_kind(op, kinds)
        if isinstance(op, GenericOp):
            return self._generic_kind(op)
        if name in _PRODUCTS:
            return self._tosa_product_kind(op)
        if not op.regions and kinds and max(kinds) is Kind.CONSTANT:
            return Kind.CONSTANT
        if name in ("tosa.reduce_sum",):
            return Kind.AFFINE if kinds[0] is Kind.AFFINE else Kind.OTHER
        if name == "tosa.cast" and not _is_extension(op):
            return Kind.OTHER
        if name == "tosa.sub" and kinds[1] > Kind.CONSTANT:
            self.negations.update(op.results)
        return self._scalar_kind(name, kinds)

    def _scalar_kind(self, name: str, kinds: Sequence[Kind]) -> Kind:
        """Return the kind of an op on numbers, some of which are not constant."""
        kind = max(kinds, default=Kind.OTHER)
        if name in _MOVEMENT or name == "linalg.yield":
            return kind
        # Sums of narrow integers wrap before an extension, so only elements are extended.
        if name in _EXTENSIONS and kind is Kind.MOVED:
            self.extensions.add(name)
            return Kind.AFFINE
        if name in _SUMS and kind is not Kind.OTHER:
            return Kind.AFFINE
        return Kind.OTHER

    def _movement_kind(self, op: Operation, kinds: Sequence[Kind]) -> Kind:
        """Return the largest kind; `OTHER` if positions or padding are not constant."""
        inner = [
            o for region in op.regions for block in region.blocks for o in block.ops
        ]
        are_plain = all(
            op_name(o) in ("arith.constant", "tensor.yield", "linalg.yield")
            for o in inner
        )
        # Positions, and values of padding that are defined outside.
        fixed = [v for v in op.operands if isinstance(v.type, IndexType)]
        fixed += (v for o in inner for v in o.operands if v in self.kinds)
        if not are_plain or any(self.kinds[v] > Kind.CONSTANT for v in fixed):
            return Kind.OTHER
        return max(kinds, default=Kind.CONSTANT)

    def _tosa_product_kind(self, op: Operation) -> Kind:
        values, weights, *others = op.operands
        kinds = [self.kinds[value] for value in (weights, *others)]
        is_zero = _is_zero(others[-1])
        if self.kinds[values] is not Kind.MOVED or max(kinds) > 0 or not is_zero:
            return Kind.OTHER
        self.factors.add(weights)
        return Kind.AFFINE

    def _generic_kind(self, op: GenericOp) -> Kind:
        block = op.body.block
        kinds: dict[SSAValue, Kind] = {}
        operands: dict[SSAValue, SSAValue] = dict(
            zip(block.args, op.operands, strict=True)
        )
        for argument, operand in operands.items():
            kinds[argument] = self.kinds[operand]
        yielded = Kind.CONSTANT
        # An accumulator has the kind of its first value or that of the yielded one.
        for _ in Kind:
            for inner in block.ops:
                given = [
                    kinds.get(v, self.kinds.get(v, Kind.OTHER)) for v in inner.operands
                ]
                name = op_name(inner)
                if name == "arith.subi" and given[1] > Kind.CONSTANT:
                    self.negations.update(inner.results)
                # Such as `linalg.index`.
                if inner.regions or (not given and name not in CONSTANTS):
                    found = Kind.OTHER
                elif name == "arith.muli" and Kind.CONSTANT in given:
                    found = self._product_kind(inner, given, operands)
                elif max(given, default=Kind.CONSTANT) is Kind.CONSTANT:
                    found = Kind.CONSTANT
                else:
                    found = self._scalar_kind(name, given)
                kinds.update(dict.fromkeys(inner.results, found))
            last = block.last_op
            assert last is not None
            yielded = max(
                kinds.get(v, self.kinds.get(v, Kind.OTHER)) for v in last.operands
            )
            accumulators = block.args[len(op.inputs) :]
            if all(
                kinds[a] >= yielded or not a.uses.get_length() for a in accumulators
            ):
                break
            kinds.update(dict.fromkeys(accumulators, yielded))
        return yielded

    def _product_kind(
        self,
        op: Operation,
        kinds: Sequence[Kind],
        operands: Mapping[SSAValue, SSAValue],
    ) -> Kind:
        """Return the kind of a product by a constant, and remember the constant."""
        if max(kinds) is Kind.CONSTANT:
            return Kind.CONSTANT
        factor: SSAValue = op.operands[kinds.index(Kind.CONSTANT)]
        while isinstance(owner := factor.owner, Operation):
            if op_name(owner) not in _EXTENSIONS:
                return Kind.OTHER
            factor = owner.operands[0]
        if factor not in operands or max(kinds) is Kind.OTHER:
            return Kind.OTHER
        self.factors.add(operands[factor])
        return Kind.AFFINE


def _without_reshape(value: SSAValue) -> SSAValue:
    """Return the operand of final reshapes and storage casts."""
    while isinstance(owner := value.owner, Operation) and is_reshape(owner):
        value = owner.operands[0]
    return value


def is_reshape(op: Operation) -> bool:
    """Return True if an op keeps the order of elements and the last dimension."""
    if op_name(op) not in _RESHAPES:
        return False
    before, after = (shape_of(v.type)[-1:] for v in (op.operands[0], op.results[0]))
    return before == after


def _is_identity_map(
    map_: AffineMap, sizes: Sequence[int], shape: Sequence[int]
) -> bool:
    """
    Return True if a map is the identity, apart from dimensions of size 1.

    Args:
        map_: map of an operand.
        sizes: sizes of the loops.
        shape: shape of the operand.
    """
    rank = len(sizes)
    if tuple(shape[:rank]) != tuple(sizes) or not set(shape[rank:]) <= {1}:
        return False
    zero = AffineConstantExpr(0)
    return all(
        found in (wanted, zero) if size == 1 else found == wanted
        for found, wanted, size in zip(
            map_.results, identity_map(rank, len(shape)).results, shape, strict=True
        )
    )


def identity_map(rank: int, count: int) -> AffineMap:
    """Return the identity of `rank` loops, with zeros up to `count` results."""
    zeros = [AffineConstantExpr(0)] * (count - rank)
    return AffineMap(rank, 0, (*AffineMap.identity(rank).results, *zeros))


def elements_of_constant(value: SSAValue) -> Attribute | None:
    """Return the property with the elements of a constant, or `None`."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    return owner.properties.get("value", owner.properties.get("values"))


def is_broadcast_constant(value: SSAValue) -> bool:
    """Return True if elements of a constant differ in their last index only."""
    op = value.owner
    if isinstance(op, FillOp):
        return True
    if not isinstance(op, GenericOp) or any(
        inner.regions or op_name(inner) == "linalg.index" for inner in op.body.block.ops
    ):
        return False
    rank = len(op.iterator_types.data)
    *maps, result = (attribute.data for attribute in op.indexing_maps.data)
    return (
        len(op.outputs) == 1
        and all(kind.data is IteratorType.PARALLEL for kind in op.iterator_types.data)
        and not op.body.block.args[-1].uses.get_length()
        and all(
            map_.used_dims() <= {rank - 1} or is_splat(operand)
            for map_, operand in zip(maps, op.inputs, strict=True)
        )
        and result == AffineMap.identity(rank)
    )


def is_splat(value: SSAValue) -> bool:
    """Return True if all elements of a constant are known to be equal."""
    op = value.owner
    if isinstance(op, FillOp):
        return True
    if isinstance(op, GenericOp) and is_broadcast_constant(value):
        return all(map(is_splat, op.inputs))
    get_values = getattr(elements_of_constant(value), "get_values", None)
    return get_values is not None and len({*get_values()}) <= 1


def _is_extension(op: Operation) -> bool:
    """Return True if a cast of integers keeps all values and adds bits."""
    types = [scalar_or_element_type(v.type) for v in (op.operands[0], op.results[0])]
    if not all(isinstance(type_, IntegerType) for type_ in types):
        return False
    before, after = map(int_width, types)
    return before < after


def _is_zero(value: SSAValue) -> bool:
    found = elements_of_constant(value)
    is_known = isinstance(found, DenseIntOrFPElementsAttr)
    return is_known and not any(found.get_values())


def has_different_constants(form: KernelForm, start: Sequence[SSAValue]) -> bool:
    """Return True if constant operands of a tail may have different elements."""
    for op in form.tail(start):
        is_table = op_name(op) in ("tosa.gather", "tosa.table")
        if is_table or all(form.kinds[v] is Kind.CONSTANT for v in op.results):
            continue
        unused = unused_operands(op) if isinstance(op, GenericOp) else ()
        for operand in op.operands:
            if form.kinds[operand] is not Kind.CONSTANT or operand in unused:
                continue
            owner = operand.owner
            is_shape = (
                isinstance(owner, Operation) and op_name(owner) == "tosa.const_shape"
            )
            if not is_shape and not is_splat(operand):
                return True
    return False


def unused_operands(op: GenericOp) -> set[SSAValue]:
    """Return operands whose elements the body never uses, such as empty outputs."""
    pairs = [*zip(op.operands, op.body.block.args, strict=True)]
    used = {operand for operand, x in pairs if x.uses.get_length()}
    return {operand for operand, _ in pairs} - used
