"""
Draw mutants of lowered kernels, and refute them.

    python -m tests.proving.kernel_mutants --count 100 --seed 0

A mutant is the code that a pipeline makes of a kernel, with one number, op or attribute
changed. It is refuted with an input, or the proof holds: then random inputs must give
equal results, and the change is harmless, for example an addition of a constant that is
clamped away. The exit code is 1 if a mutant is neither refuted nor proved, or if a random
input refutes a proof.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from xdsl_quant import execution
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.proving.kernels import ModelKernel, cut_kernels, prove_kernel
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of
from xdsl_quant.runtime.loading import apply_passes, parse_module

LINALG, TOSA = "convert-tfl-to-linalg", "convert-tfl-to-tosa"
STABLEHLO = (
    "convert-tfl-to-stablehlo,quant-fuse-kernels{target=stablehlo-int8},"
    "quant-constraints-to-specs,quant-export,stablehlo-legalize-quant-to-integer"
)
PIPELINES = LINALG, TOSA

_WINDOW = (
    "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = {0} : i32, "
    'stride_w = 1 : i32, padding = "{1}", fused_activation_function = "{2}"'
)
_POOL = (
    "filter_height = 2 : i32, filter_width = 3 : i32, stride_h = 2 : i32, "
    'stride_w = 3 : i32, padding = "VALID", fused_activation_function = "NONE"'
)
_DENSE = 'fused_activation_function = "RELU", keep_num_dims = false'


def _weights(
    name: str, shape: Sequence[int], seed: int, axis: int = 0
) -> tuple[str, str, str]:
    """Return constants with random 8-bit weights and a bias, and their types."""
    random = np.random.default_rng(seed)
    channels = shape[axis]
    scales = [round(x, 6) for x in random.uniform(0.01, 0.05, channels)]
    sizes = "x".join(map(str, shape))
    type_ = f"tensor<{sizes}x!quant.uniform<i8<-127:127>:f32:{axis}, {_list(scales)}>>"
    bias_scales = _list([0.05 * x for x in scales])
    bias_type = f"tensor<{channels}x!quant.uniform<i32:f32:0, {bias_scales}>>"
    values = random.integers(-127, 128, shape).tolist()
    bias = random.integers(-500, 500, channels).tolist()
    constants = [
        (f"%w{name}", type_, values, f"tensor<{sizes}xi8>"),
        (f"%b{name}", bias_type, bias, f"tensor<{channels}xi32>"),
    ]
    lines = [
        f'{value} = "tfl.pseudo_qconst"() <{{qtype = {found}, value = dense<{elements}> : '
        f"{stored}}}> : () -> {found}\n"
        for value, found, elements, stored in constants
    ]
    return "".join(lines), type_, bias_type


def _list(numbers: Sequence[float]) -> str:
    return f"{{{', '.join(f'{x:.8f}' for x in numbers)}}}"


def _convolution(name: str, shape: Sequence[int], attributes: str, sizes: str) -> str:
    axis = 3 if name.startswith("depthwise") else 0
    constants, type_, bias = _weights(name, shape, len(name), axis)
    return constants + (
        f'%{name} = "tfl.{name}"(%x, %w{name}, %b{name}) <{{{attributes}}}> : '
        f"(tensor<1x4x6x2x!x>, {type_}, {bias}) -> tensor<{sizes}x!y>\n"
    )


def module() -> ModuleOp:
    """Return a module with a kernel of each form."""
    dense, dense_type, dense_bias = _weights("fc", (3, 48), 9)
    return parse_module(
        f"""
!x = !quant.uniform<i8:f32, 0.05:-3>
!y = !quant.uniform<i8:f32, 0.11:7>
!z = !quant.uniform<i8:f32, 3.906250e-03:-128>
func.func @main(%x: tensor<1x4x6x2x!x>) {{
{_convolution("conv_2d", (3, 3, 3, 2), _WINDOW.format(1, "SAME", "RELU"), "1x4x6x3")}
{
            _convolution(
                "depthwise_conv_2d",
                (1, 2, 3, 2),
                f"depth_multiplier = 1 : i32, {_WINDOW.format(2, 'VALID', 'NONE')}",
                "1x2x4x2",
            )
        }
%p = "tfl.average_pool_2d"(%x) <{{{
            _POOL
        }}}> : (tensor<1x4x6x2x!x>) -> tensor<1x2x2x2x!x>
%s = "tfl.pseudo_const"() <{{value = dense<[1, 48]> : tensor<2xi32>}}> : () -> tensor<2xi32>
%r = "tfl.reshape"(%x, %s) : (tensor<1x4x6x2x!x>, tensor<2xi32>) -> tensor<1x48x!x>
{dense}
%fc = "tfl.fully_connected"(%r, %wfc, %bfc) <{{{_DENSE}, weights_format = "DEFAULT"}}> :
  (tensor<1x48x!x>, {dense_type}, {dense_bias}) -> tensor<1x3x!y>
%l = "tfl.logistic"(%x) : (tensor<1x4x6x2x!x>) -> tensor<1x4x6x2x!z>
%q = "tfl.quantize"(%x) <{{qtype = tensor<1x4x6x2x!y>}}> :
  (tensor<1x4x6x2x!x>) -> tensor<1x4x6x2x!y>
%a = "tfl.add"(%x, %q) <{{fused_activation_function = "RELU"}}> :
  (tensor<1x4x6x2x!x>, tensor<1x4x6x2x!y>) -> tensor<1x4x6x2x!y>
%c = "tfl.concatenation"(%x, %x) <{{axis = 1 : i32, fused_activation_function = "NONE"}}> :
  (tensor<1x4x6x2x!x>, tensor<1x4x6x2x!x>) -> tensor<1x8x6x2x!x>
func.return
}}"""
    )


# Mutants


_SWAPS: dict[type[Operation], type[Any]] = {
    arith.AddiOp: arith.SubiOp,
    arith.SubiOp: arith.AddiOp,
    arith.MaxSIOp: arith.MinSIOp,
    arith.MinSIOp: arith.MaxSIOp,
    arith.ExtSIOp: arith.ExtUIOp,
    arith.ShRSIOp: arith.ShRUIOp,
}


def _changed_elements(attribute: Any, random: Random) -> Any:
    """Return elements with one changed number, or `None`; attributes are generic types."""
    type_ = attribute.type
    element = type_.element_type
    if not isinstance(element, IntegerType):
        return None
    values = [int(value) for value in attribute.get_values()]
    place = random.randrange(len(values))
    step = random.choice((-1, 1, 2))
    half = 1 << max(element.bitwidth - 1, 0)
    values[place] = min(max(values[place] + step, -half), half - 1)
    return DenseIntOrFPElementsAttr.from_list(type_, values)


def _change(op: Operation, random: Random) -> bool:
    """Change an op in place; return False if it has nothing to change."""
    if type(op) in _SWAPS and random.random() < 0.7:
        new = _SWAPS[type(op)]
        operands: list[Any] = [*op.operands]
        more = [op.results[0].type] if new is arith.ExtUIOp else []
        block = op.parent_block()
        assert block is not None
        other = new(*operands, *more)
        block.insert_op_before(other, op)
        op.results[0].replace_all_uses_with(other.results[0])
        op.detach()
        return True
    for name, attribute in {**op.properties, **op.attributes}.items():
        if name in ("axis", "static_offsets", "static_sizes", "static_strides"):
            continue
        found: Any = None
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            found = _changed_elements(attribute, random)
        elif isinstance(attribute, IntegerAttr) and name in (
            "value",
            "max_val",
            "min_val",
        ):
            old = cast(Any, attribute)
            value = old.value.data + random.choice((-1, 1))
            found = IntegerAttr(value, old.type, truncate_bits=True)
        if found is not None and found != attribute:
            table = op.properties if name in op.properties else op.attributes
            table[name] = found
            return True
    return False


def mutate(module: ModuleOp, seed: int) -> bool:
    """Change one op of a lowered module; return False if there is nothing to change."""
    random = Random(seed)
    ops = [*module.walk()]
    random.shuffle(ops)
    return any(_change(op, random) for op in ops)


def differs(kernel: ModelKernel, pipeline: str, seed: int) -> bool:
    """Return True if random inputs give different results."""
    lowered = kernel.module.clone()
    apply_passes(lowered, pipeline, is_routine=True)
    mutate(lowered, seed)
    code = execution.compile(lowered)
    random = np.random.default_rng(0)
    (function,) = kernel.module.ops
    assert isinstance(function, FuncOp)
    types = [*function.function_type.inputs]
    for number in range(300):
        inputs = [
            random.integers(-128, 128, shape_of(t)).astype(numpy_dtype(t))
            for t in types
        ]
        if number % 2:
            inputs = [np.where(random.random(x.shape) < 0.2, x, -3) for x in inputs]
            inputs = [x.astype(np.int8) for x in inputs]
        (expected,) = run_function(kernel.module, None, *inputs)
        if not np.array_equal(code(*inputs).reshape(expected.shape), expected):
            return True
    return False


def outcomes(
    count: int, seed: int, kernels: Sequence[ModelKernel] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield verdict and text of mutants; `wrong` for proofs that a random input refutes."""
    kernels = [*cut_kernels(module())] if kernels is None else kernels
    number = 0
    while count:
        own = seed * 1_000_000 + number
        random, number = Random(own), number + 1
        kernel, pipeline = random.choice(kernels), random.choice(PIPELINES)
        changes: list[bool] = []
        theorem = prove_kernel(
            kernel, pipeline, lambda module: changes.append(mutate(module, own))
        )
        # Changes that the verifiers of MLIR refuse are no mutants.
        if changes != [True] or theorem.method == "no code":
            continue
        count -= 1
        verdict: str = theorem.verdict
        if verdict == "proved" and differs(kernel, pipeline, own):
            verdict = "wrong"
        yield verdict, f"{pipeline}: {theorem}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for verdict, text in outcomes(options.count, options.seed):
        counts[verdict] += 1
        print(f"{verdict}: {text}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return int(any(verdict not in ("refuted", "proved") for verdict in counts))


if __name__ == "__main__":
    sys.exit(main())
