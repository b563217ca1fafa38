"""
The pass `convert-tfl-to-tosa`: models of TensorFlow Lite as TOSA.

Each op becomes ops of TOSA that compute the integers of TensorFlow Lite's reference
kernels: sums are rescaled by `tosa.rescale` with the multiplier, the shift and the
rounding (`DOUBLE_ROUND`) of the kernels, functions of one stored value are tables, and
what moves elements moves stored values. Types become those of stored values:
`tensor<4x!quant.uniform<i8:f32, 0.5>>` is `tensor<4xi8>`. Stored values of `u8` are the
bits of `i8` in arguments and results.

Example:

```mlir
func.func @main(
    %x: tensor<4x!quant.uniform<i8:f32, 0.5>>
) -> tensor<4x!quant.uniform<i8:f32, 0.25>> {
  %0 = "tfl.relu"(%x) : (tensor<4x!quant.uniform<i8:f32, 0.5>>)
      -> tensor<4x!quant.uniform<i8:f32, 0.25>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.25>>
}
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import located_message, op_name
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.runtime.arrays import dense_elements
from xdsl_quant.unsupported import Unsupported

from .fallbacks import Fallback, list_fallbacks, without_conversion
from .kernels import IMPLEMENTATIONS, Computation, parameters_of
from .kernels.elementwise import ELEMENTWISE
from .tosa import elementwise, floats, moving, products, resizing
from .tosa.building import Operand, TosaBuilder, is_unsigned, lowered_type
from .tosa.elementwise import Lowering

LOWERINGS: Mapping[type[Operation], Lowering] = {
    **elementwise.LOWERINGS,
    **moving.LOWERINGS,
    **products.LOWERINGS,
    **resizing.LOWERINGS,
}
"""What builds the ops of TOSA for an op of TensorFlow Lite."""


@dataclass(frozen=True)
class ConvertTFLToTosaPass(CountingPass):
    """
    Convert functions of TensorFlow Lite ops to TOSA, with the integers of the reference
    kernels. All sizes must be known, and variables must be arguments and results.

    If an op has no form in TOSA, the pass fails with one sentence for each such op, and
    the module is as it was.
    """

    name = "convert-tfl-to-tosa"

    fallback: Literal["on", "off"] = "on"
    """
    What becomes of ops on stored values that TOSA has no integers for: they are computed
    with floats (`on`) and listed in the attribute `tfl.fallback` of the module, or the
    pass fails (`off`).
    """

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        xdsl_patches.apply("builtin", "func", "tosa")
        found = ops_of_dialect(op, "tfl")
        errors: list[str] = []
        fallbacks: list[Fallback] | None = None
        if self.fallback == "on":
            fallbacks = []
        functions = [
            (function, _converted(function, errors, fallbacks))
            for function in op.body.block.ops
            if isinstance(function, func.FuncOp)
        ]
        for other in op.body.block.ops:
            if not isinstance(other, func.FuncOp):
                errors.append(_message(other, "is no function"))
        if errors:
            raise PassFailedException("\n".join(errors))
        list_fallbacks(op, fallbacks or ())
        for function, new_function in functions:
            Rewriter.replace_op(function, new_function)
        return PassOutcome(found, len(found), "ops of TensorFlow Lite")


def _message(op: Operation, words: str) -> str:
    return located_message(op, f"'{op_name(op)}' op {words}")


def _converted(
    function: func.FuncOp,
    errors: list[str],
    fallbacks: list[Fallback] | None,
) -> func.FuncOp:
    """
    A function with the same name and attributes; errors and, unless it is `None`, ops that
    are computed with floats are added to lists.
    """
    if function.is_declaration:
        return function.clone()
    if len(function.body.blocks) > 1:
        errors.append(_message(function, "has more than one block"))
        return function
    try:
        return _Conversion(function, errors, fallbacks).convert()
    except Unsupported as e:
        errors.append(_message(function, str(e)))
    return function


class _Conversion:
    """The conversion of one function."""

    def __init__(
        self,
        function: func.FuncOp,
        errors: list[str],
        fallbacks: list[Fallback] | None,
    ):
        self.function = function
        self.fallbacks = fallbacks
        self.errors = errors
        types = [lowered_type(type_) for type_ in function.function_type.inputs]
        self.block = Block(arg_types=types)
        self.values: dict[SSAValue, SSAValue | None] = {}
        """New values; `None` if the op that defines one has an error."""
        self.constants: dict[SSAValue, Any] = {}
        self.absent: set[SSAValue] = set()

    def convert(self) -> func.FuncOp:
        """
        Raises:
            Unsupported: if a type of the function has no form in TOSA.
        """
        function = self.function
        old = function.body.block
        builder = self._builder(function)
        for argument, new in zip(old.args, self.block.args, strict=True):
            new.name_hint = argument.name_hint
            self.values[argument] = (
                builder.reinterpreted(new, to_signed=True)
                if is_unsigned(argument.type)
                else new
            )
        for op in old.ops:
            self._convert_op(op)
        result_types = [lowered_type(type_) for type_ in function.function_type.outputs]
        types = FunctionType.from_lists(self.block.arg_types, result_types)
        new_function = func.FuncOp(
            function.sym_name.data,
            types,
            Region(self.block),
            function.sym_visibility,
            arg_attrs=function.arg_attrs,
            res_attrs=function.res_attrs,
        )
        new_function.attributes.update(function.attributes)
        new_function.location = function.location
        return new_function

    def _builder(self, op: Operation) -> TosaBuilder:
        return TosaBuilder(InsertPoint.at_end(self.block), location=op.location)

    def _convert_op(self, op: Operation) -> None:
        builder = self._builder(op)
        try:
            if isinstance(op, tfl.ConstOp | tfl.QConstOp):
                self.constants[op.results[0]] = _elements(op)
            elif isinstance(op, tfl.NoValueOp):
                self.absent.add(op.results[0])
            elif isinstance(op, func.ReturnOp):
                self._return(builder, op)
            else:
                self._lower(builder, op)
        except (ArithmeticError, IndexError, MemoryError, ValueError) as e:
            self.errors.append(_message(op, str(e)))
            self.values.update(dict.fromkeys(op.results))

    def _operand(self, builder: TosaBuilder, value: SSAValue) -> Operand | None:
        if value in self.absent:
            return None
        array = self.constants.get(value)
        lowered = None if array is not None else self.values[value]
        return Operand(builder, value.type, lowered, array)

    def _lower(self, builder: TosaBuilder, op: Operation) -> None:
        if type(op) not in LOWERINGS and _float_lowering(op) is None:
            raise Unsupported(without_conversion(op, "TOSA"))
        if any(self.values.get(operand, 0) is None for operand in op.operands):
            # What defines it has an error.
            self.values.update(dict.fromkeys(op.results))
            return
        for result in op.results:
            lowered_type(result.type)
        operands = [self._operand(builder, operand) for operand in op.operands]
        results = self._results(builder, op, operands)
        values = cast(
            "Sequence[SSAValue]",
            (results,) if isinstance(results, SSAValue) else results,
        )
        for value, new in zip(op.results, values, strict=True):
            if new.type != (type_ := lowered_type(value.type)):
                raise Unsupported(
                    f"has results of type '{type_}', expected '{new.type}'"
                )
            new.name_hint = value.name_hint
            self.values[value] = new

    def _results(
        self, builder: TosaBuilder, op: Operation, operands: Sequence[Operand | None]
    ) -> Any:
        """
        What an op becomes: stored values or floats, or stored values by floats.

        Raises:
            Unsupported: if it becomes none of these.
        """
        of_floats = _float_lowering(op)
        lowering = LOWERINGS.get(type(op), of_floats)
        assert lowering is not None
        known = [operand for operand in operands if operand is not None]
        has_stored = any(operand.is_quantized for operand in known)
        if not has_stored and of_floats is not None and _are_floats(op.results):
            return of_floats(builder, op, *operands)
        last = self.block.last_op
        try:
            _check_kernel(op)
            if type(op) in LOWERINGS:
                return lowering(builder, op, *operands)
            raise Unsupported("has no integer form in TOSA")
        except Unsupported as e:
            if not has_stored or self.fallbacks is None:
                raise
            self._erase_after(last)
            # Constants that were built are erased, too.
            operands = [
                operand
                if operand is None or operand.array is None
                else replace(operand, lowered=None)
                for operand in operands
            ]
            try:
                results = floats.fallen_back(
                    builder, op, of_floats or lowering, *operands
                )
                self.fallbacks.append((op, str(e)))
                return results
            except (Unsupported, ValueError):
                # What is wrong is what the op itself is refused for.
                self._erase_after(last)
            raise

    def _erase_after(self, last: Operation | None) -> None:
        """Erase what was built after an op, or all."""
        while (op := self.block.last_op) is not last and op is not None:
            self.block.erase_op(op)

    def _return(self, builder: TosaBuilder, op: func.ReturnOp) -> None:
        values: list[SSAValue] = []
        for operand in op.operands:
            new = self._operand(builder, operand)
            if new is None or (new.lowered is None and new.array is None):
                return
            value = new.value
            if is_unsigned(operand.type):
                value = builder.reinterpreted(value, to_signed=False)
            values.append(value)
        builder.insert(func.ReturnOp(*values))


def _check_kernel(op: Operation) -> None:
    """
    Raises:
        Unsupported: if there is no integer kernel for the types of an op that has some
            quantized ones.
    """
    computation = IMPLEMENTATIONS.get(type(op))
    if not isinstance(computation, Computation):
        return
    types = *op.operand_types, *op.result_types
    if all(parameters_of(type_) is None for type_ in types):
        return
    if (missing := computation.missing_kernel(op)) is not None:
        raise Unsupported(missing.reason)


def _float_lowering(op: Operation) -> floats.FloatLowering | None:
    """Return how floats are computed: by the formula if nothing else is known of an op."""
    by_formula = None
    if type(op) in ELEMENTWISE and type(op) not in LOWERINGS:
        by_formula = floats.by_formula
    return floats.LOWERINGS.get(type(op), by_formula)


def _are_floats(values: Sequence[SSAValue]) -> bool:
    types = [scalar_or_element_type(value.type) for value in values]
    return all(type_ == f32 for type_ in types)


def _elements(op: tfl.ConstOp | tfl.QConstOp) -> Any:
    """The elements of a constant: floats or integers, those of `u8` 128 less."""
    try:
        array = dense_elements(cast(Any, op.value))
    except TypeError as e:
        raise Unsupported(str(e)) from e
    if array.dtype.kind == "f":
        return array
    values = array.astype(np.int64)
    return (values & 255) - 128 if is_unsigned(op.results[0].type) else values
