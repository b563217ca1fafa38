"""
Small functions of all kinds that compiled code must compute as the interpreter does:
reductions, products, windows, casts, elementwise ops and moves of data.

One dimension at a time has the sizes 1 to 17, while the others have 1, 3 or 16: loops that
LLVM unrolls, masks, or splits into vectors and what is left of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple
from zlib import crc32

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

FLOATS = "f16", "bf16", "f32", "f64"
INTEGERS = "i8", "i16", "i32", "i64"
_DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}

_LONGEST = 17
_OTHER_SIZES = 1, 3, 16


class Tensor(NamedTuple):
    """A static tensor type."""

    shape: tuple[int, ...]
    element: str

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.element])}>"


class Case(NamedTuple):
    """A function of tensors with one result."""

    name: str
    operands: Sequence[Tensor]
    result: Tensor

    body: str
    """Ops that compute `%r` from `%a0`, `%a1` and so on."""

    is_exact: bool = False
    """Whether operands are small integers, so that no order of sums changes them."""

    def function(self) -> str:
        """The private function."""
        arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(self.operands))
        return f"""
func.func private @{self.name}({arguments}) -> {self.result} {{
  {self.body}
  return %r : {self.result}
}}"""

    def arrays(self, *, has_specials: bool) -> list[NDArray[Any]]:
        """
        Operands, always the same.

        Args:
            has_specials: whether some numbers are NaN, infinite or zero. LLVM has loops of
                their own for NaN.
        """
        rng = np.random.default_rng(crc32(self.name.encode()))
        has_specials &= not self.is_exact
        return [
            _drawn(rng, tensor, is_exact=self.is_exact, has_specials=has_specials)
            for tensor in self.operands
        ]


def _drawn(
    rng: np.random.Generator, tensor: Tensor, *, is_exact: bool, has_specials: bool
) -> NDArray[Any]:
    shape, element = tensor
    if element in _DTYPES:
        numbers = rng.integers(-8, 9, shape).astype(np.float64)
        if not is_exact:
            numbers = rng.normal(0, 40, shape)
        if has_specials:
            special = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 0.5], shape)
            numbers = np.where(rng.random(shape) < 0.1, special, numbers)
        return numbers.astype(_DTYPES[element])
    width, is_signed = _storage(element)
    low, high = (-(1 << width >> 1), 1 << width >> 1) if is_signed else (0, 1 << width)
    low, high = (low, high) if not is_exact else (max(low, -8), min(high, 9))
    dtype = f"{'int' if is_signed else 'uint'}{max(8, width)}"
    numbers = rng.integers(low, high, shape, dtype, endpoint=False)
    ends = rng.choice(np.array([low, high - 1], dtype), shape)
    return np.where(rng.random(shape) < 0.2, ends, numbers).astype(dtype)


def _storage(element: str) -> tuple[int, bool]:
    """Width and signedness of an integer type, or of the storage of a quantized one."""
    name = element.partition("<")[2].partition(":")[0] if "<" in element else element
    return int(name.lstrip("ui")), not name.startswith("u")


def module_of(cases: Sequence[Case]) -> str:
    """A module whose entry computes the results of all cases."""
    arguments: list[str] = []
    calls: list[str] = []
    for k, case in enumerate(cases):
        names = [f"%a{k}_{i}" for i in range(len(case.operands))]
        types = [*map(str, case.operands)]
        arguments += [f"{n}: {t}" for n, t in zip(names, types, strict=True)]
        signature = f"({', '.join(types)}) -> {case.result}"
        calls.append(
            f"%r{k} = func.call @{case.name}({', '.join(names)}) : {signature}"
        )
    results = ", ".join(str(case.result) for case in cases)
    values = ", ".join(f"%r{k}" for k in range(len(cases)))
    ops = "\n  ".join(calls)
    functions = "".join(case.function() for case in cases)
    return f"""
func.func @main({", ".join(arguments)}) -> ({results}) {{
  {ops}
  return {values} : {results}
}}{functions}
"""


# Sizes


def shapes(rank: int, *, are_others_equal: bool = False) -> list[tuple[int, ...]]:
    """The shapes that are tried, all or those whose other dimensions are equal."""
    others = [*product(_OTHER_SIZES, repeat=rank - 1)]
    if are_others_equal:
        others = [(size,) * (rank - 1) for size in _OTHER_SIZES]
    return sorted(
        {
            (*rest[:axis], size, *rest[axis:])
            for axis in range(rank)
            for size in range(1, _LONGEST + 1)
            for rest in others
        }
    )


def _name(*parts: str | int | tuple[int, ...] | None) -> str:
    words = (
        "x".join(map(str, part)) if isinstance(part, tuple) else str(part)
        for part in parts
    )
    text = "_".join(words)
    return "".join(c if c.isalnum() else "_" for c in text)


# Loops


class _Loops(NamedTuple):
    """A `linalg.generic` with one result."""

    loops: str
    """The names of the loops: `m, n, k`."""

    inputs: Sequence[str]
    """The indices of each operand: `(m, k)`."""

    output: str
    ops: str
    """From `%x0`, `%x1` and so on, and the result so far `%o`, to `%y`."""

    start: str | None = None
    """The first result of a reduction."""

    def text(
        self,
        operands: Sequence[Tensor],
        result: Tensor,
        names: Sequence[str] | None = None,
    ) -> str:
        """The ops, which make `%r`."""
        names = names or [f"%a{i}" for i in range(len(operands))]
        maps = ", ".join(
            f"affine_map<({self.loops}) -> {indices}>"
            for indices in (*self.inputs, self.output)
        )
        kinds = ", ".join(
            '"parallel"' if loop in self.output else '"reduction"'
            for loop in self.loops.split(", ")
        )
        start = f"tensor.empty() : {result}"
        if self.start is not None:
            start = f"arith.constant dense<{self.start}> : {result}"
        block = ", ".join(f"%x{i}: {t.element}" for i, t in enumerate(operands))
        return f"""%start = {start}
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins({", ".join(names)} : {", ".join(map(str, operands))})
      outs(%start : {result}) {{
  ^bb0({block}, %o: {result.element}):
    {self.ops}
    linalg.yield %y : {result.element}
  }} -> {result}"""


def _case(
    name: str, loops: _Loops, operands: Sequence[Tensor], result: Tensor, **options: Any
) -> Case:
    return Case(name, operands, result, loops.text(operands, result), **options)


# Reductions

_STARTS = {
    "addf": "1.0",
    "mulf": "1.0",
    "maximumf": "-3.0",
    "minimumf": "3.0",
    "maxnumf": "-3.0",
    "minnumf": "3.0",
    "addi": "1",
    "muli": "1",
    "maxsi": "-3",
    "minsi": "3",
    "maxui": "3",
    "minui": "3",
    "andi": "-1",
    "xori": "1",
}
_OF_ALL_TYPES = {
    "addf": FLOATS,
    "maximumf": FLOATS,
    "maxnumf": FLOATS,
    "addi": INTEGERS,
    "muli": INTEGERS,
    "maxsi": INTEGERS,
}
"""Ops that are tried with all types; others with one or two."""
_WIDENED = {
    "extsi": ("i8", "i32", "addi"),
    "extui": ("i8", "i32", "addi"),
    "extf": ("f16", "f32", "addf"),
}


def reductions() -> Iterator[Case]:
    """Sums, products, minima and maxima along either dimension, or both."""
    same = [
        (type_, type_, f"%y = arith.{op} %o, %x0 : {type_}", op)
        for op in _STARTS
        for type_ in _OF_ALL_TYPES.get(op, ("f32",) if op.endswith("f") else ("i8",))
    ]
    wider = [
        (
            narrow,
            wide,
            f"%w = arith.{extend} %x0 : {narrow} to {wide}\n"
            f"    %y = arith.{op} %o, %w : {wide}",
            op,
        )
        for extend, (narrow, wide, op) in _WIDENED.items()
    ]
    for (source, target, ops, op), shape, kept in product(
        [*same, *wider], shapes(2), ("(i)", "(j)", "()")
    ):
        loops = _Loops("i, j", ["(i, j)"], kept, ops, _STARTS[op])
        sizes = {"(i)": shape[:1], "(j)": shape[1:], "()": ()}[kept]
        name = _name("reduce", ops.split()[2], op, source, target, shape, kept[1:-1])
        is_exact = op in ("addf", "mulf")
        yield _case(
            name,
            loops,
            [Tensor(shape, source)],
            Tensor(sizes, target),
            is_exact=is_exact,
        )


def dynamic_parameters() -> Iterator[Case]:
    """Scales of `quant.choose_parameters`, from the range of each row, column or tensor."""
    for shape, (axis, blocks), type_ in product(
        shapes(2), enumerate(("{0:1}", "{1:1}", "")), ("f32", "f16")
    ):
        operand = Tensor(shape, type_)
        scale = f"tensor<{shape[axis]}x{type_}>" if blocks else type_
        zero = f"tensor<{shape[axis]}xi8>" if blocks else "i8"
        result = Tensor(shape[axis : axis + 1] if blocks else (), type_)
        convert = "%r = tensor.cast %s" if blocks else "%r = tensor.from_elements %s"
        types = f"{scale} to {result}" if blocks else str(result)
        body = f"""%s, %z = quant.choose_parameters %a0 {blocks} as <i8>
      : {operand} to {scale}, {zero}
  {convert} : {types}"""
        yield Case(
            _name("choose", blocks, type_, shape),
            [operand],
            result,
            body,
            is_exact=True,
        )


# Products

_FACTORS = [
    ("f32", "f32", "f32", "", ""),
    ("f64", "f64", "f64", "", ""),
    ("f16", "f16", "f32", "extf", "extf"),
    ("bf16", "bf16", "f32", "extf", "extf"),
    ("i8", "i8", "i32", "extsi", "extsi"),
    ("i8", "i8", "i32", "extui", "extsi"),
    ("i16", "i8", "i64", "extsi", "extsi"),
    ("i32", "i32", "i32", "", ""),
]
_TRANSPOSED = "f32", "i8"
_MATMULS = ("(m, k)", "(k, n)", "(m, n)"), ("(m, k)", "(n, k)", "(m, n)")


def _multiply_add(left: str, right: str, result: str, extends: tuple[str, str]) -> str:
    suffix = "f" if result.startswith("f") else "i"
    lines: list[str] = []
    for i, (extend, type_) in enumerate(zip(extends, (left, right), strict=True)):
        if extend:
            lines.append(f"%f{i} = arith.{extend} %x{i} : {type_} to {result}")
    factors = ", ".join(f"%f{i}" if e else f"%x{i}" for i, e in enumerate(extends))
    lines.append(f"%p = arith.mul{suffix} {factors} : {result}")
    lines.append(f"%y = arith.add{suffix} %o, %p : {result}")
    return "\n    ".join(lines)


def products() -> Iterator[Case]:
    """Products of matrices, of variables, and of bytes with constants."""
    for (left, right, result, *extends), maps, (m, n, k) in product(
        _FACTORS, _MATMULS, shapes(3)
    ):
        is_transposed = maps[1] == "(n, k)"
        if is_transposed and left not in _TRANSPOSED:
            continue
        operands = [
            Tensor((m, k), left),
            Tensor((n, k) if is_transposed else (k, n), right),
        ]
        ops = _multiply_add(left, right, result, (extends[0], extends[1]))
        start = "1.0" if result.startswith("f") else "1"
        loops = _Loops("m, n, k", maps[:2], maps[2], ops, start)
        name = _name("matmul", *extends, left, right, result, maps[1], (m, n, k))
        yield _case(name, loops, operands, Tensor((m, n), result), is_exact=True)
    for shape, extend, is_rescaled in product(shapes(3), ("extsi", "extui"), (0, 1)):
        yield _weighted(shape, extend, is_rescaled=bool(is_rescaled))


_RESCALE = """%f = arith.sitofp %x0 : i32 to f32
    %scaled = arith.mulf %f, %x1 : f32
    %rounded = math.roundeven %scaled : f32
    %low = arith.constant -128.0 : f32
    %high = arith.constant 127.0 : f32
    %above = arith.maximumf %rounded, %low : f32
    %clamped = arith.minimumf %above, %high : f32
    %y = arith.fptosi %clamped : f32 to i8"""


def _weighted(shape: tuple[int, ...], extend: str, *, is_rescaled: bool) -> Case:
    """A product of bytes with constants, whose sums may become bytes."""
    m, n, k = shape
    name = _name("weights", extend, "bytes" if is_rescaled else "sums", shape)
    rng = np.random.default_rng(crc32(name.encode()))
    weights = rng.integers(-128, 128, (k, n))
    types = [Tensor((m, k), "i8"), Tensor((k, n), "i8")]
    sums = Tensor((m, n), "i32")
    maps, output = _MATMULS[0][:2], _MATMULS[0][2]
    ops = _multiply_add("i8", "i8", "i32", (extend, "extsi"))
    loops = _Loops("m, n, k", maps, output, ops, "7")
    body = f"""%w = arith.constant dense<{weights.tolist()}> : {types[1]}
  {loops.text(types, sums, ["%a0", "%w"])}"""
    if not is_rescaled:
        return Case(name, types[:1], sums, body)
    body = body.replace("%r =", "%sums =").replace("%start", "%zeros")
    scales = Tensor((n,), "f32")
    last = _Loops("m, n", ["(m, n)", "(n)"], "(m, n)", _RESCALE)
    result = Tensor((m, n), "i8")
    numbers = (np.arange(1, n + 1) / (128.0 * k)).tolist()
    body += f"""
  %scales = arith.constant dense<{numbers}> : {scales}
  {last.text([sums, scales], result, ["%sums", "%scales"])}"""
    return Case(name, types[:1], result, body)


# Windows


def windows() -> Iterator[Case]:
    """Convolutions, with and without groups, and pooling, with strides 1 and 2."""
    convolutions = [f for f in _FACTORS if f[0] in ("f32", "i8", "i16", "bf16")]
    for (left, right, result, *extends), shape, stride, is_deep in product(
        convolutions, shapes(4, are_others_equal=True), (1, 2), (False, True)
    ):
        h, w, c, f = shape
        if is_deep and f > 1:
            continue
        image = Tensor((stride * (h - 1) + 3, stride * (w - 1) + 2, c), left)
        weights = Tensor((3, 2, c) if is_deep else (3, 2, c, f), right)
        ops = _multiply_add(left, right, result, (extends[0], extends[1]))
        start = "1.0" if result.startswith("f") else "1"
        place = f"({stride} * h + a, {stride} * w + b, c)"
        loops = _Loops(
            "h, w, f, a, b, c", [place, "(a, b, c, f)"], "(h, w, f)", ops, start
        )
        if is_deep:
            loops = _Loops(
                "h, w, c, a, b", [place, "(a, b, c)"], "(h, w, c)", ops, start
            )
        kind = "depthwise" if is_deep else "convolution"
        name = _name(kind, *extends, left, right, result, stride, shape)
        sums = Tensor((h, w, c if is_deep else f), result)
        yield _case(name, loops, [image, weights], sums, is_exact=True)
    poolings = [
        (op, type_)
        for op in ("addf", "maximumf", "maxnumf", "minnumf", "addi", "maxsi", "minui")
        for type_ in (("f16", "f32") if op.endswith("f") else ("i8", "i32"))
    ]
    for (op, type_), (h, w, c), stride in product(
        poolings, shapes(3, are_others_equal=True), (1, 2)
    ):
        image = Tensor((stride * (h - 1) + 2, stride * (w - 1) + 3, c), type_)
        # The window itself is no operand of what is computed.
        window = Tensor((2, 3), "i1")
        ops = f"%y = arith.{op} %o, %x0 : {type_}"
        indices = [f"({stride} * h + a, {stride} * w + b, c)", "(a, b)"]
        loops = _Loops("h, w, c, a, b", indices, "(h, w, c)", ops, _STARTS[op])
        body = f"%window = arith.constant dense<true> : {window}\n  " + loops.text(
            [image, window], result := Tensor((h, w, c), type_), ["%a0", "%window"]
        )
        yield Case(
            _name("pool", op, type_, stride, (h, w, c)),
            [image],
            result,
            body,
            is_exact=op == "addf",
        )


# Casts and elementwise ops

_CLAMPED = """%low = arith.constant {low}.0 : {0}
    %high = arith.constant {high}.0 : {0}
    %zero = arith.constant 0.0 : {0}
    %is_nan = arith.cmpf uno, %x0, %x0 : {0}
    %number = arith.select %is_nan, %zero, %x0 : {0}
    %above = arith.maxnumf %number, %low : {0}
    %clamped = arith.minnumf %above, %high : {0}
    %y = arith.{op} %clamped : {0} to {1}"""


def _conversions() -> Iterator[tuple[str, str, str]]:
    """Source, target and ops of conversions of numbers."""
    integers = "i4", *INTEGERS
    for narrow, wide in product(integers, integers):
        if int(narrow[1:]) < int(wide[1:]):
            for op in ("extsi", "extui"):
                yield narrow, wide, f"%y = arith.{op} %x0 : {narrow} to {wide}"
            yield wide, narrow, f"%y = arith.trunci %x0 : {wide} to {narrow}"
    for integer, float_ in product(integers, FLOATS):
        if float_ != "f32" and integer not in ("i8", "i32"):
            continue
        for op in ("sitofp", "uitofp"):
            yield integer, float_, f"%y = arith.{op} %x0 : {integer} to {float_}"
        # Limits that all floats represent.
        limit = 1 << min(int(integer[1:]) - 2, 10)
        for op, low in (("fptosi", -limit), ("fptoui", 0)):
            ops = _CLAMPED.format(float_, integer, low=low, high=limit, op=op)
            yield float_, integer, ops
    for narrow, wide in (
        *(("f16", t) for t in ("f32", "f64")),
        *(("bf16", t) for t in ("f32", "f64")),
        ("f32", "f64"),
    ):
        yield narrow, wide, f"%y = arith.extf %x0 : {narrow} to {wide}"
        yield wide, narrow, f"%y = arith.truncf %x0 : {wide} to {narrow}"


_QUANTIZED: Sequence[tuple[str, str, int | None]] = (
    *((storage, "f32", None) for storage in ("i8", "u8", "i4", "i16", "u16")),
    *(("i8", float_, None) for float_ in ("f16", "bf16", "f64")),
    *product(("i8", "u4"), ("f32",), (0, 1)),
)
"""Storage, expressed type and axis."""


def casts() -> Iterator[Case]:
    """Conversions of numbers, and casts of quantized types."""
    for (source, target, ops), shape in product(_conversions(), shapes(2)):
        loops = _Loops("i, j", ["(i, j)"], "(i, j)", ops)
        name = _name("convert", ops.split()[-6], source, target, shape)
        yield _case(name, loops, [Tensor(shape, source)], Tensor(shape, target))
    for (storage, float_, axis), shape in product(_QUANTIZED, shapes(2)):
        zero = 1 if storage.startswith("u") else -1
        scales = f"0.5:{zero}"
        if axis is not None:
            numbers = (f"{0.25 * (i + 1)}:{zero}" for i in range(shape[axis]))
            scales = f"{{{', '.join(numbers)}}}"
        place = "" if axis is None else f":{axis}"
        element = f"!quant.uniform<{storage}:{float_}{place}, {scales}>"
        floats, stored = Tensor(shape, float_), Tensor(shape, element)
        kind = _name(storage, float_, axis, shape)
        body = f"%r = quant.qcast %a0 : {floats} to {stored}"
        yield Case(f"qcast_{kind}", [floats], stored, body)
        body = f"%r = quant.dcast %a0 : {stored} to {floats}"
        yield Case(f"dcast_{kind}", [stored], floats, body)


_BINARY_FLOATS = (
    *("addf", "subf", "mulf", "divf"),
    *("maximumf", "minimumf", "maxnumf", "minnumf"),
)
_BINARY_INTEGERS = (
    *("addi", "subi", "muli", "andi", "ori", "xori"),
    *("maxsi", "minsi", "maxui", "minui"),
)
_SHIFTS = "shli", "shrsi", "shrui"
_AVERAGE = """%a = arith.extsi %x0 : i8 to i32
    %b = arith.extsi %x1 : i8 to i32
    %s = arith.addi %a, %b : i32
    %one = arith.constant 1 : i32
    %h = arith.shrsi %s, %one : i32
    %y = arith.trunci %h : i32 to i8"""


def elementwise() -> Iterator[Case]:
    """Binary ops of tensors of the same shape, of rows and of columns."""
    ops = [
        (type_, f"%y = arith.{op} %x0, %x1 : {type_}", op)
        for op in (*_BINARY_FLOATS, *_BINARY_INTEGERS)
        for type_ in _OF_ALL_TYPES.get(
            op, ("f32",) if op in _BINARY_FLOATS else ("i8", "i32")
        )
    ]
    ops += [
        (
            type_,
            f"%c = arith.constant 3 : {type_}\n    %m = arith.andi %x1, %c : {type_}\n"
            f"    %y = arith.{op} %x0, %m : {type_}",
            op,
        )
        for op, type_ in product(_SHIFTS, ("i8", "i32"))
    ]
    ops += [
        (
            type_,
            f"%c = arith.cmp{kind} {condition}, %x0, %x1 : {type_}\n"
            f"    %y = arith.select %c, %x1, %x0 : {type_}",
            f"select_{condition}",
        )
        for kind, conditions, types in (
            ("f", ("olt", "ule", "une"), ("f32",)),
            ("i", ("slt", "uge", "eq"), ("i8", "i32")),
        )
        for condition, type_ in product(conditions, types)
    ]
    ops.append(("i8", _AVERAGE, "average"))
    indices = {"(i, j)": (0, 1), "(i)": (0,), "(j)": (1,)}
    for (type_, body, op), other, shape in product(ops, indices, shapes(2)):
        if other != "(i, j)" and op not in ("addf", "addi", "average"):
            continue
        second = Tensor(tuple(shape[i] for i in indices[other]), type_)
        loops = _Loops("i, j", ["(i, j)", other], "(i, j)", body)
        name = _name("elementwise", op, type_, other[1:-1], shape)
        yield _case(name, loops, [Tensor(shape, type_), second], Tensor(shape, type_))


# Moves of data


class _Move(NamedTuple):
    """An op that moves data."""

    name: str
    operands: Sequence[tuple[int, ...]]
    result: tuple[int, ...]

    op: str
    """With `{0}` and `{1}` for the types of operands and `{r}` for that of the result."""


def _moves(n: int, m: int) -> Iterator[_Move]:
    part = f"[{n}, {m}]"
    op = f"tensor.extract_slice %a0[1, 1] {part} [2, 1] : {{0}} to {{r}}"
    yield _Move("slice", [(2 * n + 1, m + 2)], (n, m), op)
    op = f"tensor.extract_slice %a0[0, 0] {part} [1, 2] : {{0}} to {{r}}"
    yield _Move("stride", [(n, 2 * m)], (n, m), op)
    whole = n + 1, m + 2
    op = f"tensor.insert_slice %a0 into %a1[1, 1] {part} [1, 1] : {{0}} into {{r}}"
    yield _Move("insert", [(n, m), whole], whole, op)
    op = "tensor.concat dim({axis}) %a0, %a1 : ({{0}}, {{1}}) -> {{r}}"
    yield _Move("concat0", [(n, m), (3, m)], (n + 3, m), op.format(axis=0))
    yield _Move("concat1", [(n, m), (n, 3)], (n, m + 3), op.format(axis=1))
    op = "tensor.collapse_shape %a0 [[0], [1, 2]] : {0} into {r}"
    yield _Move("collapse", [(n, m, 2)], (n, 2 * m), op)


def _reindexed(n: int, m: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Names, indices and shapes of the operand of loops that compute nothing."""
    yield "transpose", "(j, i)", (m, n)
    yield "reverse", f"({n - 1} - i, {m - 1} - j)", (n, m)
    yield "rows", "(i)", (n,)
    yield "columns", "(j)", (m,)
    yield "halves", "(i floordiv 2, j)", ((n + 1) // 2, m)


def moves() -> Iterator[Case]:
    """Transposes, slices, padding, concatenations, broadcasts and reshapes."""
    for type_, (n, m) in product(("i4", "i8", "i16", "f32"), shapes(2)):
        for move in _moves(n, m):
            types = [Tensor(operand, type_) for operand in move.operands]
            result = Tensor(move.result, type_)
            body = f"%r = {move.op.format(*types, r=result)}"
            yield Case(_name(move.name, type_, (n, m)), types, result, body)
        for kind, place, shape in _reindexed(n, m):
            ops = f"%y = arith.bitcast %x0 : {type_} to {type_}"
            loops = _Loops("i, j", [place], "(i, j)", ops)
            name = _name(kind, type_, (n, m))
            yield _case(name, loops, [Tensor(shape, type_)], Tensor((n, m), type_))
        zero = "0.0" if type_.startswith("f") else "0"
        operand, result = Tensor((n, m), type_), Tensor((n + 3, m + 1), type_)
        body = f"""%zero = arith.constant {zero} : {type_}
  %r = tensor.pad %a0 low[1, 0] high[2, 1] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : {type_}
  }} : {operand} to {result}"""
        yield Case(_name("pad", type_, (n, m)), [operand], result, body)


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "reductions": reductions,
    "parameters": dynamic_parameters,
    "products": products,
    "windows": windows,
    "casts": casts,
    "elementwise": elementwise,
    "moves": moves,
}


def sample(group: str, count: int | None) -> list[Case]:
    """Cases of a group in a fixed random order, so that the first ones are of all kinds."""
    cases = sorted(GROUPS[group](), key=lambda case: crc32(case.name.encode()))
    return cases[:count]
