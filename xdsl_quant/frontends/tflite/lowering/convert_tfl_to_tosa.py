"""
The pass `convert-tfl-to-tosa`: lower TensorFlow Lite ops to TOSA.

Integer results are bit-identical to the reference kernels: `tosa.rescale` rescales sums
with the multipliers, shifts and rounding (`DOUBLE_ROUND`) of the kernels, functions of
one stored value become tables, and data movement ops move stored values. Quantized types
become storage types: `tensor<4x!quant.uniform<i8:f32, 0.5>>` becomes `tensor<4xi8>`.
Function arguments and results hold the bits of `u8` stored values as `i8`.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import located_message, op_name
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.machines.expression import NO_FORM
from xdsl_quant.numerics.primitives import Array
from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.unsupported import Unsupported

from .fallbacks import Fallback, list_fallbacks, without_conversion
from .kernels import (
    FOURIER,
    IMPLEMENTATIONS,
    MULTIPLIER_KERNELS,
    Computation,
    Implementation,
    parameters_of,
)
from .tosa import arrays, contractions, floats, forms
from .tosa.building import TosaBuilder, is_unsigned, lowered_type
from .tosa.expressions import expression_of, lift_array, stored_result, stored_results
from .tosa.special import (
    COMPUTED_IN_32_BITS,
    IMPLEMENTATIONS_IN_TOSA,
    SHAPES,
    WITHOUT_INTEGERS,
)

REGISTERED = arrays, contractions, forms
"""Modules whose import registers functions that build TOSA ops."""

LOWERINGS: Mapping[type[Operation], Implementation] = {
    **{
        op_type: implementation
        for op_type, implementation in IMPLEMENTATIONS.items()
        if op_type not in (tfl.ConstOp, tfl.QConstOp, tfl.FakeQuantOp, *FOURIER)
    },
    **MULTIPLIER_KERNELS,
    **IMPLEMENTATIONS_IN_TOSA,
}
"""Implementations by op class."""


@dataclass(frozen=True)
class ConvertTFLToTosaPass(CountingPass):
    """
    Convert functions of TensorFlow Lite ops to TOSA.

    Integer results are bit-identical to the reference kernels. Shapes must be static,
    and variables converted to arguments and results. If TOSA does not support an op,
    the pass fails with one line for each such op, and leaves the module unchanged.
    """

    name = "convert-tfl-to-tosa"

    fallback: Literal["on", "off"] = "on"
    """
    Treatment of ops on stored values without an integer form in TOSA: compute with
    floats and list them in the module attribute `tfl.fallback` (`on`), or fail (`off`).
    """

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        xdsl_patches.apply("builtin", "func", "tosa")
        tfl_ops = ops_of_dialect(op, "tfl")
        errors: list[str] = []
        fallbacks: list[Fallback] | None = None
        if self.fallback == "on":
            fallbacks = []
        functions = [
            (function, _convert_function(function, errors, fallbacks))
            for function in op.body.block.ops
            if isinstance(function, func.FuncOp)
        ]
        for other in op.body.block.ops:
            if not isinstance(other, func.FuncOp):
                errors.append(_message(other, "is not a function"))
        if errors:
            raise PassFailedException("\n".join(errors))
        list_fallbacks(op, fallbacks or ())
        for function, new_function in functions:
            Rewriter.replace_op(function, new_function)
        return PassOutcome(tfl_ops, len(tfl_ops), "ops of TensorFlow Lite")


def _message(op: Operation, words: str) -> str:
    return located_message(op, f"'{op_name(op)}' op {words}")


def _convert_function(
    function: func.FuncOp,
    errors: list[str],
    fallbacks: list[Fallback] | None,
) -> func.FuncOp:
    """
    Return the converted function. Append messages to `errors`. Append ops that are
    computed with floats to `fallbacks`, or refuse them if it is `None`.
    """
    if function.is_declaration:
        return function.clone()
    if len(function.body.blocks) > 1:
        errors.append(_message(function, "has more than one block"))
        return function
    try:
        return _TosaConversion(function, errors, fallbacks).convert()
    except Unsupported as e:
        errors.append(_message(function, str(e)))
    return function


class _TosaConversion:
    """Conversion of one function."""

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
        """Converted value by original value; `None` after an error in the defining op."""
        self.arrays: dict[SSAValue, Array | None] = {}
        """Elements of constants; `None` for results of `tfl.no_value`."""

    def convert(self) -> func.FuncOp:
        """
        Return the converted function.

        Raises:
            Unsupported: if TOSA does not support a type of the function.
        """
        function = self.function
        old = function.body.block
        builder = self._builder(function)
        for argument, new in zip(old.args, self.block.args, strict=True):
            new.name_hint = argument.name_hint
            self.values[argument] = (
                builder.reinterpret(new, to_signed=True)
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
                self.arrays[op.results[0]] = _elements_of_constant(op)
            elif isinstance(op, tfl.NoValueOp):
                self.arrays[op.results[0]] = None
            elif isinstance(op, func.ReturnOp):
                self._return(builder, op)
            else:
                self._lower(builder, op)
        except (ArithmeticError, IndexError, MemoryError, ValueError) as e:
            words = str(e)
            if words == NO_FORM:
                words = f"on '{op.operands[0].type}' has no conversion to TOSA"
            self.errors.append(_message(op, words))
            self.values.update(dict.fromkeys(op.results))

    def _lower(self, builder: TosaBuilder, op: Operation) -> None:
        if type(op) not in LOWERINGS:
            raise Unsupported(without_conversion(op, "TOSA"))
        if any(self.values.get(operand, 0) is None for operand in op.operands):
            # The defining op has an error already.
            self.values.update(dict.fromkeys(op.results))
            return
        for result in op.results:
            lowered_type(result.type)
        values = self._results(builder, op)
        for result, value in zip(op.results, values, strict=True):
            if isinstance(value, SSAValue):
                value.name_hint = result.name_hint
                self.values[result] = value
            else:
                self.arrays[result] = value

    def _operands(self, builder: TosaBuilder, op: Operation) -> list[Array | None]:
        shape_index, first = SHAPES.get(type(op), (None, 0))
        return [
            np.array(lowered_type(op.results[0].type).get_shape()[first:])
            if index == shape_index
            else self.arrays[operand]
            if operand in self.arrays
            else cast(Array, expression_of(builder, operand, self.values[operand]))
            for index, operand in enumerate(op.operands)
        ]

    def _results(
        self, builder: TosaBuilder, op: Operation
    ) -> Sequence[SSAValue | Array]:
        """
        Return the results of an op, computed with integers or, as a fallback, with floats.

        Raises:
            Unsupported: if TOSA does not support the op, or supports it only with floats
                and the fallback is off.
        """
        implementation = LOWERINGS[type(op)]
        operands = self._operands(builder, op)
        if not isinstance(implementation, Computation):
            return stored_results(op, implementation(op, *operands))
        if not any(map(_is_quantized, (*op.operands, *op.results))):
            return stored_results(op, implementation.results(op, operands))
        last = self.block.last_op
        try:
            if (missing := implementation.missing_kernel(op)) is not None:
                raise Unsupported(missing.reason)
            if (reason := WITHOUT_INTEGERS.get(type(op))) is not None:
                raise Unsupported(reason)
            builder.assumes_32_bits = type(op) in COMPUTED_IN_32_BITS
            return stored_results(op, implementation.results(op, operands, _refuse))
        except Unsupported as e:
            if self.fallbacks is None:
                raise
            self._erase_after(last)
            builder.assumes_32_bits = False
            try:
                operands = self._operands(builder, op)
                values = floats.float_results(op, implementation, operands)
                self.fallbacks.append((op, str(e)))
                return values
            except (Unsupported, ValueError):
                # Report the error of the integer form.
                self._erase_after(last)
            raise

    def _erase_after(self, last: Operation | None) -> None:
        """Erase the ops after `last`, or all ops if it is `None`."""
        while (op := self.block.last_op) is not last and op is not None:
            self.block.erase_op(op)

    def _return(self, builder: TosaBuilder, op: func.ReturnOp) -> None:
        values: list[SSAValue] = []
        for operand in op.operands:
            value = self.values.get(operand)
            if operand in self.arrays:
                array = lift_array(builder, self.arrays[operand])
                value = stored_result(array, operand.type)
            if value is None:
                return
            if is_unsigned(operand.type):
                value = builder.reinterpret(value, to_signed=False)
            values.append(value)
        builder.insert(func.ReturnOp(*values))


def _refuse(op: Operation, reason: str) -> None:
    raise Unsupported(reason)


def _is_quantized(value: SSAValue) -> bool:
    return parameters_of(value.type) is not None


def _elements_of_constant(op: tfl.ConstOp | tfl.QConstOp) -> Array:
    try:
        return cast(Callable[..., Array], IMPLEMENTATIONS[type(op)])(op)
    except TypeError as e:
        raise Unsupported(str(e)) from e
