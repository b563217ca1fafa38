"""
Bias correction: quantization shifts the mean result of a contraction, and a changed bias
compensates this shift.

The shift of a channel is the mean difference between the float model and the quantized
model on samples. It includes the shifts of earlier kernels. So biases are corrected in
kernel order, and each shift is measured with the earlier kernels corrected. Shifts
below `_CERTAIN` standard errors are ignored. The method is that of Nagel et al.,
"Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, section
4.2.

1. Shifts are measured on one half of the samples, result errors on the other half.
2. All kernels are corrected in order, and the result error is measured after each. The
   corrections up to the kernel with the smallest error are kept: the correction of an
   early kernel often reduces the error only together with later ones.
3. Each of the remaining kernels is corrected alone, and keeps its correction if the
   error decreases.
4. The shifts of the corrected kernels are measured again on all samples.

The error on the second half is never larger than without corrections.

The model is compiled once, with biases as arguments. A pass over the kernels makes at
most `_MOST_CALLS` calls. With more kernels, it uses fewer batches, but at least
`_LEAST_BATCHES`. For so few batches, the float model is interpreted: that is faster than
compiling it. The sums of the interpreter differ within the rounding errors of `f32`.
With more than `_MOST_GROUPS` kernels, groups of consecutive kernels take the place of
single kernels in steps 2 and 3: their result error is measured once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import sqrt
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.tensor import ExtractSliceOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    Adds,
    MultipliesAndAccumulates,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.execution.llvm_library import libraries
from xdsl_quant.runtime.arrays import dense_elements
from xdsl_quant.runtime.batches import Arguments, Batch
from xdsl_quant.runtime.entry_function import entry_function, referenced_symbols
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.weights.layers.channels import constant_like

from .errors import float_module, quantized_module, result_key
from .recording import RecordedModule
from .samples import evenly_spaced_batches
from .signal_noise import OUTPUT, Error, Values, relative_noise

_CERTAIN = 3.0

_CHANCE = 1.05
"""Maximum ratio of the noise after step 4 of the method to the noise before it (0.2 dB)."""

_MOST_CALLS = 2048
"""Maximum number of compiled calls of the quantized model per pass over its kernels."""

_MOST_INTERPRETED_CALLS = 128
"""Maximum number of calls per pass if the model is interpreted, without MLIR."""

_LEAST_BATCHES, _MOST_BATCHES = 8, 128

_MOST_GROUPS = _MOST_CALLS // _LEAST_BATCHES
"""Maximum number of kernels, or groups of kernels, whose corrections are judged."""

Numbers = NDArray[np.float64]

Biases: TypeAlias = "Mapping[str, NDArray[np.floating]]"
"""Maps the key of a kernel result to the elements of the bias."""


class Correction(NamedTuple):
    """Corrected biases, and the errors of results on the second half of the samples."""

    before: Mapping[str, Error]
    """Errors of results without corrections, by key."""

    after: Mapping[str, Error]
    """Errors of results with corrections, by key."""

    biases: Biases

    model: RecordedModule
    """The corrected model, compiled."""

    def apply(self, resolved: ModuleOp, entry: str | None) -> None:
        """Set the corrected biases in a model that is equal except for its biases."""
        for key, bias in _biases(resolved, entry).items():
            bias.set(self.biases[key])


def correct_biases(
    resolved: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    reference: ModuleOp | None = None,
    exact: RecordedModule | None = None,
) -> Correction | None:
    """
    Correct the constant biases of quantized contractions in the entry function, so that
    kernel results have the same means as in the float model. Keep only corrections that
    improve the model results.

    Args:
        resolved: a model whose kernels have quantization parameters; its constants
            change.
        batches: samples, read once.
        entry: the function that takes the samples.
        reference: the same model with the constants of the float model, if `resolved`
            has other weights.
        exact: the compiled float model. It is compiled again if it does not record the
            results of all `biased_kernels`.

    Returns:
        The correction; `None` if no bias is constant, or a function calls `entry`.
    """
    biases = _biases(resolved, entry)
    if not biases:
        return None
    if exact is None or not biases.keys() <= {*exact.function.keys}:
        floats = resolved if reference is None else reference
        exact = _float_model(floats, entry, biases.keys())
    search = _Search.of(resolved, biases, exact, entry)
    search.read(batches)
    original = {key: bias.elements for key, bias in biases.items()}
    before = search.errors(original)
    corrected, after = search.run(original, before)
    model = search.with_biases(corrected)
    correction = Correction(before, after, corrected, model)
    correction.apply(resolved, entry)
    return correction


def _float_model(
    module: ModuleOp, entry: str | None, keys: Collection[str]
) -> RecordedModule:
    model = RecordedModule.of(float_module(module, entry, keys=keys), entry)
    # It runs only a few batches.
    return replace(model, is_interpreted=len(keys) > _MOST_GROUPS)


def biased_kernels(resolved: ModuleOp, entry: str | None = None) -> Collection[str]:
    """
    Return the [keys][xdsl_quant.quantizer.errors.result_key] of the results of the kernels
    whose biases `correct_biases` corrects.
    """
    return _biases(resolved, entry).keys()


class _Sample(NamedTuple):
    batch: Arguments
    expected: Values


@dataclass
class _Search:
    biases: Mapping[str, _Bias]
    exact: RecordedModule
    quantized: RecordedModule
    """The quantized model, whose last arguments are stacked biases."""

    stacks: Sequence[Sequence[str]]
    """Keys of the biases of each last argument; they have the same type."""

    estimation: list[_Sample] = field(default_factory=list[_Sample])

    judgement: list[_Sample] = field(default_factory=list[_Sample])

    @staticmethod
    def of(
        resolved: ModuleOp,
        biases: Mapping[str, _Bias],
        exact: RecordedModule,
        entry: str | None,
    ) -> _Search:
        module = resolved.clone()
        function = entry_function(module, entry)
        block = function.body.block
        stacks: dict[Attribute, dict[str, _Bias]] = {}
        for key, bias in _biases(module, entry).items():
            stacks.setdefault(bias.constant.results[0].type, {})[key] = bias
        # Passing a thousand arguments takes longer than computing small layers.
        for stack in stacks.values():
            _replace_by_argument([*stack.values()], block)
        function.arg_attrs = None
        function.update_function_type()
        quantized = quantized_module(module, entry, keys=biases)
        actual = RecordedModule.of(quantized, entry)
        return _Search(biases, exact, actual, [[*stack] for stack in stacks.values()])

    def read(self, batches: Iterable[Batch]) -> None:
        """Select batches, and run the float model on them."""
        most_calls = _MOST_CALLS if libraries() else _MOST_INTERPRETED_CALLS
        most = max(_LEAST_BATCHES, min(most_calls // len(self.biases), _MOST_BATCHES))
        chosen = evenly_spaced_batches(batches, most)
        if len(chosen) == 1:
            chosen = [*split_rows(chosen[0], self.quantized.function.argument_shapes)]
        samples: list[_Sample] = []
        for batch in chosen:
            values = self.exact.values(batch).items()
            needed = {k: v for k, v in values if OUTPUT in k or k in self.biases}
            samples.append(_Sample(batch, needed))
        self.estimation = samples[::2]
        self.judgement = samples[1::2] or samples

    def with_biases(self, biases: Biases) -> RecordedModule:
        # For many small arrays, `np.stack` takes eight times as long.
        constants = [np.array([biases[key] for key in keys]) for keys in self.stacks]
        return replace(self.quantized, constants=constants)

    def errors(self, biases: Biases) -> Mapping[str, Error]:
        """Return errors of the model results or, without a result, of the last kernel."""
        errors: dict[str, Error] = {}
        model = self.with_biases(biases)
        for sample in self.judgement:
            keys = [key for key in sample.expected if OUTPUT in key]
            keys = keys or [*sample.expected][-1:]
            actual = model.values(sample.batch, keys)
            for key in keys:
                error = errors.setdefault(key, Error())
                error.add(sample.expected[key], actual[key])
        return errors

    def shifts(
        self,
        biases: Biases,
        keys: Iterable[str],
        samples: Iterable[_Sample] | None = None,
    ) -> Mapping[str, Numbers]:
        """Return mean differences from float results (default: first half of samples)."""
        means: dict[str, list[Numbers]] = {key: [] for key in keys}
        model = self.with_biases(biases)
        for sample in self.estimation if samples is None else samples:
            actual = model.values(sample.batch, means.keys())
            for key, batch_means in means.items():
                if key in sample.expected:
                    difference = sample.expected[key] - actual[key]
                    batch_means.append(self.biases[key].mean(difference))
        return {key: _certain_shift(each) for key, each in means.items() if each}

    def run(
        self, original: Biases, errors: Mapping[str, Error]
    ) -> tuple[Biases, Mapping[str, Error]]:
        """Return the best biases, and the errors of the results for these biases."""
        best = path = original
        loss = original_loss = relative_noise(errors)
        rest = groups = _kernel_groups([*original])
        for number, group in enumerate(groups):
            before = path
            for key in group:
                path = _added(path, self.shifts(path, [key]))
            if path is before:
                continue
            path_errors = self.errors(path)
            if (path_loss := relative_noise(path_errors)) < loss:
                best, loss, errors = path, path_loss, path_errors
                rest = groups[number + 1 :]
        keys = [key for group in rest for key in group]
        shifts = self.shifts(best, keys)
        for group in rest:
            corrected = _added(best, {k: s for k, s in shifts.items() if k in group})
            if corrected is best:
                continue
            corrected_errors = self.errors(corrected)
            if (corrected_loss := relative_noise(corrected_errors)) < loss:
                best, loss, errors = corrected, corrected_loss, corrected_errors
                shifts = self.shifts(best, keys)
        refined = self._refined(original, best)
        refined_errors = self.errors(refined)
        if relative_noise(refined_errors) <= min(loss * _CHANCE, original_loss):
            return refined, refined_errors
        return best, errors

    def _refined(self, original: Biases, corrected: Biases) -> Biases:
        """Correct the same kernels again in order, from differences on all samples."""
        refined = original
        for key, bias in corrected.items():
            if bias is not original[key]:
                samples = (*self.estimation, *self.judgement)
                refined = _added(refined, self.shifts(refined, [key], samples))
        return refined


def _kernel_groups(keys: Sequence[str]) -> Sequence[Sequence[str]]:
    """Divide keys into at most `_MOST_GROUPS` groups of consecutive keys."""
    size = -(-len(keys) // _MOST_GROUPS)
    return [keys[start : start + size] for start in range(0, len(keys), size)]


def _replace_by_argument(stack: Sequence[_Bias], block: Block) -> None:
    """Replace constants of one type by slices of a new argument of a block."""
    type_ = cast("TensorType", stack[0].constant.results[0].type)
    shape, rank = type_.get_shape(), 1 + len(type_.get_shape())
    stacked = TensorType(type_.element_type, (len(stack), *shape))
    argument = block.insert_arg(stacked, len(block.args))
    for i, bias in enumerate(stack):
        offsets = [i] + [0] * (rank - 1)
        slice_ = ExtractSliceOp(argument, offsets, [1, *shape], [1] * rank, type_)
        Rewriter.replace_op(bias.constant, slice_)


def _added(biases: Biases, shifts: Mapping[str, Numbers]) -> Biases:
    """Add shifts to biases; return the same object if all shifts are 0."""
    changed = {
        key: (biases[key] + shift).astype(biases[key].dtype)
        for key, shift in shifts.items()
        if shift.any()
    }
    return {**biases, **changed} if changed else biases


def split_rows(
    batch: Arguments, shapes: Sequence[tuple[int, ...]]
) -> Iterator[Arguments]:
    """Yield both halves of a batch's rows, or the batch if it cannot be split."""
    arrays = [*map(np.asarray, batch)]
    rows = {array.shape[0] if array.ndim else 0 for array in arrays}
    is_dynamic = all(shape and shape[0] < 0 for shape in shapes[: len(arrays)])
    if not is_dynamic or len(rows) != 1 or (count := min(rows)) < 2:
        yield batch
        return
    yield tuple(array[: count // 2] for array in arrays)
    yield tuple(array[count // 2 :] for array in arrays)


def _certain_shift(means: Sequence[Numbers]) -> Numbers:
    """Return the mean difference of each channel over batches; 0 if it may be chance."""
    count = len(means)
    mean = reduce(np.add, means) / count
    squares = reduce(np.add, map(np.square, means)) / count
    variance = np.maximum(squares - np.square(mean), 0)
    is_certain = np.abs(mean) > _CERTAIN * np.sqrt(variance) / sqrt(count)
    return np.where(is_certain, mean, 0.0)


@dataclass(frozen=True)
class _Bias:
    """Constant bias of a single kernel."""

    constant: Operation
    axes: tuple[int, ...]
    """Dimensions of the result along which the bias is broadcast."""

    def mean(self, differences: NDArray[np.floating]) -> Numbers:
        means = np.mean(differences, self.axes, np.float64)
        return np.reshape(means, self.elements.shape)

    def set(self, elements: NDArray[np.floating]) -> None:
        value = self.constant.results[0]
        constant = constant_like(value, elements, value.type)
        self.constant.properties["value"] = constant.properties["value"]

    @property
    def elements(self) -> NDArray[np.floating]:
        return dense_elements(self._value)

    @property
    def _value(self) -> DenseIntOrFPElementsAttr[AnyFloat]:
        value = self.constant.properties["value"]
        return cast("DenseIntOrFPElementsAttr[AnyFloat]", value)


def _biases(module: ModuleOp, entry: str | None) -> Mapping[str, _Bias]:
    """Return the biases of quantized contractions in a function, by result key."""
    biases: dict[str, _Bias] = {}
    function = entry_function(module, entry)
    if any(function.sym_name.data in referenced_symbols(op) for op in module.body.ops):
        # Biases become arguments, which calls of the function do not pass.
        return biases
    for number, kernel in enumerate(kernels_of(module)):
        is_quantized = all(
            isinstance(spec, UniformType) for spec in kernel.output_specs
        )
        if not is_quantized or (value := _bias_of(kernel)) is None:
            continue
        bias = _bias_constant(value, kernel)
        if bias is not None and function.is_ancestor(bias.constant):
            biases[result_key(number, 0)] = bias
    return biases


def _bias_of(kernel: RegionOp) -> SSAValue | None:
    product: Operation | None = None
    for op in kernel.body.block.ops:
        operands: list[SSAValue] = []
        if quantization_trait(op, MultipliesAndAccumulates) is not None:
            product = op
            if (trait := quantization_trait(op, AccumulatorUniformScale)) is not None:
                operands = [*op.operands[trait.bias : trait.bias + 1]]
        elif product is not None and quantization_trait(op, Adds) is not None:
            operands = [each for each in op.operands if each.owner is not product]
        if len(operands) == 1 and isinstance(port := operands[0], BlockArgument):
            return kernel.inputs[port.index]
    return None


def _bias_constant(value: SSAValue, kernel: RegionOp) -> _Bias | None:
    """Return the constant of a bias, broadcast or not, if nothing else uses it."""
    type_ = kernel.results[0].type
    if not isinstance(type_, TensorType) or len([*value.uses]) != 1:
        return None
    rank = len(type_.get_shape())
    bias_dimensions: list[int] | None = None
    if isinstance(region := value.owner, RegionOp):
        op, *other_ops = region.body.block.ops
        dimensions = op.get_attr_or_prop("broadcast_dimensions")
        if len(other_ops) != 1 or not isinstance(dimensions, DenseArrayBase):
            return None
        bias_dimensions = [int(dimension) for dimension in dimensions.get_values()]
        value = region.inputs[0]
    constant = value.owner
    if not isinstance(constant, Operation) or not constant.has_trait(ConstantLike):
        return None
    own = value.type
    attr = constant.properties.get("value")
    if (
        not isinstance(own, TensorType)
        or not isinstance(attr, DenseIntOrFPElementsAttr)
        or len([*value.uses]) != 1
    ):
        return None
    shape = own.get_shape()
    if bias_dimensions is None:
        bias_dimensions = [*range(rank - len(shape), rank)]
    result = type_.get_shape()
    if any(
        shape[i] != result[dimension] for i, dimension in enumerate(bias_dimensions)
    ):
        return None
    return _Bias(constant, tuple(i for i in range(rank) if i not in bias_dimensions))


# Former name, kept for compatibility.
halves = split_rows
