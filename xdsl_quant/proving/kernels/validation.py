"""Proofs that a pipeline preserves the results of kernels."""

import time
from collections.abc import Callable, Iterator
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant import execution
from xdsl_quant.diagnostics import counted, op_name
from xdsl_quant.dialects.quant.traits import (
    CastsQuantization,
    ComputesElementwise,
    MovesElements,
    has_quantization_trait,
)
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_passes
from xdsl_quant.runtime.missing_lowering import lower_stablehlo_ops

from ..pipelines import lower_quant_ops
from ..terms import UnsupportedError
from ..theorems import Theorem, Verdict
from .comparison import KernelComparison, RefutedError, UndecidedError
from .cutting import ModelKernel, cut_kernels
from .elementwise import decide_elementwise
from .forms import Kind
from .means import FloatMeanProof, MeanProof, float_sums
from .products import ProductProof

_ELEMENTWISE = ComputesElementwise, CastsQuantization


def kernel_theorems(module: ModuleOp, passes: str) -> Iterator[Theorem]:
    """
    Yield a theorem for each kernel of a model: the pipeline preserves its results.

    Args:
        module: module of `tfl` ops.
        passes: pipeline that lowers them.

    Raises:
        IRError: if the pipeline has an unknown pass or option.
        UnsupportedError: if the module has no kernels.
    """
    parse_passes(passes)
    if not (kernels := [*cut_kernels(module)]):
        raise UnsupportedError("the module has no ops to compare")
    yield from (prove_kernel(kernel, passes) for kernel in kernels)


def prove_kernel(
    kernel: ModelKernel, passes: str, mutate: Callable[[ModuleOp], None] | None = None
) -> Theorem:
    """
    Return the theorem that a pipeline preserves the results of a kernel.

    Args:
        kernel: kernel of a model.
        passes: pipeline that lowers it.
        mutate: function that changes the lowered module, to test the proof.
    """
    start = time.perf_counter()
    claim = f"{kernel.name} is preserved for all inputs"

    def theorem(verdict: Verdict, method: str, details: str = "") -> Theorem:
        seconds = time.perf_counter() - start
        return Theorem(claim, verdict, method, seconds, details)

    try:
        lowered = _lowered_kernel(kernel.module, passes)
    except IRError as error:
        return theorem("unknown", "no lowering", str(error).partition("\n")[0])
    if mutate is not None:
        mutate(lowered)
    try:
        comparison = KernelComparison(kernel, lowered)
    except (UnsupportedError, execution.CompilationError) as error:
        return theorem("unknown", "no code", str(error).partition("\n")[0])
    try:
        return theorem("proved", _proof_method(comparison) + comparison.level)
    except RefutedError as refuted:
        bound = f"at most {refuted.bound}: " if refuted.bound else ""
        details = bound + comparison.description(refuted.inputs)
        return theorem("refuted", f"search{comparison.level}", details)
    except (UnsupportedError, execution.CompilationError) as error:
        count = f"{counted(comparison.calls, 'input')} gave equal results"
        return theorem("unknown", count, str(error))


def _lowered_kernel(module: ModuleOp, passes: str) -> ModuleOp:
    """Return a module after passes, and after those that `compile` adds."""
    lowered = module.clone()
    apply_passes(lowered, passes, is_routine=True)
    lower_stablehlo_ops(lowered, Rounding())
    if any(op_name(op) in ("quant.qcast", "quant.dcast") for op in lowered.walk()):
        casts = lower_quant_ops(Rounding(), fuse=True)
        apply_passes(lowered, casts, is_routine=True)
    return lowered


def _proof_method(comparison: KernelComparison) -> str:
    """
    Return the method of a proof.

    Raises:
        RefutedError: with an input for which the results differ.
        UnsupportedError: if the form of the kernel is unsupported.
    """
    try:
        comparison.check_random_inputs()
    except RefutedError as refuted:
        # The proof bounds the difference.
        try:
            decide(comparison)
        except RefutedError as found:
            raise (found if found.bound else refuted) from None
        except (UnsupportedError, execution.CompilationError):
            raise refuted from None
        raise AssertionError("a proof of results that differ") from refuted
    return decide(comparison)


def decide(comparison: KernelComparison) -> str:
    """
    Return the method of a proof, which needs no random inputs.

    Raises:
        RefutedError: with an input for which the results differ.
        UnsupportedError: if the form of the kernel is unsupported.
    """
    try:
        comparison.analyze(is_scheduled=True)
        return _decide_form(comparison)
    except UndecidedError:
        raise
    except (UnsupportedError, execution.CompilationError):
        comparison.analyze(is_scheduled=False)
    return _decide_form(comparison)


def _decide_form(comparison: KernelComparison) -> str:
    op, form = comparison.kernel.op, comparison.form
    kinds = [form.kinds[result] for result in form.results]
    if max(kinds) <= Kind.MOVED and has_quantization_trait(op, MovesElements):
        return _decide_movement(comparison)
    if any(has_quantization_trait(op, trait) for trait in _ELEMENTWISE):
        return decide_elementwise(comparison)
    is_mean = op_name(op) == "tfl.average_pool_2d"
    if is_mean and (sums := float_sums(form)) is not None:
        return FloatMeanProof(comparison, sums).decide()
    proof = MeanProof if is_mean else ProductProof
    return proof(comparison, form.affine_start()).decide()


def _decide_movement(comparison: KernelComparison) -> str:
    """Compare the results for digits of the numbers of elements."""
    sizes = [prod(shape_of(type_)) for type_ in comparison.types]
    base, total = min(high - low + 1 for low, high in comparison.ranges), sum(sizes)
    if base < 2 or base % 2:
        raise UnsupportedError(f"labels need an even number of values, found {base}")
    labels, calls = np.arange(total), 0
    while True:
        digits = labels % base
        # A constant cannot be a digit and its complement.
        for values in (digits, base - 1 - digits):
            parts = np.split(values, np.cumsum(sizes)[:-1])
            comparison.check(
                [comparison.stored(i, part) for i, part in enumerate(parts)]
            )
            calls += 1
        labels = labels // base
        if not labels.any():
            return f"movement, {counted(calls, 'label')}"
