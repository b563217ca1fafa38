"""C header with the ops, constants and multipliers of golden vectors."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from xdsl_quant.numerics.arrays import Array

from .golden_vectors import ArrayRecord, GoldenVectors, OpRecord, StepRecord

_TYPES = """
#include <stddef.h>
#include <stdint.h>

/* A value or an accumulator: its elements are constant, or in DIR/call_NNN/FILE.hex. */
typedef struct {
  const char *file;         /* NULL for a variable, which keeps them between calls */
  const void *data;         /* elements of a constant, or NULL; floats as their bits */
  int bits, is_signed;      /* data has elements of 8, 16, 32 or 64 bits */
  int zero_point;
  double scale;             /* of the first channel; 0 if not quantized */
  int rank, sizes[8];
} xq_value;

/* A step of a kernel: fields that its primitive does not have are NULL or 0. */
typedef struct {
  const char *primitive;
  int accumulator;          /* index of a value; -1 if absent */
  int count;                /* number of multipliers: 1, or one for each channel */
  const int32_t *multiplier;
  const int8_t *shift;
  const double *ratio;
  int zero_point, low, high;
  int table_bits;
  const void *table;
} xq_step;

typedef struct { const char *name, *text; double number; } xq_attribute;

typedef struct {
  const char *name, *function;
  int operand_count, result_count, step_count, attribute_count;
  const int *operands, *results;  /* indices of values; -1 if absent */
  const xq_step *steps;
  const xq_attribute *attributes;
} xq_op;
"""

_c_string = partial(json.dumps, ensure_ascii=False)

_LINE = 16
"""Number of array elements in a line."""


def c_header(vectors: GoldenVectors, model: str) -> str:
    """
    Return a C99 header with the constants of a run: weights, biases, multipliers, shifts,
    clamps and tables, and the ops that use them.

    Args:
        vectors: the values of a run.
        model: name of the model, for the comment.

    Raises:
        ValueError: if the multipliers of an op depend on the arguments, or an op has
            several executions in a call.
    """
    for op in vectors.ops:
        _check_constants(op, vectors.changed)
    return "".join(f"{line}\n" for line in _header_lines(vectors, model))


def _check_constants(op: OpRecord, changed: set[str]) -> None:
    if max(op.executions) > 1:
        raise ValueError(
            f"'{op.op}' op {op.file} has {max(op.executions)} executions in a call; "
            "--c-header supports functions without loops"
        )
    for step in op.steps:
        for name, record in step.arrays.items():
            is_number = name in ("accumulator", "table") or len(record.shape) < 2
            if name != "accumulator" and (record.file in changed or not is_number):
                raise ValueError(
                    f"'{op.op}' op {op.file} has a {name} that depends on the "
                    "arguments; --c-header supports constant ones"
                )


def _header_lines(vectors: GoldenVectors, model: str) -> Iterator[str]:
    yield f"/* Golden vectors of {model.replace('*/', '')}: made by xdsl-quant run. */"
    yield _TYPES
    yield f"#define XQ_FUNCTION {_c_string(vectors.function)}"
    yield f"#define XQ_CALLS {vectors.calls}\n"
    names = {file: f"xq_data_{i}" for i, file in enumerate(vectors.constants)}
    for file, array in vectors.constants.items():
        yield from _array_lines(names[file], file, array)

    def name_of(record: ArrayRecord | None) -> str:
        return "NULL" if record is None else names.get(record.file, "NULL")

    records = _value_records(vectors)
    yield f"#define XQ_VALUES {len(records)}"
    yield "static const xq_value xq_values[] = {"
    yield from (_value_line(record, name_of(record)) for record in records.values())
    yield "};\n"
    indices = {key: index for index, key in enumerate(records)}
    arguments = [indices[_record_key(record)] for record in vectors.arguments]
    yield f"#define XQ_ARGUMENTS {len(arguments)}"
    yield f"static const int xq_arguments[] = {{{_list_text(arguments or [0])}}};\n"
    yield f"#define XQ_OPS {len(vectors.ops)}"
    yield "static const xq_op xq_ops[] = {"
    for op in vectors.ops:
        yield from _op_lines(op, indices, name_of)
    yield "};"


def _record_key(record: ArrayRecord) -> object:
    """Return the key of a value or accumulator; that of a variable is `(name,)`."""
    return record.file if record.value is None else record.value


def _value_records(vectors: GoldenVectors) -> Mapping[object, ArrayRecord]:
    """
    Return a record for each value: where it is defined, or else used; for each accumulator;
    and, without a file, for each variable.
    """
    ports: list[ArrayRecord | None] = [*vectors.arguments]
    for op in vectors.ops:
        ports += op.results
    for op in vectors.ops:
        ports += [*op.operands, *(step.arrays.get("accumulator") for step in op.steps)]
    found: dict[object, ArrayRecord] = {}
    for record in filter(None, ports):
        found.setdefault(_record_key(record), record)
    for op in vectors.ops:
        if op.variable is not None:
            record = next(filter(None, (*op.operands, *op.results)))
            found.setdefault((op.variable,), replace(record, file=""))
    return found


def _array_lines(name: str, file: str, array: Array) -> Iterator[str]:
    is_ratio = file.rpartition(".")[2].startswith("ratio")
    if is_ratio:
        c_type, texts = "double", [float(x).hex() for x in np.ravel(array)]
    else:
        bits = 8 * array.dtype.itemsize
        is_signed = array.dtype.kind == "i"
        dtype = f"{'' if is_signed else 'u'}int{bits}"
        c_type, words = f"{dtype}_t", np.ravel(array).view(dtype)
        texts = [_literal(word, bits, is_signed) for word in words.tolist()]
    yield f"static const {c_type} {name}[] = {{ /* {file} */"
    for start in range(0, len(texts), _LINE):
        yield f"  {', '.join(texts[start : start + _LINE])},"
    if not texts:
        yield "  0 /* no elements */"
    yield "};\n"


def _literal(word: int, bits: int, is_signed: bool) -> str:
    """Return a C constant; C has no literals of the smallest integers."""
    if is_signed and bits >= 32 and word == -(1 << (bits - 1)):
        return f"INT{bits}_MIN"
    suffix = ("LL" if is_signed else "ULL") if bits == 64 else "" if is_signed else "u"
    return f"{word}{suffix}"


def _value_line(record: ArrayRecord, data: str) -> str:
    if len(record.shape) > 8:
        raise ValueError(
            f"{record.file} has rank {len(record.shape)}; --c-header supports up to 8"
        )
    scale = float((record.scales or [0.0])[0]).hex()
    file = _c_string(record.file) if record.file else "NULL"
    return (
        f"  {{{file}, {data}, {record.bits}, {int(record.is_signed)}, "
        f"{(record.zero_points or [0])[0]}, {scale}, {len(record.shape)}, "
        f"{{{_list_text(record.shape or [0])}}}}},"
    )


def _op_lines(
    op: OpRecord,
    indices: Mapping[object, int],
    name_of: Callable[[ArrayRecord | None], str],
) -> Iterator[str]:
    attributes = [
        f"{{{_c_string(name)}, {_c_string(value)}, 0}}"
        if isinstance(value, str)
        else f"{{{_c_string(name)}, NULL, {float(value)!r}}}"
        for name, value in op.attributes.items()
        if isinstance(value, str | int | float)
    ]
    operands, results = (
        [-1 if record is None else indices[_record_key(record)] for record in ports]
        for ports in (op.operands, op.results)
    )
    if op.variable is not None:
        operands[0] = indices[(op.variable,)]
    steps = [_step_text(step, indices, name_of) for step in op.steps]
    yield f"  /* {op.file} */"
    yield f"  {{{_c_string(op.op)}, {_c_string(op.function)},"
    counts = len(operands), len(results), len(steps), len(attributes)
    yield f"   {_list_text(counts)},"
    for values in (operands, results):
        yield f"   (const int[]){{{_list_text(values or [-1])}}},"
    for type_, texts in (("xq_step", steps), ("xq_attribute", attributes)):
        last = "}," if type_ == "xq_attribute" else ","
        yield f"   (const {type_}[]){{{_list_text(texts or ['{0}'])}}}{last}"


def _step_text(
    step: StepRecord,
    indices: Mapping[object, int],
    name_of: Callable[[ArrayRecord | None], str],
) -> str:
    arrays, numbers = step.arrays, step.numbers
    accumulator, table = arrays.get("accumulator"), arrays.get("table")
    factors = arrays.get("multiplier", arrays.get("ratio"))
    fields = (
        _c_string(step.primitive),
        -1 if accumulator is None else indices[_record_key(accumulator)],
        0 if factors is None else int(np.prod(factors.shape, dtype=int)),
        *(name_of(arrays.get(name)) for name in ("multiplier", "shift", "ratio")),
        *(numbers.get(name, 0) for name in ("zero_point", "low", "high")),
        0 if table is None else table.bits,
        name_of(table),
    )
    return f"{{{_list_text(fields)}}}"


def _list_text(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
