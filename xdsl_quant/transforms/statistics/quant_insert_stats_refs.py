"""
Insert a `quant.stats_ref` after each value that needs statistics.

Its key identifies the value by function, name of the defining op, and index among the ops
of that name in the function.

| value | key |
|---|---|
| first argument of `@main` | `main:argument:0` |
| the second `linalg.matmul` of `@main` | `main:linalg.matmul:1` |
| the second result of that op, if it has several | `main:linalg.matmul:1:1` |
| argument 1 of the body of the first `scf.for` | `main:scf.for:0:argument:1` |
| argument 0 of the third block of `@main` | `main:block:2:argument:0` |

Keys do not depend on value names, other functions, ops with other names, or the
options. Outside of named functions, the key starts with the op name.

The pass skips uninitialized tensors, such as the result of `tensor.empty`. It only enters
the regions of functions (of any dialect) and of control flow: other regions, such as the
body of a reduction, must not contain a `quant.stats_ref`. A value that has a
`quant.stats_ref` gets no second one, so the pass is idempotent.

By default, the pass also skips empty tensors, results of data movement ops (their operand
has the same range), and constants with only zeros or with non-finite elements. The options
`ops` and `keys` can select these values; `keys=".*"` selects all.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, ShapedType, StringAttr
from xdsl.ir import Operation, SSAValue, TypeAttribute
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import CallableOpInterface, SymbolOpInterface
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import op_name, quoted
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.dialects.quant.instrumentation import InstrumentationOp
from xdsl_quant.dialects.quant.traits import MovesElements, quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.pass_outcome import CountingPass, PassOutcome

from .ranges.float_constants import float_numbers

_DIALECTS_OF_REGIONS = ("builtin", "func", "scf")
"""Dialects whose regions may contain any op."""

_WITHOUT_VALUES = ("tensor.empty", "bufferization.alloc_tensor")
"""Ops with uninitialized results."""


def _symbol(op: Operation) -> str | None:
    if (trait := op.get_trait(SymbolOpInterface)) is None:
        name = op.get_attr_or_prop("sym_name")
        return name.data if isinstance(name, StringAttr) else None
    name = trait.get_sym_attr_name(op)
    return None if name is None else name.data


def _is_function(op: Operation) -> bool:
    """Return True if an op is a function, also of an unregistered dialect."""
    return op.has_trait(CallableOpInterface, value_if_unregistered=False) or (
        _symbol(op) is not None
        and isinstance(op.get_attr_or_prop("function_type"), TypeAttribute)
    )


class Candidate(NamedTuple):
    """A value that may get statistics."""

    value: SSAValue

    op_name: str
    """Name of the defining op, or of a block argument's parent op."""

    symbol: str | None
    """Name of the enclosing function."""

    key: str


def candidates(module: ModuleOp) -> Iterator[Candidate]:
    """
    Yield the values of a module with their keys. Of all regions, visit only those of
    functions and control flow.
    """
    return _candidates(module, _Scope(), "")


@dataclass
class _Scope:
    """A function, or the code outside of functions."""

    symbol: str | None = None

    prefix: str = ""

    counts: Counter[str] = field(default_factory=Counter[str])
    """Number of ops so far, by name."""


def _candidates(op: Operation, scope: _Scope, prefix: str) -> Iterator[Candidate]:
    """Yield the values in the regions of an op; all keys start with `prefix`."""
    name = op_name(op)
    for r, region in enumerate(op.regions):
        for b, block in enumerate(region.blocks):
            start = f"{prefix}{f'region:{r}:' if r else ''}{f'block:{b}:' if b else ''}"
            for index, arg in enumerate(block.args):
                yield Candidate(arg, name, scope.symbol, f"{start}argument:{index}")
            for inner_op in block.ops:
                yield from _result_candidates(inner_op, scope)


def _result_candidates(op: Operation, scope: _Scope) -> Iterator[Candidate]:
    """Yield the results of an op and the values in its regions."""
    name = op_name(op)
    key = f"{scope.prefix}{name}:{scope.counts[name]}"
    scope.counts[name] += 1
    for index, result in enumerate(op.results):
        suffix = f":{index}" if len(op.results) > 1 else ""
        yield Candidate(result, name, scope.symbol, key + suffix)
    if name.partition(".")[0] not in _DIALECTS_OF_REGIONS and not _is_function(op):
        return
    prefix = f"{key}:"
    if (symbol := _symbol(op)) is not None:
        prefix = f"{scope.prefix}{symbol}:"
        scope = _Scope(symbol, prefix)
    yield from _candidates(op, scope, prefix)


def _insert_refs(values: dict[SSAValue, str]) -> None:
    """Insert a `quant.stats_ref` with its key after each value."""
    # Go backwards to keep the order of block arguments.
    for value, key in reversed(values.items()):
        ref = StatisticsRefOp(value, key)
        ref.result.name_hint = value.name_hint
        if isinstance(owner := value.owner, Operation):
            ref.location = owner.location
            Rewriter.insert_op(ref, InsertPoint.after(owner))
        else:
            Rewriter.insert_op(ref, InsertPoint.at_start(owner))
        value.replace_uses_with_if(
            ref.result, lambda use, ref=ref: use.operation is not ref
        )


@dataclass(frozen=True)
class QuantInsertStatsRefsPass(CountingPass):
    """
    Insert a `quant.stats_ref` with a unique key after each float tensor: results of
    ops, and arguments of functions and loop bodies.

    A value must match all given options. Without `ops` and `keys`, the pass skips empty
    tensors, results of data movement ops, and constants without a useful range.
    """

    name = "quant-insert-stats-refs"

    ops: tuple[str, ...] = ()
    """
    Names of the ops whose results or block arguments are selected; function arguments
    belong to the function op, e.g. `func.func`.
    """

    symbols: tuple[str, ...] = ()
    """Names of the functions in which values are selected."""

    keys: str | None = None
    """Regular expression that must match the whole key of a selected value."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        try:
            pattern = re.compile(".*" if self.keys is None else self.keys)
        except re.error as e:
            raise PassFailedException(
                f"invalid regular expression in keys: {self.keys!r}: {e}"
            ) from None
        symbols = {symbol for inner in op.walk() if (symbol := _symbol(inner))}
        _check_known(self.symbols, symbols, "unknown function '{}' in symbols")
        eligible = [*filter(_may_be_instrumented, candidates(op))]
        names = {candidate.op_name for candidate in eligible}
        mistake = "unknown op '{}' in ops, it defines no float tensor in this module"
        _check_known(self.ops, names, mistake)
        by_default = not self.ops and self.keys is None
        selected = [
            candidate
            for candidate in eligible
            if (not self.ops or candidate.op_name in self.ops)
            and (not self.symbols or candidate.symbol in self.symbols)
            and pattern.fullmatch(candidate.key)
            and (not by_default or _has_own_range(candidate.value))
        ]
        if not selected and (self.symbols or not by_default):
            raise PassFailedException("no float tensor is selected")
        refs = [ref for ref in op.walk() if isinstance(ref, StatisticsRefOp)]
        known = {ref.input for ref in refs}
        taken = {ref.stats_key.data for ref in refs}
        inserted = {
            candidate.value: _unique_key(candidate.key, taken)
            for candidate in selected
            if candidate.value not in known
        }
        _insert_refs(inserted)
        float_ops = [o for o in op.walk() if any(map(_has_float_elements, o.results))]
        expected = "float tensors without a 'quant.stats_ref' in functions"
        return PassOutcome(float_ops, len(inserted), expected)


def _check_known(names: Iterable[str], available: set[str], mistake: str) -> None:
    """Raise `PassFailedException` with message `mistake` for an unavailable name."""
    for name in names:
        if name not in available:
            listed = quoted(sorted(available)) or "none"
            raise PassFailedException(f"{mistake.format(name)}; available: {listed}")


def is_tensor_with_values(candidate: Candidate) -> bool:
    """Return True for an initialized tensor that no instrumentation op returns."""
    type_ = candidate.value.type
    return (
        scalar_or_element_type(type_) is not type_
        and candidate.op_name not in _WITHOUT_VALUES
        and not isinstance(candidate.value.owner, InstrumentationOp)
    )


def _has_float_elements(value: SSAValue) -> bool:
    element_type = scalar_or_element_type(value.type)
    return element_type is not value.type and isinstance(element_type, AnyFloat)


def _may_be_instrumented(candidate: Candidate) -> bool:
    return _has_float_elements(candidate.value) and is_tensor_with_values(candidate)


def _unique_key(key: str, taken: set[str]) -> str:
    """Return an unused key, suffixed if necessary, and mark it as taken."""
    numbered = chain((key,), (f"{key}#{number}" for number in count(1)))
    free = next(name for name in numbered if name not in taken)
    taken.add(free)
    return free


def _has_own_range(value: SSAValue) -> bool:
    """Return True if a tensor has elements and no operand with the same range."""
    if isinstance(type_ := value.type, ShapedType) and 0 in type_.get_shape():
        return False
    if not isinstance(op := value.owner, Operation):
        return True
    moves = quantization_trait(op, MovesElements)
    moved = () if moves is None else moves.moved_operands(op)
    if len(moved) != 1:
        return _is_useful(op)
    (operand,) = moved
    if not isinstance(operand.type, ShapedType):
        # The tensor repeats a scalar, and scalars have no statistics.
        return not isinstance(operand.owner, Operation) or _is_useful(operand.owner)
    return scalar_or_element_type(operand.type) != scalar_or_element_type(type_)


def _is_useful(op: Operation) -> bool:
    """Return False for constants with only zeros or with non-finite elements."""
    if op.operands or op.regions:
        return True
    try:
        numbers = float_numbers(op.properties.get("value", op.attributes.get("value")))
    except (ImportError, ValueError):
        return True
    if numbers is None:
        return True
    return bool(np.any(numbers) and np.isfinite(numbers).all())
