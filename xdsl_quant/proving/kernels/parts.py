"""Parts of lowered kernels, as functions that can be compiled."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i1,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.runtime.arrays import elements_attr, numpy_dtype, shape_of

from ..terms import UnsupportedError
from .forms import (
    CONSTANTS,
    KernelForm,
    Kind,
    identity_map,
    is_reshape,
)


def affine_part(form: KernelForm, value: SSAValue, *, has_factors: bool) -> ModuleOp:
    """
    Return a function that returns a value of a kernel.

    Args:
        form: form of the kernel.
        value: an affine value.
        has_factors: False to replace all factors by 1.

    Raises:
        UnsupportedError: if a factor is not a constant of integers.
    """
    ops = form.ops
    numbers = {op: index for index, op in enumerate(ops)}
    owner = value.owner
    assert isinstance(owner, Operation)
    assert isinstance(value, OpResult)
    function = form.function.clone()
    copies = [*function.body.block.ops]
    last = copies[-1]
    result = copies[numbers[owner]].results[value.index]
    if not has_factors:
        for factor in form.factors:
            op = factor.owner
            assert isinstance(op, Operation)
            assert isinstance(factor, OpResult)
            ones = ConstantOp(_ones(factor.type))
            function.body.block.insert_op_before(ones, copies[0])
            copies[numbers[op]].results[factor.index].replace_all_uses_with(ones.result)
    last.operands = [result]
    for op in reversed(copies[:-1]):
        if not any(use for r in op.results for use in r.uses):
            op.detach()
            op.erase()
    drop_attributes(function)
    return ModuleOp([function])


def _ones(type_: Attribute) -> DenseIntOrFPElementsAttr:
    element = scalar_or_element_type(type_)
    # A single bit may be extended to -1.
    if not isinstance(element, IntegerType) or element == i1:
        raise UnsupportedError(f"factors have type '{type_}'")
    ones = np.ones(shape_of(type_), numpy_dtype(type_))
    return elements_attr(ones, cast(Attribute, element))


def drop_attributes(function: FuncOp) -> None:
    """Drop attributes of a function, and update its type."""
    for name in ("res_attrs", "arg_attrs", "tf.entry_function"):
        function.properties.pop(name, None)
        function.attributes.pop(name, None)
    function.update_function_type()


def elementwise_part(form: KernelForm, start: SSAValue, rows: int) -> ModuleOp:
    """
    Return a function from an affine value to the result of a kernel, for other sizes.

    Args:
        form: form of the kernel, whose tail from `start` is elementwise.
        start: an affine value, with channels along its last dimension.
        rows: number of elements of each channel.

    Raises:
        UnsupportedError: if a constant has the shape of the value.
    """
    shape, own = shape_of(form.results[0].type), shape_of(start.type)
    resizing = _Resizing(shape if own[: len(shape)] == shape else own, rows)
    block = Block(arg_types=[resizing.type_of(start.type)])
    values: dict[SSAValue, SSAValue] = {start: block.args[0]}
    tail = form.tail([start])
    # Other constants, such as weights, may have the same shape as results.
    resized = {v for v, kind in form.kinds.items() if kind is not Kind.CONSTANT}
    for op in reversed(tail):
        if resized.intersection(op.results):
            same = {v for v in op.operands if resizing.type_of(v.type) == v.type}
            resized.update({*op.operands} - same)
    for op in tail:
        if is_reshape(op) and op_name(op) != "quant.scast":
            values[op.results[0]] = values[op.operands[0]]
        elif resized.isdisjoint(op.results):
            block.add_op(op.clone(value_mapper=values))
        else:
            block.add_op(_resized_copy(form, op, resizing, values))
    return function_of(block, [values[result] for result in form.results])


def tail_part(form: KernelForm, start: SSAValue) -> ModuleOp:
    """Return a function from a value of a kernel to its results."""
    block = Block(arg_types=[start.type])
    values: dict[SSAValue, SSAValue] = {start: block.args[0]}
    for op in form.tail([start]):
        block.add_op(op.clone(value_mapper=values))
    return function_of(block, [values[result] for result in form.results])


def function_of(block: Block, results: Sequence[SSAValue]) -> ModuleOp:
    """Return a module with a function that returns values of a block."""
    block.add_op(ReturnOp(*results))
    types = [value.type for value in results]
    function = FuncOp("kernel", ([*block.arg_types], types), Region(block))
    return ModuleOp([function])


class _Resizing(NamedTuple):
    """Change of the number of pixels of values."""

    shape: tuple[int, ...]
    """Shape of values with pixels, to which dimensions of size 1 may be added."""

    rows: int

    def type_of(self, type_: Attribute) -> Attribute:
        """Return the resized type, or the same type for other shapes."""
        shape, rank = shape_of(type_), len(self.shape)
        if not shape or shape[:rank] != self.shape or not {*shape[rank:]} <= {1}:
            return type_
        sizes = (*[1] * (rank - 2), self.rows, self.shape[-1])[-rank:]
        if rank == 1:
            sizes = (self.rows,)
        return TensorType(scalar_or_element_type(type_), (*sizes, *shape[rank:]))


def _resized_copy(
    form: KernelForm,
    op: Operation,
    resizing: _Resizing,
    values: dict[SSAValue, SSAValue],
) -> Operation:
    """Return a copy of an op with resized results, which are added to the values."""
    is_constant = op_name(op) in CONSTANTS and op_name(op) != "tensor.empty"
    copy = op.clone(value_mapper=values)
    varying = [v for v in op.operands if form.kinds[v] is not Kind.CONSTANT]
    for old, new in zip(op.results, copy.results, strict=True):
        type_ = resizing.type_of(old.type)
        if is_constant and type_ != old.type:
            raise UnsupportedError("a constant has the shape of the result")
        if varying and op_name(op).startswith("tosa."):
            # A reshape before the op may have been left out.
            shape = shape_of(values[varying[0]].type)
            type_ = TensorType(scalar_or_element_type(type_), shape)
        new._type = type_  # pyright: ignore[reportPrivateUsage] as xDSL's rewriter does
        values[old] = new
    is_resized = [*op.result_types] != [*copy.result_types] or bool(varying)
    if is_resized and isinstance(op, GenericOp) and isinstance(copy, GenericOp):
        copy.properties["indexing_maps"] = _resized_maps(form, op)
    return copy


def _resized_maps(form: KernelForm, op: GenericOp) -> ArrayAttr[AffineMapAttr]:
    """Return maps that are identities, where dimensions of size 1 may have been 0."""
    rank = len(op.iterator_types.data)
    return ArrayAttr(
        attribute
        if form.kinds[operand] is Kind.CONSTANT and operand not in op.outputs
        else AffineMapAttr(identity_map(rank, len(shape_of(operand.type))))
        for operand, attribute in zip(op.operands, op.indexing_maps.data, strict=True)
    )
