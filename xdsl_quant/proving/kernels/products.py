"""Proofs for sums of products that are rescaled."""

from collections.abc import Callable, Sequence

import numpy as np

from xdsl_quant import execution
from xdsl_quant.diagnostics import counted, op_name
from xdsl_quant.dialects.quant.traits import (
    MultipliesAndAccumulates,
    has_quantization_trait,
)
from xdsl_quant.inspecting.op_recording import Step
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.primitives import PRIMITIVES
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.stateful_function import result_tuple

from ..terms import UnsupportedError
from .affine import AffineProof
from .comparison import RefutedError, UndecidedError, distance
from .monotonicity import Trend, check_monotonic
from .parts import elementwise_part
from .step_functions import merged_steps

_MAX_PLACES = 50
"""Maximum number of different results for which an input is searched, and of its starts."""

_SUMS = "tfl.mean", "tfl.sum"
"""Ops whose formula is a sum of elements of its operand."""

_CHUNK = 1 << 20
"""Number of accumulators that are rescaled in a call."""

_MAX_STEPS = 1 << 8
"""Maximum number of results of a function that is compared at its steps only."""


class ProductProof(AffineProof):
    """Proof for sums of products that are rescaled."""

    def decide(self) -> str:
        """Return the method; see `validation.decide`."""
        self._probe, self._probe_units = self.base, 0
        op = self.comparison.kernel.op
        is_sum = has_quantization_trait(op, MultipliesAndAccumulates)
        if not is_sum and op_name(op) not in _SUMS:
            raise UnsupportedError("its formula is not known to be affine")
        if self.comparison.form.has_constants_of_pixels(self.value):
            raise UnsupportedError("its code has different constants for pixels")
        classes = self.classes()
        first, start, ones = (
            f(self.base) for f in (self._sums, self.affine, self.dependences)
        )
        offset = first - start.reshape(first.shape)
        rows = offset.reshape(-1, offset.shape[-1])
        if (rows != rows[0]).any():
            self.refute_sums()
        low, high = first.copy(), first.copy()
        span, probes = self.high - self.low, 0
        self._coefficients: list[Array] = []
        for members in classes:
            x = self.input_with(members, 1)
            if (self.dependences(x) - ones).max(initial=0) > 1:
                raise UnsupportedError("a result depends on two elements of a class")
            change = self._compared(x, first, start)
            low += span * np.minimum(change, 0)
            high += span * np.maximum(change, 0)
            self._coefficients.append(self._middle(change))
            probes += 1
            labels = np.arange(members.size)
            while len(labels) > 1 and labels.any():
                x = self.input_with(members, labels % (span + 1))
                self._compared(x, first, start)
                labels = labels // (span + 1)
                probes += 1
        self.probes, self._members = probes, classes
        self._first = self._middle(first)
        return self._decide_rescale(low, high, rows[0])

    def _sums(self, x: Array) -> Array:
        """Return the accumulators of the formula as `int64`, and compare the results."""
        (expected,) = self.comparison.before([x])
        try:
            (found,) = self.comparison.after([x])
        except ValueError:
            # A check in the code failed, e.g. of an index of a table.
            raise RefutedError([x]) from None
        if (units := distance(found, expected)) > self._probe_units:
            self._probe, self._probe_units = x, units
        self.steps = self._rescale_steps()
        return self.steps[0].arrays["accumulator"].astype(np.int64)

    def _rescale_steps(self) -> Sequence[Step]:
        executions = self.comparison.recorded.executions
        steps = [step for execution in executions for step in execution.steps]
        names = [step.primitive for step in steps]
        if (
            len(names) != 2
            or names[1] != "stored_values"
            or "accumulator" not in (steps[0].arrays)
        ):
            raise UnsupportedError(
                f"its formula has the steps {', '.join(names) or 'none'}"
            )
        return steps

    def _compared(self, x: Array, first: Array, start: Array) -> Array:
        """Return the change of the accumulators, which must be that of the code."""
        change = self._sums(x) - first
        actual = (self.affine(x) - start).reshape(change.shape)
        if (change != actual).any():
            self.comparison.check([x])
            self.refute_sums()
        return change

    def _middle(self, values: Array) -> Array:
        """Return the values of all channels at a pixel in the middle."""
        rows = values.reshape(-1, values.shape[-1])
        return rows[len(rows) // 2]

    # Rescales

    def _decide_rescale(self, low: Array, high: Array, offset: Array) -> str:
        """
        Compare the elementwise part for all values of the affine part.

        Args:
            low: smallest accumulators.
            high: largest accumulators.
            offset: accumulators less the affine part of each channel.
        """
        if max(-int(low.min()), int(high.max())) >= 1 << 31:
            raise UnsupportedError("its accumulators exceed 32 bits")
        channels = low.shape[-1]
        least = low.reshape(-1, channels).min(axis=0) - offset
        most = high.reshape(-1, channels).max(axis=0) - offset
        self._check_monotonic(int(np.abs([least + offset, most + offset]).max()))
        self._offset, self._units = offset, 0
        self._wrong: list[tuple[int, int]] = []
        if self._is_code_monotonic(least, most):
            compared = f"{self._compare_steps(least, most):,} steps"
        else:
            compared = f"{self._compare_all(least, most):,} accumulators"
        if self._probe_units > self._units:
            # The complete code differs by more than its parts.
            raise RefutedError([self._probe])
        if self._wrong:
            self._refute_results()
        return f"{self.probes:,} unit vectors, {compared}"

    @property
    def _result_dtype(self) -> np.dtype[np.generic]:
        return numpy_dtype(self.comparison.kernel.op.results[0].type)

    def _is_code_monotonic(self, least: Array, most: Array) -> bool:
        """Return True if the elementwise part is a step function of few steps."""
        # The order of the code's results is that of signed integers.
        if self._result_dtype != np.int8:
            return False
        module = elementwise_part(self.comparison.form, self.value, _MAX_STEPS)
        bounds = Trend(int(least.min()), int(most.max()), 1)
        try:
            check_monotonic(entry_function(module), bounds)
        except UnsupportedError:
            return False
        return True

    def _code(self, rows: int) -> Callable[[Array], Array]:
        """Return the code as a function of values of the affine part `[rows, channels]`."""
        module = elementwise_part(self.comparison.form, self.value, rows)
        (type_,) = entry_function(module).function_type.inputs
        code = execution.compile(module)

        def results(values: Array) -> Array:
            argument = values.reshape(shape_of(type_)).astype(numpy_dtype(type_))
            try:
                (found,) = result_tuple(code(argument))
            except ValueError as error:
                # A check in the code failed, e.g. of an index of a table. The
                # accumulators are bounds: an input need not reach them.
                raise UnsupportedError(f"its code may fail: {error}") from None
            return found.view(self._result_dtype).reshape(values.shape)

        return results

    def _compare_steps(self, least: Array, most: Array) -> int:
        """Compare two step functions where one of them changes; return the count."""
        bounds = np.iinfo(self._result_dtype.name)
        code = self._code(_MAX_STEPS)
        # The first one is a result of all arguments.
        results = np.arange(bounds.min, bounds.max + 1)[:, None]

        def formula(values: Array) -> Array:
            return self._stored(
                values, np.broadcast_to(np.arange(least.size), values.shape)
            )

        steps = merged_steps(code, formula, least, most, results)
        for values in np.split(steps, len(steps) // _MAX_STEPS):
            row, column = (x.reshape(-1) for x in np.indices(values.shape))
            self._compare_at(values, code(values), row, column)
        return steps.size

    def _compare_all(self, least: Array, most: Array) -> int:
        """Compare the code with a step function for all values; return their count."""
        channels = least.size
        rows = max(16, min(_CHUNK // channels, int((most - least).max()) + 1))
        code, count = self._code(rows), 0
        for start in range(0, int((most - least).max()) + 1, rows):
            values = np.minimum(least + start + np.arange(rows)[:, None], most)
            found = code(values)
            # The formula is a step function, so they differ at a change or at an end.
            row, column = np.nonzero(found[1:] != found[:-1])
            every = np.arange(channels)
            ends = np.zeros(channels, np.int64), np.full(channels, rows - 1)
            self._compare_at(
                values,
                found,
                np.concatenate([row, row + 1, *ends]),
                np.concatenate([column, column, every, every]),
            )
            count += values.size
        return count

    def _compare_at(
        self, values: Array, found: Array, row: Array, column: Array
    ) -> None:
        """Compare results of the code with the formula at some places."""
        values, found = values[row, column], found[row, column]
        expected = self._stored(values, column).astype(np.int64)
        differences = np.abs(expected - found.astype(np.int64))
        self._units = max(self._units, int(differences.max()))
        wrong = np.flatnonzero(differences)[:_MAX_PLACES]
        sums = values + self._offset[column]
        self._wrong += [(int(sums[i]), int(column[i])) for i in wrong]

    def _stored(self, values: Array, channels: Array) -> Array:
        """Return the stored values of values of the affine part, given their channels."""
        sums = values + self._offset[channels]
        scale, store = self.steps
        factors = {
            name: np.broadcast_to(array, (self._first.size,))[channels].astype(
                np.float64 if name == "ratio" else np.int64
            )
            for name, array in scale.arrays.items()
            if name != "accumulator"
        }
        factor: object = factors.get("ratio")
        if factor is None:
            factor = factors["multiplier"], factors["shift"]
        scaled = PRIMITIVES[scale.primitive](sums, factor)
        bounds = (store.numbers[name] for name in ("zero_point", "low", "high"))
        return np.asarray(PRIMITIVES["stored_values"](scaled, *bounds))

    def _check_monotonic(self, largest: int) -> None:
        """Check that the formula is a non-decreasing function of the accumulator."""
        arrays = self.steps[0].arrays
        factor = arrays.get("multiplier", arrays.get("ratio"))
        shift = int(np.max(arrays.get("shift", 0)))
        if factor is None or np.min(factor) < 0 or largest << max(shift, 0) >= 1 << 31:
            raise UnsupportedError("its rescale is not monotonic")

    def _refute_results(self) -> None:
        """Raise `RefutedError` with an input that gives one of the wrong results."""
        bound = counted(self._units, "unit")
        for target, channel in self._wrong[:: max(1, len(self._wrong) // _MAX_PLACES)]:
            x = self._input_for(target, channel)
            if not self.comparison.is_equal([x]):
                raise RefutedError([x], bound)
        target, channel = self._wrong[0]
        raise UndecidedError(
            f"at most {bound}: results differ for sums such as {target} of channel "
            f"{channel}, but no input was found that gives them"
        )

    def _input_for(self, target: int, channel: int) -> Array:
        """Return an input that gives about this sum for a channel of the middle pixel."""
        coefficients = np.array([c[channel] for c in self._coefficients])
        span, random = self.high - self.low, np.random.default_rng(0)
        # Start from the smallest sum, then from others.
        offsets = np.where(coefficients < 0, span, 0)
        for start in range(_MAX_PLACES):
            if start:
                offsets = random.integers(0, span + 1, coefficients.size)
            rest = target - int(self._first[channel]) - int(coefficients @ offsets)
            for place in np.argsort(-np.abs(coefficients), kind="stable"):
                size, offset = int(coefficients[place]), int(offsets[place])
                steps = int(rest / size) if size else 0
                # Other pixels may have smaller or larger sums than the middle one.
                steps = min(max(steps, -offset), span - offset)
                rest -= steps * size
                offsets[place] += steps
            if not rest:
                break
        x = self.base.copy()
        for members, offset in zip(self._members, offsets, strict=True):
            x.reshape(-1)[members] = self.low + int(offset)
        return x
