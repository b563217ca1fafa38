"""
Draw mutants of lowered kernels, and refute them.

    python -m tests.proving.kernel_mutants --count 100 --seed 0

A mutant is the code that a pipeline makes of a kernel, with one number, op or attribute
changed, where the unchanged code is proved. The prover refutes it with an input, or it is
equivalent: the proof holds, and the results are equal for all stored values of an element
or all accumulators, and for random inputs. An example is a multiplier whose last bit
changes no result. The exit code is 1 if a mutant is neither, or if an input refutes a
proof.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.proving.code_changes import change_code
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.proving.kernels import prove_kernel
from xdsl_quant.proving.kernels.comparison import KernelComparison, RefutedError
from xdsl_quant.proving.kernels.cutting import ModelKernel, cut_kernels
from xdsl_quant.proving.kernels.products import ProductProof
from xdsl_quant.proving.terms import UnsupportedError
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of
from xdsl_quant.runtime.loading import parse_module

LINALG, TOSA = "convert-tfl-to-linalg", "convert-tfl-to-tosa"
STABLEHLO = (
    "convert-tfl-to-stablehlo,quant-fuse-kernels{target=stablehlo-int8},"
    "quant-constraints-to-specs,quant-export,stablehlo-legalize-quant-to-integer"
)
PIPELINES = {"linalg": LINALG, "TOSA": TOSA, "StableHLO": STABLEHLO}

_RANDOM_INPUTS = 300

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


class _Exhaustion(ProductProof):
    """Comparison of all accumulators, where proofs compare those at steps."""

    def _is_code_monotonic(self, least: Array, most: Array) -> bool:
        return False

    def _compare_all(self, least: Array, most: Array) -> int:
        rows = int((most - least).max()) + 1
        values = np.minimum(least + np.arange(rows)[:, None], most)
        row, column = (x.reshape(-1) for x in np.indices(values.shape))
        self._compare_at(values, self._code(rows)(values), row, column)
        return values.size


def _compared_inputs(kernel: ModelKernel, lowered: ModuleOp, method: str) -> str:
    """
    Return the inputs for which a mutant was compared.

    Args:
        kernel: the kernel.
        lowered: mutant of its code.
        method: method of the proof that the results are equal.

    Raises:
        RefutedError: if the results differ.
        UnsupportedError: if results differ for an accumulator.
    """
    comparison = KernelComparison(kernel, lowered)
    random = np.random.default_rng(1)
    for number in range(_RANDOM_INPUTS):
        inputs: list[Array] = []
        for type_ in comparison.types:
            x = random.integers(-128, 128, shape_of(type_)).astype(numpy_dtype(type_))
            is_kept = random.random(x.shape) < (0.2, 1)[number % 2]
            inputs.append(np.where(is_kept, x, np.int8(-3)))
        comparison.check(inputs)
    if "unit vectors" in method:
        comparison.analyze(is_scheduled=not method.endswith("before scheduling"))
        method = _Exhaustion(comparison, comparison.form.affine_start()).decide()
    return f"{method}, and {_RANDOM_INPUTS} random inputs"


def mutant_verdict(kernel: ModelKernel, pipeline: str, seed: int) -> tuple[str, str]:
    """
    Return the verdict and text of a mutant.

    `refuted` by the prover, `equivalent` if its proof and more inputs agree, `wrong` if an
    input refutes the proof, `unknown` if there is no proof, and `none` without a change or
    if the verifiers of MLIR refuse it.
    """
    mutants: list[ModuleOp] = []
    changes: list[str | None] = []

    def mutate(module: ModuleOp) -> None:
        changes.append(change_code(module, seed))
        mutants.append(module.clone())

    theorem = prove_kernel(kernel, pipeline, mutate)
    if changes in ([], [None]) or theorem.method == "no code":
        return "none", ""
    verdict, text = str(theorem.verdict), f"{theorem.method}, {theorem.details}"
    if verdict == "proved":
        try:
            text = _compared_inputs(kernel, mutants[0], theorem.method)
            verdict = "equivalent"
        except (RefutedError, UnsupportedError) as error:
            verdict, text = "wrong", f"{theorem.method}, but {error!r}"
    return verdict, f"{kernel.name}, {changes[0]}: {text}"


def outcomes(
    count: int, seed: int, kernels: Sequence[ModelKernel] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield verdicts and texts of mutants of kernels whose code is proved."""
    kernels = [*cut_kernels(module())] if kernels is None else kernels
    are_proved: dict[tuple[int, str], bool] = {}
    number = 0
    while count:
        own = seed * 1_000_000 + number
        random, number = Random(own), number + 1
        index = random.randrange(len(kernels))
        kernel, (code, pipeline) = kernels[index], random.choice([*PIPELINES.items()])
        if (key := (index, code)) not in are_proved:
            are_proved[key] = prove_kernel(kernel, pipeline).verdict == "proved"
        if not are_proved[key]:
            continue
        verdict, text = mutant_verdict(kernel, pipeline, own)
        if verdict != "none":
            count -= 1
            yield verdict, f"{code} code of {text}"


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
    return int(not counts.keys() <= {"refuted", "equivalent"})


if __name__ == "__main__":
    sys.exit(main())
