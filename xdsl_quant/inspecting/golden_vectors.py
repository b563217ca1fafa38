"""
Golden vectors: the stored operands, accumulators, multipliers, shifts and results of the
ops of a run, as files for testbenches of hardware.

A directory has a file `index.json`, a folder `constants`, and a folder for each call.
Each array is in a `.npz` file (one for each op) and, as text with one hexadecimal number
in each line, in a `.hex` file (one for each array) that Verilog's `$readmemh` reads.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator

from xdsl_quant.diagnostics import located_message, location_prefix, op_name
from xdsl_quant.dialects.quant.types import ScaledQuantizedType, scalar_or_element_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import (
    check_argument,
    constant_attr,
    integer_width,
    shortened,
)
from xdsl_quant.runtime.missing_lowering import compiled_only, has_stablehlo_ops

from .op_recording import Execution, RecordedFunction, Step

CONSTANTS = "constants"
"""Folder of constant operands and of tables."""

_MAX_NAME = 40
"""Maximum number of characters of a location name in a file name."""

_WITHOUT_RECORD = ("func.call", "tfl.call_once", "tfl.no_value", "tfl.var_handle")
"""Ops without arithmetic or state."""


def hexadecimal(array: Array, bits: int) -> str:
    """
    Return a line for each element in row-major order: two's complement or the bits of a
    float, with leading zeros.

    Args:
        array: numbers of at most 64 bits.
        bits: width of an element.
    """
    size = array.dtype.itemsize
    words = np.ascontiguousarray(array).reshape(-1).view(f"u{size}")
    if not words.size:
        return ""
    text = words.astype(f">u{size}").tobytes().hex("\n", size)
    if (digits := -(-bits // 4)) == 2 * size:
        return f"{text}\n"
    mask = (1 << bits) - 1
    return "".join(f"{word & mask:0{digits}x}\n" for word in words.tolist())


@dataclass(frozen=True)
class ArrayRecord:
    """An array in the index."""

    file: str
    """Path of the `.hex` file in its folder, without the suffix."""

    type: str
    bits: int
    is_signed: bool
    shape: Sequence[int]

    value: int | None = None
    """Number of the SSA value; `None` for arrays of steps."""

    is_constant: bool = False
    """True if the file is in the folder `constants`, not in that of a call."""

    scales: Sequence[float] | None = None
    zero_points: Sequence[int] | None = None

    axis: int | None = None
    """Dimension of per-axis scales."""


@dataclass(frozen=True)
class StepRecord:
    """A step of a kernel in the index."""

    primitive: str
    arrays: Mapping[str, ArrayRecord]
    numbers: Mapping[str, int]


@dataclass
class OpRecord:
    """An op in the index."""

    number: int
    """Position among the ops of the module."""

    op: str
    function: str
    location: str

    file: str
    """Beginning of the names of the op's files."""

    attributes: Mapping[str, int | float | str | Sequence[int]]

    variable: str | None
    """Name of the variable that the op reads or assigns."""

    operands: Sequence[ArrayRecord | None] = ()
    results: Sequence[ArrayRecord | None] = ()
    steps: Sequence[StepRecord] = ()

    executions: list[int] = field(default_factory=list[int])
    """Number of executions in each call."""


class GoldenVectors:
    """Directory with the values of the ops of a module."""

    def __init__(self, directory: Path, module: ModuleOp):
        """
        Create the folder of constants.

        Args:
            directory: an existing empty directory.
            module: the module that is run.
        """
        self.constants: dict[str, Array] = {}
        """Constant operands, and the arrays of the first execution of steps, by file."""
        self.changed: set[str] = set()
        """Arrays of steps that differ between executions, by file of the first."""
        self.arguments: Sequence[ArrayRecord] = ()
        self.calls = 0
        self.function = ""
        self._directory = directory
        self._numbers = {op: i for i, op in enumerate(_recorded_ops(module))}
        self._records: dict[Operation, OpRecord] = {}
        self._values: dict[SSAValue, int] = {}
        (directory / CONSTANTS).mkdir()

    @property
    def ops(self) -> Sequence[OpRecord]:
        """Records of the executed ops, in the order of the module."""
        return sorted(self._records.values(), key=lambda record: record.number)

    def add_call(
        self,
        function: FuncOp,
        arguments: Sequence[Array],
        executions: Sequence[Execution],
    ) -> None:
        """
        Write the values of a call.

        Raises:
            ValueError: if a value has no representation in at most 64 bits.
        """
        self.function = function.sym_name.data
        (self._directory / self._folder).mkdir()
        records = self._value_records("argument", function.args, arguments)
        self.arguments = [record for record in records if record is not None]
        self._save("arguments", _recorded_arrays(records, arguments))
        counts: Counter[Operation] = Counter()
        for execution in executions:
            if execution.op in self._numbers:
                self._add(execution, counts[execution.op])
                counts[execution.op] += 1
        for op, record in self._records.items():
            skipped = self.calls - len(record.executions)
            record.executions += [0] * skipped + [counts[op]]
        self.calls += 1

    def write_index(self, model: str) -> None:
        """Write the file `index.json`, given the name of the model."""
        index = {
            "model": model,
            "function": self.function,
            "calls": self.calls,
            "arguments": [*map(_known_fields, self.arguments)],
            "ops": [*map(_known_fields, self.ops)],
        }
        text = json.dumps(index, indent=1, ensure_ascii=False)
        (self._directory / "index.json").write_text(f"{text}\n", "utf-8")

    @property
    def _folder(self) -> str:
        return f"call_{self.calls:03}"

    def _add(self, execution: Execution, repetition: int) -> None:
        op = execution.op
        record = self._records.get(op) or _new_record(execution, self._numbers[op])
        stem = f"{record.file}.{repetition}" if repetition else record.file
        operands, results = (
            self._value_records(f"{stem}.{kind}", values, arrays)
            for kind, values, arrays in (
                ("operand", op.operands, execution.operands),
                ("result", op.results, execution.results),
            )
        )
        arrays = _recorded_arrays(operands, execution.operands)
        arrays += _recorded_arrays(results, execution.results)
        steps = [
            _step_record(stem, step, number, arrays)
            for number, step in enumerate(execution.steps)
        ]
        if op not in self._records:
            self._records[op] = record
            record.operands, record.results, record.steps = operands, results, steps
            self.constants |= {
                found.file: array
                for found, array in arrays
                if found.is_constant or found.value is None
            }
            self._save(stem, [pair for pair in arrays if pair[0].is_constant])
        self._compare_steps(record, steps, arrays)
        self._save(stem, [pair for pair in arrays if not pair[0].is_constant])

    def _compare_steps(
        self,
        record: OpRecord,
        steps: Sequence[StepRecord],
        arrays: Sequence[tuple[ArrayRecord, Array]],
    ) -> None:
        """Remember the arrays of steps that differ from those of the first execution."""
        found = {known.file: array for known, array in arrays}
        for first, step in zip(record.steps, steps, strict=True):
            for name, known in first.arrays.items():
                array = found[step.arrays[name].file]
                if not np.array_equal(self.constants[known.file], array):
                    self.changed.add(known.file)

    def _value_records(
        self, prefix: str, values: Sequence[SSAValue], arrays: Sequence[object]
    ) -> Sequence[ArrayRecord | None]:
        """Return a record for each value; `None` for handles and absent operands."""
        return [
            None
            if array is None or isinstance(array, tuple)
            else self._value_record(f"{prefix}{index}", value, np.asarray(array))
            for index, (value, array) in enumerate(zip(values, arrays, strict=True))
        ]

    def _value_record(self, file: str, value: SSAValue, array: Array) -> ArrayRecord:
        if array.dtype.kind == "O" or array.dtype.itemsize not in (1, 2, 4, 8):
            block = value.owner
            op = block if isinstance(block, Operation) else block.parent_op()
            assert op is not None
            message = f"value of type '{shortened(value.type)}' cannot be traced"
            raise ValueError(
                located_message(op, f"{message}; expected numbers of at most 64 bits")
            )
        element = scalar_or_element_type(value.type)
        scaled = element if isinstance(element, ScaledQuantizedType) else None
        return ArrayRecord(
            file,
            shortened(element) if scaled is None else scaled.storage_text,
            integer_width(value.type) or 8 * array.dtype.itemsize,
            array.dtype.kind not in "ub",
            array.shape,
            self._values.setdefault(value, len(self._values)),
            constant_attr(value) is not None,
            None if scaled is None else np.ravel(scaled.scale_array()).tolist(),
            None if scaled is None else np.ravel(scaled.zero_point_array()).tolist(),
            None if scaled is None else scaled.axis,
        )

    def _save(self, stem: str, arrays: Sequence[tuple[ArrayRecord, Array]]) -> None:
        """Write arrays of an op that are all constant, or all of this call."""
        if not arrays:
            return
        folder = CONSTANTS if arrays[0][0].is_constant else self._folder
        named: dict[str, Array] = {}
        for record, array in arrays:
            path = self._directory / folder / f"{record.file}.hex"
            path.write_text(hexadecimal(array, record.bits), "ascii")
            named[record.file.removeprefix(f"{stem}.")] = array
        # The stubs take `bool` for the option `allow_pickle`.
        cast(Any, np.savez)(self._directory / folder / f"{stem}.npz", **named)


def _known_fields(record: ArrayRecord | OpRecord) -> Mapping[str, object]:
    """Return the fields of a record that are not `None`, also of nested records."""

    def known(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        return {name: value for name, value in pairs if value is not None}

    return asdict(record, dict_factory=known)


def _recorded_arrays(
    records: Sequence[ArrayRecord | None], arrays: Sequence[object]
) -> list[tuple[ArrayRecord, Array]]:
    return [
        (record, np.asarray(array))
        for record, array in zip(records, arrays, strict=True)
        if record is not None
    ]


def _step_record(
    stem: str,
    step: Step,
    number: int,
    arrays: list[tuple[ArrayRecord, Array]],
) -> StepRecord:
    """Return the record of a step, and add its arrays to those of the op."""
    records: dict[str, ArrayRecord] = {}
    for name, array in step.arrays.items():
        bits = 8 * array.dtype.itemsize
        records[name] = record = ArrayRecord(
            f"{stem}.{name}{number or ''}",
            f"{array.dtype.kind}{bits}",
            bits,
            True,
            array.shape,
            is_constant=name == "table",
        )
        arrays.append((record, array))
    return StepRecord(step.primitive, records, step.numbers)


def _recorded_ops(module: ModuleOp) -> Iterator[Operation]:
    """Yield the ops of a module, without constants, functions, calls and handles."""
    for op in module.walk():
        is_constant = any(constant_attr(result) is not None for result in op.results)
        if not (
            is_constant
            or isinstance(op, ModuleOp | FuncOp)
            or op.has_trait(IsTerminator)
            or op_name(op) in _WITHOUT_RECORD
        ):
            yield op


def _new_record(execution: Execution, number: int) -> OpRecord:
    op = execution.op
    location = op.location
    name = location.desc.data if isinstance(location, NameLoc) else ""
    words = re.sub(r"[^A-Za-z0-9]+", "_", name)[-_MAX_NAME:].strip("_")
    stem = f"{number:04}_{op_name(op).rpartition('.')[2]}"
    handles = [
        cast("tuple[str, str]", value)
        for value in execution.operands
        if isinstance(value, tuple)
    ]
    function = op.parent_op()
    while function is not None and not isinstance(function, FuncOp):
        function = function.parent_op()
    return OpRecord(
        number,
        op_name(op),
        "" if function is None else function.sym_name.data,
        name or location_prefix(location).removesuffix(": "),
        f"{stem}_{words}" if words else stem,
        {
            key: plain
            for key, value in {**op.properties, **op.attributes}.items()
            if (plain := _attribute_number(value)) is not None
        },
        "/".join(filter(None, handles[0])) if handles else None,
    )


def _attribute_number(
    attribute: Attribute,
) -> int | float | str | Sequence[int] | None:
    """Return a number, text or list of integers; `None` for other attributes."""
    match attribute:
        case StringAttr():
            return attribute.data
        case IntegerAttr() | FloatAttr():
            return attribute.value.data
        case ArrayAttr() if all(isinstance(part, IntegerAttr) for part in attribute):
            return [cast("IntegerAttr", part).value.data for part in attribute]
        case _:
            return None


class TracedModel(RecordedFunction):
    """Stateful model whose calls are written to a directory of golden vectors."""

    def __init__(
        self,
        directory: Path,
        module: ModuleOp,
        name: str | None = None,
        **rounding: Any,
    ):
        """
        Prepare a function.

        Args:
            directory: an existing empty directory.
            module: module with ops that the interpreter runs without a lowering.
            name: name of the function; `None` for the only public function, or for `main`.
            rounding: keyword arguments of `StatefulModel`.

        Raises:
            ValueError: if an op is lowered or compiled before it runs.
        """
        for op in module.walk():
            if has_stablehlo_ops([op]) and not isinstance(op, ModuleOp | FuncOp):
                raise ValueError(_untraceable(op, "it is lowered before it runs"))
        if (op := compiled_only([module])) is not None:
            raise ValueError(_untraceable(op, "the interpreter does not support it"))
        super().__init__(module, name, **rounding)
        self.vectors = GoldenVectors(directory, module)

    def step(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """Run the function, and write the values of its ops; see `StatefulModel.step`."""
        results = super().step(*arguments)
        parameters = self._function.args
        values = [
            check_argument(argument, parameter.type, "argument")
            for argument, parameter in zip(arguments, parameters, strict=True)
        ]
        self.vectors.add_call(self._function, values, self.executions)
        return results


def _untraceable(op: Operation, reason: str) -> str:
    return located_message(
        op, f"'{op_name(op)}' op cannot be traced: {reason}; convert it to 'tfl' first"
    )
