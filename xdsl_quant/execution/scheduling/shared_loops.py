"""
Horizontal fusion: one loop nest for ops that iterate over the same elements.

MLIR fuses an elementwise op only into its single user. Here consecutive ops over the
same elements, including reductions, become one op. Values that only this op uses are
not stored in memory.
"""

from collections.abc import Sequence

from .. import mlir_bindings as mlir
from ..building import indexing_maps, input_count, iterator_types_of
from ..float_reductions import has_sum_in_lanes
from ..mlir_bindings import Values, ir
from .generic_ops import build_generic, clone_with

_Mapped = tuple[ir.Value, ir.AffineMap]
"""Operand and its affine map."""


def share_loops(module: ir.Module) -> None:
    """Fuse each sequence of `linalg.generic` ops that can share a loop nest."""
    for op in mlir.ops_in(module):
        # The body of a `linalg` op contains no `linalg` ops to fuse.
        if not op.name.startswith("linalg."):
            for region in op.regions:
                for block in region:
                    _share_in(block)


def _share_in(block: ir.Block) -> None:
    group: _SharedLoop | None = None
    for op in mlir.operations_of(block):
        if group is not None and not group.take(op):
            group.close()
            group = None
        if group is None and _can_share(op):
            group = _SharedLoop(op)
    if group is not None:
        group.close()


def _is_identity(affine_map: ir.AffineMap) -> bool:
    return affine_map == ir.AffineMap.get_identity(affine_map.n_dims)


def _mapped_operands(op: ir.Operation) -> list[_Mapped]:
    return [*zip(op.operands, indexing_maps(op), strict=True)]


def _inputs(op: ir.Operation) -> list[_Mapped]:
    return _mapped_operands(op)[: input_count(op)]


def _outputs(op: ir.Operation) -> list[_Mapped]:
    return _mapped_operands(op)[input_count(op) :]


def _can_share(op: ir.Operation) -> bool:
    if op.name != "linalg.generic" or not len(op.results) or has_sum_in_lanes(op):
        return False
    has_elements = any(_is_identity(m) for _, m in _inputs(op))
    return (
        has_elements
        and all(m.is_projected_permutation for _, m in _outputs(op))
        and not any(len(inner.regions) for inner in mlir.body_of(op).operations)
    )


class _SharedLoop:
    """Group of ops to be fused into one loop nest."""

    def __init__(self, first: ir.Operation):
        self._members: list[ir.Operation] = []
        self._results: set[ir.Value] = set()
        # Tensors that each iteration accesses only at its own indices.
        self._elements: set[ir.Value] = set()
        self._add(first)

    def _add(self, op: ir.Operation) -> None:
        self._members.append(op)
        self._results.update(op.results)
        self._elements |= {value for value, m in _inputs(op) if _is_identity(m)}
        outputs = zip(_outputs(op), op.results, strict=True)
        self._elements |= {result for (_, m), result in outputs if _is_identity(m)}

    def take(self, op: ir.Operation) -> bool:
        """Add an op if it can share the loop nest; return False to end the group."""
        if _can_share(op) and self._has_same_elements(op):
            self._add(op)
            return True
        return not _depends(op, self._results)

    def _has_same_elements(self, op: ir.Operation) -> bool:
        inputs = _inputs(op)
        if not any(value in self._elements for value, m in inputs if _is_identity(m)):
            return False
        others = [value for value, _ in _outputs(op)]
        for inner in mlir.body_of(op).operations:
            others += inner.operands
        if any(value in self._results for value in others):
            return False
        return all(
            value in self._elements and _is_identity(m)
            for value, m in inputs
            if value in self._results
        )

    def close(self) -> None:
        """Replace the group by one op."""
        if len(self._members) < 2:
            return
        last = self._members[-1]
        with ir.InsertionPoint(last), last.location:
            self._shared()
        for member in reversed(self._members):
            member.erase()

    def _shared(self) -> None:
        inputs: dict[tuple[ir.Value, str], _Mapped] = {}
        for member in self._members:
            for value, m in _inputs(member):
                if value not in self._results:
                    inputs.setdefault((value, str(m)), (value, m))
        outputs = [
            (out, m, result)
            for member in self._members
            for (out, m), argument, result in zip(
                _outputs(member), _accumulators(member), member.results, strict=True
            )
            if self._is_needed(result) or any(True for _ in argument.uses)
        ]
        results = [result for _, _, result in outputs]

        def body(arguments: Values) -> Values:
            read = dict(zip(inputs, arguments, strict=False))
            so_far = dict(zip(results, arguments[len(inputs) :], strict=True))
            elements: dict[ir.Value, ir.Value] = {}
            for member in self._members:
                values = [
                    elements[value] if value in elements else read[value, str(m)]
                    for value, m in _inputs(member)
                ]
                # Other arguments are unused.
                values += [so_far.get(result, result) for result in member.results]
                yielded = _inlined_body(member, values)
                elements |= zip(member.results, yielded, strict=True)
            return [elements[result] for result in results]

        new_results = build_generic(
            [value for value, _ in inputs.values()],
            [out for out, _, _ in outputs],
            [m for _, m in inputs.values()] + [m for _, m, _ in outputs],
            self._kinds(),
            body,
        )
        for result, new in zip(results, new_results, strict=True):
            result.replace_all_uses_with(new)

    def _is_needed(self, result: ir.Value) -> bool:
        """Return True if an op outside the group uses a result."""
        return any(user not in self._members for user in mlir.users_of(result))

    def _kinds(self) -> Sequence[str]:
        """Return each loop's iterator type: `reduction` if any op reduces over it."""
        kinds = zip(*map(iterator_types_of, self._members), strict=True)
        return [
            "reduction" if any("reduction" in kind for kind in each) else "parallel"
            for each in kinds
        ]


def _accumulators(op: ir.Operation) -> Values:
    return [*mlir.body_of(op).arguments][input_count(op) :]


_HARMLESS = ("cf.assert", "scf.if", "scf.yield", "linalg.yield", "tensor.yield")
"""Ops without results that neither write to memory nor call functions."""


def _depends(op: ir.Operation, values: set[ir.Value]) -> bool:
    """Return True if an op uses a value, accesses memory or may have side effects."""
    return any(
        inner.name.startswith(("func.", "memref.", "bufferization."))
        or (not len(inner.results) and inner.name not in _HARMLESS)
        or any(operand in values for operand in inner.operands)
        for inner in mlir.ops_in(op)
    )


def _inlined_body(member: ir.Operation, arguments: Values) -> Values:
    """Clone a body with new arguments, and return its yielded values."""
    body = mlir.body_of(member)
    known: dict[ir.Value, ir.Value] = dict(zip(body.arguments, arguments, strict=True))
    for op in mlir.operations_of(body):
        if op.name == "linalg.yield":
            return [known.get(value, value) for value in op.operands]
        clone_with(op, known)
    raise AssertionError("missing `linalg.yield` at the end of a body")
