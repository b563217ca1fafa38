"""Loop nests in functions of their own."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlir", reason="no MLIR bindings")

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import functions_in, ir, ops_in, symbol_of
from xdsl_quant.execution.scheduling import outlining
from xdsl_quant.execution.scheduling.outlining import outline_loops, share_functions

PLAIN = """
    scf.for %i = %c0 to %c4 step %c1 {
      %x = memref.load %from[%i] : memref<4xf32>
      %y = arith.addf %x, %one : f32
      memref.store %y, %to[%i] : memref<4xf32>
    }"""
"""A loop that can be outlined."""


def outlined(*nests: str, others: str = "") -> tuple[list[str], Any]:
    """The names of the functions that become of a kernel, and the module."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
func.func private @kernel_1()
memref.global "private" constant @c : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func @kernel(%from: memref<4xf32>, %to: memref<4xf32>, %is: i1)
    attributes {{passthrough = ["noinline"]}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant 1.0 : f32
  {others}
  {"".join(nests)}
  return
}}""")
        names = outline_loops(module, "kernel")
        assert module.operation.verify()
        return names, module


def calls(module: ir.Module | ir.Operation) -> list[str]:
    return [symbol_of(op, "callee") for op in ops_in(module, "func.call")]


def test_a_single_loop_stays():
    names, module = outlined(PLAIN)
    assert names == calls(module) == []
    assert len(ops_in(module, "scf.for")) == 1


def test_each_of_several_has_a_function():
    names, module = outlined(*[PLAIN] * 3)
    # One name is taken.
    assert names == calls(module) == ["kernel_0", "kernel_2", "kernel_3"]
    functions = functions_in(module, names)
    assert len(functions) == 3
    for function in functions:
        assert str(function.attributes["passthrough"]) == '["noinline"]'
        # Constants are no arguments.
        assert str(function.attributes["function_type"]) == (
            "(memref<4xf32>, memref<4xf32>) -> ()"
        )
        assert len(ops_in(function, "scf.for")) == 1


def test_constants_are_not_passed():
    nest = """
    scf.for %i = %c0 to %c4 step %c1 {
      %x = memref.load %constant[%i] : memref<4xf32>
      memref.store %x, %to[%i] : memref<4xf32>
    }"""
    names, module = outlined(
        *[nest] * 2, others="%constant = memref.get_global @c : memref<4xf32>"
    )
    assert len(names) == 2
    for function in functions_in(module, names):
        assert str(function.attributes["function_type"]) == "(memref<4xf32>) -> ()"
        assert len(ops_in(function, "memref.get_global")) == 1


def test_views_of_buffers_that_are_read():
    nest = """
    scf.for %i = %c0 to %c4 step %c1 {
      %x = memref.load %view[%i] : memref<?xf32>
      %y = memref.load %from[%i] : memref<4xf32>
      %z = arith.addf %x, %y : f32
      memref.store %z, %to[%i] : memref<4xf32>
    }"""
    names, _ = outlined(
        *[nest] * 2, others="%view = memref.cast %from : memref<4xf32> to memref<?xf32>"
    )
    assert len(names) == 2


@pytest.mark.parametrize(
    ("others", "nest"),
    [
        (
            "",
            """
    %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %one) -> f32 {
      %x = memref.load %from[%i] : memref<4xf32>
      %y = arith.addf %x, %s : f32
      scf.yield %y : f32
    }""",
        ),
        (
            "",
            """
    scf.for %i = %c0 to %c4 step %c1 {
      cf.assert %is, "is not"
    }""",
        ),
        (
            "%view = memref.cast %from : memref<4xf32> to memref<?xf32>",
            """
    scf.for %i = %c0 to %c4 step %c1 {
      %x = memref.load %view[%i] : memref<?xf32>
      memref.store %x, %from[%i] : memref<4xf32>
    }""",
        ),
        (
            "%one_of = arith.select %is, %from, %to : memref<4xf32>",
            """
    scf.for %i = %c0 to %c4 step %c1 {
      %x = memref.load %one_of[%i] : memref<4xf32>
      memref.store %x, %from[%i] : memref<4xf32>
    }""",
        ),
    ],
    ids=["results", "assertions", "views", "unknown buffers"],
)
def test_what_cannot_be_outlined_stays(others: str, nest: str):
    plain = [PLAIN] * 2
    names, module = outlined(nest, *plain, others=others)
    assert len(names) == 2
    (kernel,) = functions_in(module, ["kernel"])
    assert len(ops_in(kernel, "scf.for")) == 1
    assert outlined(nest, *plain[1:], others=others)[0] == []


def test_equal_functions_are_shared():
    names, module = outlined(*[PLAIN] * 3, PLAIN.replace("addf", "subf"))
    assert names == ["kernel_0", "kernel_2", "kernel_3", "kernel_4"]
    assert share_functions(module) == {"kernel_0": 0}
    assert module.operation.verify()
    assert calls(module) == ["kernel_0"] * 3 + ["kernel_4"]
    assert not functions_in(module, ["kernel_2", "kernel_3"])


def test_shared_functions_take_their_constants_as_arguments():
    module = ir.Module.parse(
        """
memref.global "private" constant @a : memref<4xf32> = dense<1.0>
memref.global "private" constant @b : memref<4xf32> = dense<2.0>
func.func private @inner_a(%i: index) -> f32 {
  %c = memref.get_global @a : memref<4xf32>
  %x = memref.load %c[%i] : memref<4xf32>
  return %x : f32
}
func.func private @inner_b(%i: index) -> f32 {
  %c = memref.get_global @b : memref<4xf32>
  %x = memref.load %c[%i] : memref<4xf32>
  return %x : f32
}
func.func private @outer_a(%to: memref<4xf32>, %i: index) {
  %x = func.call @inner_a(%i) : (index) -> f32
  memref.store %x, %to[%i] : memref<4xf32>
  return
}
func.func private @outer_b(%to: memref<4xf32>, %i: index) {
  %x = func.call @inner_b(%i) : (index) -> f32
  memref.store %x, %to[%i] : memref<4xf32>
  return
}
func.func @kernel(%to: memref<4xf32>, %i: index) {
  func.call @outer_a(%to, %i) : (memref<4xf32>, index) -> ()
  func.call @outer_b(%to, %i) : (memref<4xf32>, index) -> ()
  return
}""",
        ir.Context(),
    )
    with module.context, ir.Location.unknown():
        # A memref of rank 1 has five parts.
        assert share_functions(module) == {"inner_a": -5, "outer_a": -5}
    assert module.operation.verify()
    assert calls(module) == ["inner_a", "outer_a", "outer_a"]
    (kernel,) = functions_in(module, ["kernel"])
    constants = ops_in(kernel, "memref.get_global")
    assert [symbol_of(op, "name") for op in constants] == ["a", "b"]
    for name, inputs in (("inner_a", "index"), ("outer_a", "memref<4xf32>, index")):
        (function,) = functions_in(module, [name])
        assert str(function.attributes["function_type"]).startswith(
            f"({inputs}, memref<4xf32>) -> "
        )


def number_functions(use: str, *numbers: str, type_: str = "i32") -> ir.Module:
    """A module with a function `f<i>` for each constant, which uses the value `%c`."""
    functions = [
        f"""
func.func private @f{i}(%x: {type_}) -> {type_} {{
  %c = arith.constant {number} : {type_}
  {use}
  return %y : {type_}
}}
func.func @kernel_{i}(%x: {type_}) -> {type_} {{
  %y = func.call @f{i}(%x) : ({type_}) -> {type_}
  return %y : {type_}
}}"""
        for i, number in enumerate(numbers)
    ]
    return ir.Module.parse("".join(functions), ir.Context())


@pytest.mark.parametrize(
    ("numbers", "type_", "passed"),
    [
        (("3", "-128"), "i32", "i8"),
        (("3", "128"), "i32", "i16"),
        (("-32769", "128"), "i32", "i32"),
        (("dense<-3>", "dense<127>"), "vector<16xi32>", "i8"),
        (("3", "-128"), "i8", "i8"),
    ],
)
def test_shared_functions_take_narrow_integers(
    numbers: tuple[str, str], type_: str, passed: str
):
    module = number_functions(
        f"%y = arith.maxsi %x, %c : {type_}", *numbers, type_=type_
    )
    with module.context, ir.Location.unknown():
        assert share_functions(module) == {"f0": -1}
        assert module.operation.verify()
    assert calls(module) == ["f0"] * 2
    (shared,) = functions_in(module, ["f0"])
    assert str(shared.attributes["function_type"]) == f"({type_}, {passed}) -> {type_}"
    assert not ops_in(shared, "arith.constant")
    constants = ops_in(module, "arith.constant")
    found = [str(op.attributes["value"]) for op in constants]
    assert found == [
        f"{n.removeprefix('dense<').rstrip('>')} : {passed}" for n in numbers
    ]


@pytest.mark.parametrize(
    ("use", "type_", "numbers"),
    [
        ("%y = arith.shrsi %x, %c : i32", "i32", ("3", "4")),
        ("%y = arith.muli %x, %c : i32", "i32", ("3", "5")),
        ("%y = arith.addi %x, %c : i64", "i64", ("3", "4")),
        ("%y = arith.addf %x, %c : f32", "f32", ("1.0", "2.0")),
        (
            "%y = arith.addi %x, %c : vector<2xi32>",
            "vector<2xi32>",
            ("dense<[1, 2]>", "dense<[1, 3]>"),
        ),
    ],
)
def test_numbers_that_code_is_faster_with_stay(
    use: str, type_: str, numbers: tuple[str, str]
):
    module = number_functions(use, *numbers, type_=type_)
    with module.context, ir.Location.unknown():
        assert share_functions(module) == {}
    assert calls(module) == ["f0", "f1"]
    equal = number_functions(use, numbers[0], numbers[0], type_=type_)
    with equal.context, ir.Location.unknown():
        assert share_functions(equal) == {"f0": 0}


def test_only_named_functions_are_shared():
    use = "%y = arith.addi %x, %c : i32"
    module = number_functions(use, *"12345")
    with module.context, ir.Location.unknown():
        assert share_functions(module, ["f1", "f3", "f4"]) == {"f1": -1}
    assert calls(module) == ["f0", "f1", "f2", "f1", "f1"]


def test_parts_of_a_long_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outlining, "_MAX_OPS", 3)
    text = """
func.func private @use(memref<4xf32>, memref<4xf32>)
memref.global "private" constant @c : memref<4xf32> = dense<1.0>
func.func @kernel(%x: memref<4xf32>, %i: index)
    attributes {{passthrough = ["noinline"]}} {{
  %c16 = arith.constant 16 : index
  %block = memref.alloc() : memref<64xi8>
  %y = memref.view %block[%c16][] : memref<64xi8> to memref<4xf32>
  %c = memref.get_global @c : memref<4xf32>
  {}
  memref.dealloc %block : memref<64xi8>
  return
}}"""
    use = "func.call @use(%y, {}) : (memref<4xf32>, memref<4xf32>) -> ()"
    load = "%e = memref.load %x[%i] : memref<4xf32>"
    store = "memref.store %e, %y[%i] : memref<4xf32>"
    # The second part is longer, as its last op needs a value of the part.
    lines = [use.format("%c")] * 5 + [load, store, *[use.format("%x")] * 2]
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text.format("\n".join(lines)))
        outlining.outline_parts(module, "kernel")
        assert module.operation.verify()
        (kernel,) = functions_in(module, ["kernel"])
        names = ["kernel_0", "kernel_1", "kernel_2"]
        assert calls(kernel) == names
        functions = functions_in(module, names)
        for function, inputs in zip(
            functions,
            (
                "memref<64xi8>",
                "memref<64xi8>, memref<4xf32>, index",
                "memref<64xi8>, memref<4xf32>",
            ),
            strict=True,
        ):
            assert str(function.attributes["function_type"]) == f"({inputs}) -> ()"
            assert str(function.attributes["passthrough"]) == '["noinline"]'
            assert len(ops_in(function, "memref.view")) == 1
        assert len(ops_in(functions[0], "memref.get_global")) == 1
        distant = [load, *[use.format("%c")] * 8, store]
        unchanged = ir.Module.parse(text.format("\n".join(distant)))
        outlining.outline_parts(unchanged, "kernel")
        (kernel,) = functions_in(unchanged, ["kernel"])
        assert calls(kernel) == ["kernel_0"]
        short = ir.Module.parse(text.format("\n".join(lines[:6])))
        outlining.outline_parts(short, "kernel")
        (kernel,) = functions_in(short, ["kernel"])
        assert calls(kernel) == ["use"] * 5


@pytest.mark.parametrize("max_ops", [2, 128])
def test_many_layers(max_ops: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outlining, "_MAX_OPS", max_ops)
    count = 12 + max_ops % 5
    rng = np.random.default_rng(0)
    weights = rng.integers(-3, 4, (count, 5, 5))
    lines = [
        f"""
  %w{i} = arith.constant dense<{weights[i].tolist()}> : tensor<5x5xi32>
  %y{i} = linalg.matmul ins(%x{i}, %w{i} : tensor<2x5xi32>, tensor<5x5xi32>)
    outs(%zero : tensor<2x5xi32>) -> tensor<2x5xi32>
  %n{i} = arith.constant dense<{i - 7}> : tensor<2x5xi32>
  %x{i + 1} = arith.maxsi %y{i}, %n{i} : tensor<2x5xi32>"""
        for i in range(count)
    ]
    function = compile(f"""
func.func @f(%x0: tensor<2x5xi32>) -> tensor<2x5xi32> {{
  %zero = arith.constant dense<0> : tensor<2x5xi32>
  {"".join(lines)}
  return %x{count} : tensor<2x5xi32>
}}""")
    x = rng.integers(-9, 10, (2, 5)).astype(np.int32)
    expected = x
    for i in range(count):
        expected = np.maximum(expected @ weights[i].astype(np.int32), i - 7)
    assert function(x).tolist() == expected.tolist()
