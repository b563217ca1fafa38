"""
Integer form of elementwise ops with one operand of up to 8 bits: a table with the results
of all stored values, computed with floats as the specification of StableHLO defines them.
"""

from functools import lru_cache
from typing import TypeAlias, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    ModuleOp,
    TensorType,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.traits import ComputesElementwise, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.arrays import integer_dtype
from xdsl_quant.transforms.building.builder import LoweringBuilder, dimensions
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass

from ..convert_stablehlo_to_linalg import ConvertStableHLOToLinalgPass
from ..linalg.elementwise import FORMULAS
from ..stablehlo_casts_to_quant import StablehloCastsToQuantPass
from ..stablehlo_legalize_quantized_op_to_qdq import decompose
from .elementwise import (
    Form,
    IntegerPattern,
    Values,
    quantized_type_of,
    scaled_tensors,
    storage_of,
)

_Entries: TypeAlias = tuple[tuple[str, Attribute], ...]

_LARGEST_WIDTH = 8
"""Largest width of stored values that are indices of a table, in bits."""


class TableToIntegers(IntegerPattern):
    """
    Replace elementwise ops that have one operand, of up to 8 bits with one scale, by
    lookups in a table of their results.
    """

    def form(self, op: Operation) -> Form | None:
        # Another package lowers its own ops.
        is_elementwise = has_quantization_trait(op, ComputesElementwise)
        if not is_elementwise or op_name(op) not in FORMULAS or len(op.operands) != 1:
            return None
        (operand,), (result,) = op.operand_types, op.result_types
        source = quantized_type_of(operand)
        if source is None or source.storage_type_integral_width > _LARGEST_WIDTH:
            return None
        # Refuses types without scales.
        types = [type_ for type_ in (operand, result) if quantized_type_of(type_)]
        tensors = scaled_tensors(types) or ()
        if not all(each.quantized_type.is_per_tensor for each in tensors):
            return None
        table, type_ = _table(op), storage_of(result)

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            entries = builder.constant(table, table.type)
            places = dimensions(range(len(type_.get_shape())))

            def entry(body: LoweringBuilder, arguments: Values) -> SSAValue:
                index = _index(body, arguments[0], source)
                return body.add(tensor.ExtractOp(entries, [index], type_.element_type))

            sizes = builder.sizes(stored[0])
            return [builder.map([(stored[0], places)], type_, sizes, entry)]

        return build


def _index(
    builder: LoweringBuilder, stored: SSAValue, type_: StoredQuantizedType
) -> SSAValue:
    """Return the index of a stored value in a table that begins with the smallest one."""
    extension = arith.ExtSIOp if type_.is_signed else arith.ExtUIOp
    index = builder.op(extension, (stored,), i32)
    if type_.is_signed:
        low, _ = type_.full_storage_range
        index = builder.add(arith.SubiOp(index, builder.number(low, i32)))
    return builder.op(arith.IndexCastOp, (index,), IndexType())


def _table(op: Operation) -> DenseIntOrFPElementsAttr:
    """Return the results of all stored values of the operand, the smallest one first."""
    elements = map(scalar_or_element_type, (*op.operand_types, *op.result_types))
    properties, attributes = (
        tuple(entries.items()) for entries in (op.properties, op.attributes)
    )
    return _computed_table(type(op), properties, attributes, *elements)


@lru_cache(maxsize=1024)
def _computed_table(
    op_type: type[Operation],
    properties: _Entries,
    attributes: _Entries,
    source: StoredQuantizedType,
    target: TypeAttribute,
) -> DenseIntOrFPElementsAttr:
    low, high = source.full_storage_range
    dtype = integer_dtype(8, is_signed=source.is_signed)
    stored = np.arange(low, high + 1).astype(dtype)
    types = [TensorType(type_, stored.shape) for type_ in (source, target)]
    function = FuncOp("main", (types[:1], types[1:]))
    computed = op_type.create(
        operands=function.args,
        result_types=types[1:],
        properties=dict(properties),
        attributes=dict(attributes),
    )
    function.body.block.add_ops([computed, ReturnOp(*computed.results)])
    module = ModuleOp([function])
    decompose([computed])
    for pass_ in (
        StablehloCastsToQuantPass(),
        LowerQuantOpsPass("nearest-even", fuse=True),
        ConvertStableHLOToLinalgPass(),
    ):
        pass_.rewrite(Context(), module)
    with np.errstate(all="ignore"):
        (results,) = run_function(module, "main", stored)
    type_ = cast("TensorType[IntegerType]", storage_of(types[1]))
    return DenseIntOrFPElementsAttr.from_list(type_, results.tolist())
