"""
Horizontal fusion: one loop nest for ops that iterate over the same elements.

MLIR fuses an elementwise op only into its single user. Here all successive ops over the
same elements, and reductions of these, become one op. Values that are only used inside are
never stored in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..building import generic
from ..mlir_bindings import ir, ops_in


def share_loops(module: Any) -> None:
    """
    Put each sequence of `linalg.generic` that can share a loop nest into one.

    Args:
        module: the module, which is changed.
    """
    for op in ops_in(module):
        # A body is not a sequence of loops.
        if not op.name.startswith("linalg."):
            for region in op.regions:
                for block in region:
                    _share_in(block)


def _share_in(block: Any) -> None:
    group: _Group | None = None
    for op in [op.operation for op in block.operations]:
        if group is not None and not group.take(op):
            group.close()
            group = None
        if group is None and _can_share(op):
            group = _Group(op)
    if group is not None:
        group.close()


def _is_identity(affine_map: Any) -> bool:
    return affine_map == ir.AffineMap.get_identity(affine_map.n_dims)


def _operands(op: Any) -> list[tuple[Any, Any]]:
    """The operands of an op with their maps."""
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    return [*zip(op.operands, maps, strict=True)]


def _inputs(op: Any) -> list[tuple[Any, Any]]:
    return _operands(op)[: op.attributes["operandSegmentSizes"][0]]


def _outputs(op: Any) -> list[tuple[Any, Any]]:
    return _operands(op)[op.attributes["operandSegmentSizes"][0] :]


def _can_share(op: Any) -> bool:
    if op.name != "linalg.generic" or not len(op.results):
        return False
    has_elements = any(_is_identity(m) for _, m in _inputs(op))
    body = op.regions[0].blocks[0]
    return (
        has_elements
        and all(m.is_projected_permutation for _, m in _outputs(op))
        and not any(len(inner.regions) for inner in body.operations)
    )


class _Group:
    """Ops that will share a loop nest."""

    def __init__(self, first: Any):
        self._members: list[Any] = []
        self._results: set[Any] = set()
        # Tensors of which one element is needed at a time, each in its place.
        self._elements: set[Any] = set()
        self._add(first)

    def _add(self, op: Any) -> None:
        self._members.append(op)
        self._results.update(op.results)
        self._elements |= {value for value, m in _inputs(op) if _is_identity(m)}
        outputs = zip(_outputs(op), op.results, strict=True)
        self._elements |= {result for (_, m), result in outputs if _is_identity(m)}

    def take(self, op: Any) -> bool:
        """Take an op if it fits; whether the group may go on after it."""
        if _can_share(op) and self._has_same_elements(op):
            self._add(op)
            return True
        return not _depends(op, self._results)

    def _has_same_elements(self, op: Any) -> bool:
        inputs = _inputs(op)
        if not any(value in self._elements for value, m in inputs if _is_identity(m)):
            return False
        body = op.regions[0].blocks[0]
        others = [value for value, _ in _outputs(op)]
        others += [value for inner in body.operations for value in inner.operands]
        if any(value in self._results for value in others):
            return False
        return all(
            value in self._elements and _is_identity(m)
            for value, m in inputs
            if value in self._results
        )

    def close(self) -> None:
        """Make one op of all."""
        if len(self._members) < 2:
            return
        last = self._members[-1]
        with ir.InsertionPoint(last), last.location:
            self._shared()
        for member in reversed(self._members):
            member.erase()

    def _shared(self) -> None:
        inputs: dict[tuple[Any, str], tuple[Any, Any]] = {}
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

        def body(arguments: Sequence[Any]) -> Sequence[Any]:
            read = dict(zip(inputs, arguments, strict=False))
            so_far = dict(zip(results, arguments[len(inputs) :], strict=True))
            elements: dict[Any, Any] = {}
            for member in self._members:
                values = [
                    elements[value] if value in elements else read[value, str(m)]
                    for value, m in _inputs(member)
                ]
                values += [so_far.get(result) for result in member.results]
                yielded = _inlined(member, values)
                elements |= zip(member.results, yielded, strict=True)
            return [elements[result] for result in results]

        new_results = generic(
            [value for value, _ in inputs.values()],
            [out for out, _, _ in outputs],
            [m for _, m in inputs.values()] + [m for _, m, _ in outputs],
            self._kinds(),
            body,
        )
        for result, new in zip(results, new_results, strict=True):
            result.replace_all_uses_with(new)

    def _is_needed(self, result: Any) -> bool:
        """Whether an op outside of the group uses a result."""
        return any(use.owner.operation not in self._members for use in result.uses)

    def _kinds(self) -> Sequence[str]:
        """The kinds of loops: that of a reduction if it is that for any op."""
        kinds = zip(
            *(map(str, op.attributes["iterator_types"]) for op in self._members),
            strict=True,
        )
        return [
            "reduction" if any("reduction" in kind for kind in each) else "parallel"
            for each in kinds
        ]


def _accumulators(op: Any) -> list[Any]:
    body = op.regions[0].blocks[0]
    return [*body.arguments][len(_inputs(op)) :]


_HARMLESS = ("cf.assert", "scf.if", "scf.yield", "linalg.yield", "tensor.yield")
"""Ops without results that neither write nor call anything."""


def _depends(op: Any, values: set[Any]) -> bool:
    """Whether an op uses a value, or may write to memory, or call a function."""
    return any(
        inner.name.startswith(("func.", "memref.", "bufferization."))
        or (not len(inner.results) and inner.name not in _HARMLESS)
        or any(operand in values for operand in inner.operands)
        for inner in ops_in(op)
    )


def _inlined(member: Any, arguments: list[Any]) -> list[Any]:
    """A copy of a body; what it yields."""
    body = member.regions[0].blocks[0]
    known = dict(zip(body.arguments, arguments, strict=True))
    for op in body.operations:
        if op.operation.name == "linalg.yield":
            return [known.get(value, value) for value in op.operands]
        copy = op.operation.clone()
        for i, operand in enumerate(op.operands):
            copy.operands[i] = known.get(operand, operand)
        known |= zip(op.results, copy.results, strict=True)
    raise AssertionError("a body ends with `linalg.yield`")
