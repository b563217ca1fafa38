"""Ops of a module before lowering, and the mapping from compiled code to these ops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    ShapedType,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineDimExpr
from xdsl.traits import IsTerminator

from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.arrays import shortened

from .entry_point import EntryPoint
from .lowering import lower

_FILE = "xdsl_quant.op"
"""File name in locations that hold op numbers."""

_SUMS, _PRODUCTS = ("arith.addf", "arith.addi"), ("arith.mulf", "arith.muli")

_NUMBERS = re.compile(rf'"{re.escape(_FILE)}":(\d+):')


@dataclass(frozen=True)
class Source:
    """Module, entry point and options of a compilation."""

    load: Callable[[], ModuleOp]

    entry: str | None
    host_names: Collection[str]
    rounding: Rounding
    fuse: bool

    def entry_point(self) -> EntryPoint:
        """
        Return the function to compile, with its callees.

        Raises:
            CompilationError: see `EntryPoint.of`.
            ImportError: if a type needs a package that is not installed.
        """
        return EntryPoint.of(self.load(), self.entry, self.host_names)

    def lower(self, entry_point: EntryPoint) -> str:
        """
        Lower an entry point's module in place and return its MLIR text.

        Raises:
            CompilationError: if an op has no lowering.
        """
        return lower(entry_point.module, self.rounding, self.fuse)

    def with_op_numbers(self) -> NumberedSource:
        """Return the lowered source with op numbers as locations."""
        module = self.entry_point().module
        ops = number_ops(module)
        text = lower(module, self.rounding, self.fuse, print_locations=True)
        return NumberedSource(text, ops, count_products(module))


@dataclass(frozen=True)
class NumberedSource:
    """Lowered module whose locations are op numbers."""

    text: str

    ops: Sequence[SourceOp]
    """Ops before lowering, by number."""

    products: Mapping[int, int]
    """Number of multiply-accumulates, by op number."""

    def subject_at(self, place: str) -> str:
        """Return the start of an error message about the op at an MLIR location."""
        if (number := next(numbers_in(place), None)) is None:
            return ""
        op = self.ops[number]
        prefix = f"{op.location}: error: " if op.location else ""
        return f"{prefix}'{op.name}' op cannot be compiled: "


@dataclass(frozen=True)
class SourceOp:
    """Op before lowering, as a profile shows it."""

    name: str

    location: str
    """Source location, e.g. `model.mlir:3:5`; empty if unknown."""

    result_type: str
    """Storage types of the results, shortened."""

    @staticmethod
    def of(op: Operation) -> SourceOp:
        return SourceOp(
            op_name(op),
            location_prefix(op.location).removesuffix(": "),
            ", ".join(map(_stored_type_text, op.result_types)),
        )


def _stored_type_text(type_: Attribute) -> str:
    storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
    return shortened(type_ if storage is None else storage)


def number_ops(module: ModuleOp) -> Sequence[SourceOp]:
    """
    Number all non-constant ops on tensors or at function level, and set locations to
    these numbers. Other nested ops get the number of their parent.
    """
    source_ops: list[SourceOp] = []

    def visit(op: Operation, number: int | None) -> None:
        if not isinstance(op, ModuleOp | FuncOp):
            if _is_counted(op):
                number = len(source_ops)
                source_ops.append(SourceOp.of(op))
            if number is not None:
                place = IntAttr(number), IntAttr(0)
                op.location = FileLineColLoc(StringAttr(_FILE), *place)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    visit(inner, number)

    visit(module, None)
    return source_ops


def _is_counted(op: Operation) -> bool:
    # An op without operands is a constant.
    if op.has_trait(IsTerminator) or not (op.operands or op.regions):
        return False
    is_on_tensors = any(
        isinstance(value.type, ShapedType) for value in (*op.operands, *op.results)
    )
    return is_on_tensors or isinstance(op.parent_op(), FuncOp)


def numbers_in(location: str) -> Iterator[int]:
    """Yield the op numbers in the text of a location."""
    return map(int, _NUMBERS.findall(location))


def count_products(module: ModuleOp) -> Mapping[int, int]:
    """
    Return the number of multiply-accumulates of `linalg` ops, by op number in their
    locations; ops of dynamic sizes are omitted.
    """
    counts: Counter[int] = Counter()
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation) and _sums_products(op):
            for number in numbers_in(str(op.location)):
                counts[number] += prod(_loop_sizes(op))
    return {number: count for number, count in counts.items() if count}


def _loop_sizes(op: LinalgStructuredOperation) -> Sequence[int]:
    """Return the trip counts of the loops; 0 for dynamic ones."""
    sizes = [0] * len(op.get_iterator_types())
    for map_, value in zip(op.get_indexing_maps(), op.operands, strict=True):
        if not isinstance(type_ := value.type, ShapedType):
            continue
        for index, size in zip(map_.data.results, type_.get_shape(), strict=True):
            if isinstance(index, AffineDimExpr):
                sizes[index.position] = max(0, size)
    return sizes


def _sums_products(op: LinalgStructuredOperation) -> bool:
    if all(kind.data is IteratorType.PARALLEL for kind in op.get_iterator_types()):
        return False
    total = op.regions[0].block.last_op
    while total is not None and op_name(total) not in _SUMS:
        total = _operand_op(total, -1)
    factors = [] if total is None else [_operand_op(total, i) for i in range(2)]
    return any(
        factor is not None and op_name(factor) in _PRODUCTS for factor in factors
    )


def _operand_op(op: Operation, index: int) -> Operation | None:
    owner = op.operands[index].owner if op.operands else None
    return owner if isinstance(owner, Operation) else None
