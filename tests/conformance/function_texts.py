"""Random modules of functions with casts and calls: the input of passes."""

from dataclasses import dataclass, field, replace
from random import Random

from xdsl.dialects.builtin import IntegerType, NoneAttr

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    QuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.constructor_arguments import int_array
from xdsl_quant.dialects.quant.storage_types import (
    default_storage_max,
    default_storage_min,
)

from .op_texts import DYNAMIC, Shape, container, encoding, fitting_shape, quantized_type
from .type_texts import (
    COMMON_FLOATS,
    StorageGenerator,
    integer_storage,
    main_storage,
    one_in,
)


@dataclass(frozen=True)
class ValueType:
    """The type of an SSA value: a scalar or a tensor of an element type."""

    element: str
    shape: Shape
    is_tensor: bool
    quantized: QuantizedType | None = None
    encoding: str = ""

    def __str__(self) -> str:
        if not self.is_tensor:
            return self.element
        return container(self.element, self.shape, self.encoding)

    def with_element(
        self, element: str, quantized: QuantizedType | None = None
    ) -> "ValueType":
        """The same container of other elements."""
        return replace(self, element=element, quantized=quantized)


def _zero_points(type_: StoredQuantizedType) -> list[int]:
    if isinstance(type_, UniformQuantizedType):
        return [type_.zero_point.data]
    if isinstance(type_, UniformQuantizedPerAxisType | UniformQuantizedSubChannelType):
        return list(int_array(type_.zero_points))
    return []


def _fits_a_tensor(type_: QuantizedType) -> bool:
    """Whether there is a tensor that may have elements of this type."""
    if not isinstance(type_, UniformQuantizedSubChannelType):
        return True
    blocks = dict(type_.block_size_info)
    counts = type_.scales_shape.get_values()
    if max(blocks, default=0) >= len(counts):
        return False
    return all(count == 1 for axis, count in enumerate(counts) if axis not in blocks)


def _is_usable(type_: QuantizedType) -> bool:
    """Whether passes work on a type, and nothing wraps around in it."""
    if isinstance(type_, AnyQuantizedType | CalibratedQuantizedType):
        return False
    assert isinstance(type_, StoredQuantizedType)
    if not isinstance(type_.storage_type, IntegerType):
        return True
    if type_.storage_type != type_.signless_storage_type:
        return False
    low = default_storage_min(type_.storage_type_integral_width, type_.is_signed)
    high = default_storage_max(type_.storage_type_integral_width, type_.is_signed)
    return all(low <= z <= high for z in _zero_points(type_))


def quantized_value_type(rng: Random, storage: StorageGenerator) -> ValueType:
    """A value type that the verifiers accept; seldom one that a pass refuses."""
    while not (
        _fits_a_tensor(type_ := quantized_type(rng, storage))
        and (_is_usable(type_) or one_in(rng, 40))
    ):
        pass
    shape = fitting_shape(rng, type_)
    is_per_layer = isinstance(type_, UniformQuantizedType)
    if isinstance(type_, UniformQuantizedPerAxisType) and shape is not None:
        axis = type_.quantized_dimension.data
        if axis >= len(shape):
            shape = None
    if isinstance(type_, UniformQuantizedSubChannelType):
        shape = _verified_shape(type_)
    is_tensor = not is_per_layer or not one_in(rng, 3)
    shape = shape if is_tensor else None
    return ValueType(str(type_), shape, is_tensor, type_, encoding(rng))


def _verified_shape(type_: UniformQuantizedSubChannelType) -> list[int]:
    """The dimensions that a sub-channel type asks for; dynamic where none fit."""
    blocks = dict(type_.block_size_info)
    all_sizes: dict[int, list[int]] = {}
    for axis, size in type_.block_size_info:
        all_sizes.setdefault(axis, []).append(size)
    shape: list[int] = []
    for axis, count in enumerate(type_.scales_shape.get_values()):
        size = blocks.get(axis, 1) * count if axis in blocks else 4
        is_static = size < 1 << 31 and all(
            size % block == 0 for block in all_sizes.get(axis, [])
        )
        shape.append(size if is_static else DYNAMIC)
    return shape


@dataclass
class _Function:
    """A function that is being written."""

    rng: Random
    name: str
    storage: StorageGenerator
    arguments: list[ValueType] = field(default_factory=list[ValueType])
    values: list[tuple[str, ValueType]] = field(
        default_factory=list[tuple[str, ValueType]]
    )
    lines: list[str] = field(default_factory=list[str])
    declarations: list[str] = field(default_factory=list[str])

    def add_argument(self, type_: ValueType) -> None:
        """One more argument."""
        self.arguments.append(type_)
        self.values.append((f"%a{len(self.arguments) - 1}", type_))

    def _new_value(self, type_: ValueType) -> str:
        name = f"%v{len(self.values)}"
        self.values.append((name, type_))
        return name

    def add_cast(self) -> None:
        """A cast of some value to a type that fits it."""
        name, type_ = self.rng.choice(self.values)
        if casts := self._casts(type_):
            op, result = self.rng.choice(casts)
            self.lines.append(self._cast(op, name, type_, result))

    def _casts(self, type_: ValueType) -> list[tuple[str, ValueType]]:
        """The casts of a value: to what is next to its type, or to a type seen before."""
        if type_.quantized is not None:
            return [
                (op, type_.with_element(element))
                for op, element in _neighbours(type_.quantized).items()
            ]
        return [
            (op.replace("dcast", "qcast"), other)
            for _, other in self.values
            if other.quantized is not None
            and other.with_element("") == type_.with_element("")
            for op, element in _neighbours(other.quantized).items()
            if element == type_.element
        ]

    def add_region(self) -> None:
        """A cast in the branches of an `scf.if`."""
        name, type_ = self.rng.choice(self.values)
        if not (casts := self._casts(type_)):
            return
        op, result = self.rng.choice(casts)
        branch = (
            f"    %r = quant.{op} {name} : {type_} to {result}\n"
            f"    scf.yield %r : {result}\n"
        )
        condition = f"%c{len(self.lines)}"
        self.lines.append(f"{condition} = arith.constant true")
        assigned = self._new_value(result)
        self.lines.append(
            f"{assigned} = scf.if {condition} -> ({result}) {{\n{branch}"
            f"  }} else {{\n{branch}  }}"
        )

    def add_branch(self) -> None:
        """A branch that hands a value to the next block."""
        name, type_ = self.rng.choice(self.values)
        label = f"^bb{len(self.lines)}"
        self.lines.append(f"cf.br {label}({name} : {type_})")
        self.lines.append(f"{label}({self._new_value(type_)}: {type_}):")

    def _cast(self, op: str, name: str, type_: ValueType, result: ValueType) -> str:
        return f"{self._new_value(result)} = quant.{op} {name} : {type_} to {result}"

    def add_call(self, callee: str) -> None:
        """A call of a function that is declared for it."""
        rng = self.rng
        operands = rng.choices(self.values, k=rng.randrange(3))
        results = [
            random_value_type(rng, self.storage) for _ in range(rng.randrange(2))
        ]
        names = [self._new_value(type_) for type_ in results]
        arguments = ", ".join(name for name, _ in operands)
        signature = (
            f"({', '.join(str(t) for _, t in operands)}) -> {_result_text(results)}"
        )
        assigned = f"{', '.join(names)} = " if names else ""
        self.lines.append(f"{assigned}func.call @{callee}({arguments}) : {signature}")
        self.declarations.append(f"func.func private @{callee}{signature}")

    def use_all(self) -> None:
        """Make sure that no value is dead."""
        names = ", ".join(name for name, _ in self.values)
        types = ", ".join(str(type_) for _, type_ in self.values)
        self.lines.append(f"func.call @use_{self.name}({names}) : ({types}) -> ()")
        self.declarations.append(f"func.func private @use_{self.name}({types})")

    def text(self) -> str:
        """The whole function, which returns some of its values."""
        returned = self.rng.choices(self.values, k=self.rng.randrange(4))
        arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(self.arguments))
        types = [type_ for _, type_ in returned]
        tail = f" {', '.join(n for n, _ in returned)} : {', '.join(map(str, types))}"
        body = "".join(f"  {line}\n" for line in self.lines)
        return (
            f"func.func @{self.name}({arguments}) -> {_result_text(types)} {{\n{body}"
            f"  return{tail if returned else ''}\n}}\n"
        )


def _neighbours(type_: QuantizedType) -> dict[str, str]:
    """The element types that a quantized type can be cast to, by the name of the cast."""
    neighbours: dict[str, str] = {}
    if not isinstance(type_.expressed_type, NoneAttr):
        neighbours["dcast"] = str(type_.expressed_type)
    if isinstance(type_, StoredQuantizedType):
        if type_.storage_type == type_.signless_storage_type:
            neighbours["scast"] = str(type_.storage_type)
    return neighbours


def _result_text(types: list[ValueType]) -> str:
    return f"({', '.join(map(str, types))})"


def random_value_type(rng: Random, storage: StorageGenerator) -> ValueType:
    """A quantized type, the types next to it, or something else."""
    type_ = quantized_value_type(rng, storage)
    assert type_.quantized is not None
    # A type with a sign in its storage, and without an expressed type, has none.
    neighbours = [*_neighbours(type_.quantized).values()]
    if neighbours and one_in(rng, 3):
        return type_.with_element(rng.choice(neighbours))
    if one_in(rng, 18):
        return ValueType(rng.choice(COMMON_FLOATS), None, False)
    return type_


def _add_arguments(function: _Function) -> None:
    for _ in range(function.rng.randint(1, 3)):
        type_ = quantized_value_type(function.rng, function.storage)
        function.add_argument(type_)
        assert type_.quantized is not None
        expressed = type_.quantized.expressed_type
        if one_in(function.rng, 2) and not isinstance(expressed, NoneAttr):
            function.add_argument(type_.with_element(str(expressed)))


def _function(
    rng: Random, index: int, storage: StorageGenerator, has_casts: bool
) -> _Function:
    function = _Function(rng, f"f{index}", storage)
    _add_arguments(function)
    for step in range(rng.randint(1, 6)):
        match rng.randrange(12) if has_casts else 11:
            case 11 | 10:
                function.add_call(f"g{index}_{step}")
            case 9:
                function.add_region()
            case 8 if one_in(rng, 3):
                function.add_branch()
            case _:
                function.add_cast()
    if one_in(rng, 2):
        function.use_all()
    return function


def _module(rng: Random, storage: StorageGenerator, *, has_casts: bool = True) -> str:
    functions = [
        _function(rng, index, storage, has_casts)
        for index in range(rng.choice((1, 1, 2)))
    ]
    parts = [d + "\n" for function in functions for d in function.declarations]
    return "".join([*parts, *(function.text() for function in functions)])


def function_text(rng: Random) -> str:
    """A module of some functions."""
    return _module(rng, integer_storage)


def main_function_text(rng: Random) -> str:
    """
    A module of some functions with types that have float or quantile storage, as MLIR has
    them since version 23. Half of them have no casts, which MLIR makes invalid IR of.
    """
    return _module(rng, main_storage, has_casts=one_in(rng, 2))
