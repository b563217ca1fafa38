"""Random models with variables: conditions, loops and calls that read and assign them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

_I32 = "tensor<i32>"
_RESOURCE = "tensor<*x!tf_type.resource>"
_NONE = 'fused_activation_function = "NONE"'


class _Program:
    """
    Makes the functions of a model. All values are integers, and loops have at most three
    steps.
    """

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.variables = range(self.random.randint(1, 3))
        self.callees: list[str] = []
        self.count = 0

    def text(self) -> str:
        functions = [
            self.function(f"private @f{index}", f"@f{index}", depth=1, size=4)
            for index in range(self.random.randint(0, 2))
        ]
        call_once = '"tfl.call_once"() <{session_init_function = "init"}> : () -> ()'
        main = self.function("@main", "", depth=0, size=8, start=[call_once])
        return "\n".join([main, *functions, self.init()])

    def init(self) -> str:
        """Most variables have initial values."""
        lines = ["func.func private @init() {"]
        for index in self.variables:
            if self.random.random() < 0.8:
                constant = self.constant(f"%c{index}", self.random.randint(-5, 5))
                lines += [
                    self.handle(index),
                    constant,
                    self.assign(index, f"%c{index}"),
                ]
        return "\n".join([*lines, "return", "}"])

    def function(
        self, name: str, callee: str, depth: int, size: int, start: Sequence[str] = ()
    ) -> str:
        ops, values = self.block(["%x", "%one"], depth, size)
        if callee:
            self.callees.append(callee)
        lines = [
            f"func.func {name}(%x: {_I32}) -> {_I32} {{",
            *start,
            *map(self.handle, self.variables),
            self.constant("%zero", 0),
            self.constant("%one", 1),
            self.constant("%limit", self.random.randint(0, 3)),
            *ops,
            f"return {self.random.choice(values)} : {_I32}",
            "}",
        ]
        return "\n".join(lines)

    # Ops

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    @staticmethod
    def constant(name: str, value: int) -> str:
        return (
            f'{name} = "tfl.pseudo_const"() <{{value = dense<{value}> : {_I32}}}> '
            f": () -> {_I32}"
        )

    @staticmethod
    def handle(index: int) -> str:
        return (
            f'%h{index} = "tfl.var_handle"() <{{container = "", shared_name = "s{index}"}}>'
            f" : () -> {_RESOURCE}"
        )

    @staticmethod
    def assign(index: int, value: str) -> str:
        return (
            f'"tfl.assign_variable"(%h{index}, {value}) : ({_RESOURCE}, {_I32}) -> ()'
        )

    @staticmethod
    def add(name: str, a: str, b: str) -> str:
        return f"{name} = tfl.add {a}, {b} {{{_NONE}}} : {_I32}"

    @staticmethod
    def less(name: str, a: str, b: str) -> str:
        return f"{name} = tfl.less({a}, {b}) : ({_I32}, {_I32}) -> tensor<i1>"

    def block(
        self, values: Sequence[str], depth: int, size: int
    ) -> tuple[list[str], list[str]]:
        """Ops, and the values that there are after them."""
        ops: list[str] = []
        values = [*values]
        for _ in range(self.random.randint(1, size)):
            index, value = (
                self.random.choice(self.variables),
                self.random.choice(values),
            )
            kinds = ["read", "read", "assign", "assign", "add"]
            if depth < 3:
                kinds += ["if", "while", *(["call"] if self.callees else [])]
            name = self.new()
            match self.random.choice(kinds):
                case "assign":
                    ops.append(self.assign(index, value))
                    continue
                case "read":
                    ops.append(
                        f'{name} = "tfl.read_variable"(%h{index}) '
                        f": ({_RESOURCE}) -> {_I32}"
                    )
                case "call":
                    callee = self.random.choice(self.callees)
                    ops.append(
                        f"{name} = func.call {callee}({value}) : ({_I32}) -> {_I32}"
                    )
                case "if":
                    ops += self.condition(name, values, depth)
                case "while":
                    ops += self.loop(name, values, depth)
                    name = f"{name}#1"
                case _:
                    ops.append(self.add(name, value, self.random.choice(values)))
            values.append(name)
        return ops, values

    def region(self, values: Sequence[str], depth: int, first: str = "") -> list[str]:
        ops, results = self.block(values, depth + 1, 3)
        result = self.random.choice(results)
        yielded, types = (
            (f"{first}, {result}", f"{_I32}, {_I32}") if first else (result, _I32)
        )
        return [*ops, f'"tfl.yield"({yielded}) : ({types}) -> ()']

    def condition(self, name: str, values: Sequence[str], depth: int) -> list[str]:
        condition = self.new()
        a, b = self.random.choice(values), self.random.choice(values)
        return [
            self.less(condition, a, b),
            f'{name} = "tfl.if"({condition}) ({{',
            *self.region(values, depth),
            "}, {",
            *self.region(values, depth),
            f"}}) : (tensor<i1>) -> {_I32}",
        ]

    def loop(self, name: str, values: Sequence[str], depth: int) -> list[str]:
        condition, step, value, next_step = (self.new() for _ in range(4))
        arguments = f"^bb0({step}: {_I32}, {value}: {_I32}):"
        types = f"({_I32}, {_I32})"
        return [
            f'{name}:2 = "tfl.while"(%zero, {self.random.choice(values)}) ({{',
            arguments,
            self.less(condition, step, "%limit"),
            f'"tfl.yield"({condition}) : (tensor<i1>) -> ()',
            "}, {",
            arguments,
            self.add(next_step, step, "%one"),
            *self.region([*values, value], depth, next_step),
            f"}}) : {types} -> {types}",
        ]


def random_program(seed: int) -> str:
    """The text of a model whose function `@main` takes and returns an integer."""
    return _Program(seed).text()
