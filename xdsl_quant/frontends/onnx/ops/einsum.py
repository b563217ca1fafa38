"""
Sums of products in Einstein notation: diagonals, then one contraction per operand.

A term is a list of labels, one for each dimension of an operand.
"""

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import GraphBuilder
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import ComparisonDirection
from xdsl_quant.transforms.building.builder import shape_of
from xdsl_quant.unsupported import Unsupported


def einsum(b: GraphBuilder, equation: str, operands: Sequence[SSAValue]) -> SSAValue:
    """Build a sum of products, as `numpy.einsum` does."""
    ranks = [len(shape_of(operand)) for operand in operands]
    terms, result = _parsed_equation(equation.replace(" ", ""), ranks)
    sizes: dict[str, int] = {}
    for operand, term in zip(operands, terms, strict=True):
        for label, size in zip(term, shape_of(operand), strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    if unknown := {*result} - {*sizes}:
        raise Unsupported(f"has the unknown label '{min(unknown)}' in its result")
    values = [
        _with_unique_labels(b, *_without_stretched(b, operand, term, sizes))
        for operand, term in zip(operands, terms, strict=True)
    ]
    (value, term), *rest = values
    for i, (operand, labels) in enumerate(rest):
        later = {*result}.union(*(labels for _, labels in rest[i + 1 :]))
        value, term = _pair_product(b, value, term, operand, labels, later)
    value, term = _summed(b, value, term, {*result})
    return b.permute(value, [term.index(label) for label in result])


def _parsed_equation(
    equation: str, ranks: Sequence[int]
) -> tuple[Sequence[Sequence[str]], Sequence[str]]:
    """Return the terms of operands and result; dots have labels from the right."""
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks) or not all(
        re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", text) for text in (*texts, right)
    ):
        raise Unsupported(f"has the invalid equation '{equation}'")
    dots = max(
        rank - len(text.replace("...", ""))
        for text, rank in zip(texts, ranks, strict=True)
    )
    if not arrow:
        letters = [letter for letter in left if letter.isalpha()]
        once = sorted(letter for letter in letters if letters.count(letter) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    terms: list[Sequence[str]] = []
    for text, rank in zip(texts, ranks, strict=True):
        count = rank - len(text.replace("...", ""))
        if count < 0 or (count and "..." not in text):
            raise Unsupported(
                f"has an operand of rank {rank} for '{text}' in the equation"
            )
        terms.append(_term_labels(text, count))
    return terms, _term_labels(right, dots)


def _term_labels(text: str, dots: int) -> Sequence[str]:
    before, _, after = text.partition("...")
    middle = [f".{i}" for i in reversed(range(dots))] if "..." in text else []
    return [*before, *middle, *after]


def _without_stretched(
    b: GraphBuilder, value: SSAValue, term: Sequence[str], sizes: dict[str, int]
) -> tuple[SSAValue, Sequence[str]]:
    """Drop dimensions of size 1 that are broadcast."""
    shape = shape_of(value)
    kept = [i for i, label in enumerate(term) if shape[i] == sizes[label]]
    for i in {*range(len(term))} - {*kept}:
        if shape[i] != 1:
            raise Unsupported(
                f"label '{term[i]}' has sizes {shape[i]} and {sizes[term[i]]}"
            )
    return b.reshape_to(value, [shape[i] for i in kept]), [term[i] for i in kept]


def _with_unique_labels(
    b: GraphBuilder, value: SSAValue, term: Sequence[str]
) -> tuple[SSAValue, Sequence[str]]:
    """Replace dimensions with one label by their diagonal."""
    for second, label in enumerate(term):
        if (first := term.index(label)) == second:
            continue
        rows, columns = (b.iota(shape_of(value), axis, i64) for axis in (first, second))
        is_diagonal = b.compare(ComparisonDirection.EQ, rows, columns)
        value = b.select(is_diagonal, value, 0)
        value = b.reduce(stablehlo.AddOp, value, 0, [second])
        return _with_unique_labels(b, value, [*term[:second], *term[second + 1 :]])
    return value, term


def _summed(
    b: GraphBuilder, value: SSAValue, term: Sequence[str], kept: set[str]
) -> tuple[SSAValue, Sequence[str]]:
    """Sum over labels that are not in `kept`."""
    axes = [i for i, label in enumerate(term) if label not in kept]
    if not axes:
        return value, term
    value = b.reduce(stablehlo.AddOp, value, 0, axes)
    return value, [label for label in term if label in kept]


def _pair_product(
    b: GraphBuilder,
    x: SSAValue,
    x_term: Sequence[str],
    y: SSAValue,
    y_term: Sequence[str],
    later: set[str],
) -> tuple[SSAValue, Sequence[str]]:
    """Multiply two operands, and sum over the labels that are not used later."""
    x, x_term = _summed(b, x, x_term, later.union(y_term))
    y, y_term = _summed(b, y, y_term, later.union(x_term))
    shared = [label for label in x_term if label in y_term]
    batch = [label for label in shared if label in later]
    contracting = [label for label in shared if label not in later]
    numbers = stablehlo.DotDimensionNumbersAttr(
        *(
            [term.index(label) for label in labels]
            for labels in (batch, contracting)
            for term in (x_term, y_term)
        )
    )
    product = b.add(stablehlo.DotGeneralOp(x, y, dot_dimension_numbers=numbers))
    free = [label for label in (*x_term, *y_term) if label not in shared]
    return product, [*batch, *free]
