"""
The pass `convert-tfl-to-linalg`: lower TensorFlow Lite ops to linalg loop nests.

Integer results are bit-identical to the reference kernels. The pass evaluates the [formulas
and kernels][xdsl_quant.frontends.tflite.lowering.kernels] of the interpreter. In place of
run-time values, they get [expressions][xdsl_quant.transforms.building.tensor_expressions].
Computations on constants alone, such as shapes, multipliers and tables, are folded.

An op on stored values without an integer kernel for its parameters dequantizes,
computes in `f32`, and quantizes, rounding half to even. The attribute `tfl.fallback` of
the module lists these ops with reasons.

Values between ops become tensors of stored values. `quant.scast`s remain where ops of
other dialects use quantized values, e.g. at function arguments and results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    NoneType,
    Signedness,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.dialects.quant import QuantizedType, StorageCastOp
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.machines.expression import NO_FORM
from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.runtime.arrays import dense_elements, numpy_dtype
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.runtime.kernel_sets import kernel_set
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.signless_types import (
    has_signedness,
    make_signless,
    signless,
)
from xdsl_quant.transforms.building.tensor_expressions import (
    TensorExpression,
    constant_tensor,
    plain,
)
from xdsl_quant.transforms.building.type_replacement import defined_values
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import patched_pass

from .fallbacks import (
    SIZES_HINT,
    Fallback,
    has_state,
    list_fallbacks,
    refuse_fallbacks,
    without_conversion,
)
from .kernels import (
    FOURIER,
    RECURRENT,
    Computation,
    FallbackMode,
    Implementation,
    block_type,
    implementations,
    is_complex,
    unsupported_type,
)

_ElementsAttr: TypeAlias = DenseIntOrFPElementsAttr | DenseResourceAttr

_COMPLEX_HINT = "use 'tfl.real', 'tfl.imag' or 'tfl.complex_abs'"

_WITHOUT_SIGNS = {"builtin", "func", "cf", "scf", "tensor", "linalg"}
"""Dialects whose ops do not depend on the signedness of operands."""


def _stored_type(type_: Attribute) -> Attribute:
    """Return the signless form of a type, or of the storage type if quantized."""
    return StoredQuantizedType.cast_to_signless_storage_type(type_) or signless(type_)


def _type_error(type_: Attribute) -> str | None:
    """Return why TensorFlow Lite does not support a type; `None` if it does."""
    quantized_type = QuantizedType.get_quantized_element_type(type_)
    if not isinstance(quantized_type, StoredQuantizedType):
        return None
    reason = unsupported_type(quantized_type)
    if reason is not None and block_type(type_) is None:
        return reason
    try:
        quantized_type.verify_container(type_)
    except VerifyException as e:
        return str(e)
    return None


def _is_signed(type_: Attribute) -> bool:
    element_type = scalar_or_element_type(type_)
    if isinstance(element_type, StoredQuantizedType):
        return element_type.is_signed
    return not (
        isa(element_type, IntegerType)
        and element_type.signedness.data is Signedness.UNSIGNED
    )


def _cast(builder: LoweringBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    if value.type == type_:
        return value
    types = scalar_or_element_type(value.type), scalar_or_element_type(type_)
    is_quantized = any(isinstance(t, QuantizedType) for t in types)
    op_type = StorageCastOp if is_quantized else UnrealizedConversionCastOp
    return builder.op(op_type, (value,), type_)


@dataclass
class _LinalgConversion:
    """Conversion of the ops of a module."""

    implementations: Mapping[type[Operation], Implementation]

    fallback: FallbackMode

    arrays: dict[SSAValue, Any] = field(default_factory=dict[SSAValue, Any])
    """Elements of constants; `None` for results of `tfl.no_value`."""

    tensors: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Tensors of stored values, by the op results that they replace."""

    fallbacks: list[Fallback] = field(default_factory=list[Fallback])
    """Ops without an integer kernel, and the reasons."""

    converted: dict[Operation, None] = field(default_factory=dict[Operation, None])

    def convert(self, module: ModuleOp) -> None:
        """
        Convert the module in place.

        Raises:
            PassFailedException: if an op cannot be converted.
        """
        for op in [*module.walk()]:
            match op:
                case tfl.NoValueOp():
                    self.arrays[op.results[0]] = None
                    self.converted[op] = None
                case tfl.IfOp():
                    self._convert_if(op)
                case tfl.WhileOp():
                    self._convert_while(op)
                case tfl.YieldOp():
                    self._convert_yield(op)
                case _ if op_name(op).startswith("tfl."):
                    self._convert_op(op)
                    self.converted[op] = None
                case _:
                    self._restore_operands(op)
        for op in reversed(self.converted):
            Rewriter.erase_op(op)
        values = (value for op in module.walk() for value in defined_values(op))
        if any(has_signedness(value.type) for value in values) and not any(
            map(_may_need_signs, module.walk())
        ):
            make_signless(module)

    # Ops of other dialects

    def _restore_operands(self, op: Operation) -> None:
        """Cast the operands of an unconverted op back to their original types."""
        if not op.operands:
            return
        builder = LoweringBuilder.before(op)
        for index, operand in enumerate(op.operands):
            op.operands[index] = self._original_value(builder, operand)

    def _original_value(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        """Return a value, cast back to its type before the conversion."""
        if is_complex(value.type) and isinstance(op := value.owner, Operation):
            fail(op, f"'{op_name(op)}' op has a complex result; {_COMPLEX_HINT}")
        if value in self.arrays and self.arrays[value] is not None:
            element_type = cast(TensorType, _stored_type(value.type)).get_element_type()
            stored = constant_tensor(builder, self.arrays[value], element_type)
        elif isinstance(value.owner, Operation) and value.owner in self.converted:
            stored = self.tensors[value]
        else:
            _check_is_not_later(value)
            return value
        result = builder.cast(stored, _stored_type(value.type))
        result = _cast(builder, result, value.type)
        result.name_hint = value.name_hint
        return result

    # Ops that compute

    def _convert_op(self, op: Operation) -> None:
        for type_ in (*op.operand_types, *op.result_types):
            if (reason := _type_error(type_)) is not None:
                fail(op, f"'{op_name(op)}' op has the type '{type_}': {reason}")
        implementation = self.implementations.get(type(op))
        if implementation is None or has_state(op):
            fail(op, f"'{op_name(op)}' op {without_conversion(op, 'linalg')}")
        try:
            results = self._results(op, implementation)
        except Unsupported as e:
            fail(op, f"'{op.name}' op {e}")
        except (ArithmeticError, IndexError, MemoryError, ValueError) as e:
            fail(op, f"'{op.name}' op cannot be converted: {e}")
        for result, value in zip(op.results, results, strict=True):
            self._define(result, value)

    def _results(
        self, op: Operation, implementation: Implementation
    ) -> Sequence[SSAValue | NDArray[Any]]:
        """Return the results as tensors of stored values, or as arrays if constant."""
        builder = LoweringBuilder.before(op)
        operands = [self._operand(builder, operand) for operand in op.operands]
        if type(op) not in FOURIER and any(map(is_complex, op.operand_types)):
            raise Unsupported(f"has complex operands; {_COMPLEX_HINT}")
        if not isinstance(implementation, Computation):
            return self._stored_results(op, implementation(op, *operands))
        before, mode = op.prev_op, self.fallback
        try:
            results = implementation.results(op, operands, self._fall_back, mode)
            return self._stored_results(op, results)
        except Unsupported as e:
            if implementation.missing_kernel(op) is not None:
                raise
            # Erase the ops built so far without checks: detached loops may still use them.
            while (built := op.prev_op) is not before:
                assert built is not None
                Rewriter.erase_op(built, safe_erase=False)
            self._fall_back(op, str(e))
            return self._stored_results(
                op, implementation.results(op, operands, mode="only")
            )

    def _stored_results(
        self, op: Operation, results: Any
    ) -> Sequence[SSAValue | NDArray[Any]]:
        values = cast(
            Sequence[Any], results if isinstance(results, tuple) else (results,)
        )
        return [
            self._stored_result(result, value)
            for result, value in zip(op.results, values, strict=True)
        ]

    def _stored_result(self, result: SSAValue, value: Any) -> SSAValue | NDArray[Any]:
        if is_complex(result.type):
            return value
        if not isinstance(value, TensorExpression):
            return np.asarray(value).astype(numpy_dtype(result.type))
        element_type = scalar_or_element_type(_stored_type(result.type))
        if isinstance(element_type, AnyFloat) != (value.dtype.kind == "f"):
            raise Unsupported(NO_FORM)
        return value.tensor(element_type)

    def _fall_back(self, op: Operation, reason: str) -> None:
        self.fallbacks.append((op, reason))

    def _define(self, result: SSAValue, value: SSAValue | NDArray[Any]) -> None:
        if not isinstance(value, SSAValue):
            self.arrays[result] = value
            return
        if value.name_hint is None:
            value.name_hint = result.name_hint
        self.tensors[result] = value

    def _operand(self, builder: LoweringBuilder, operand: SSAValue) -> Any:
        if operand in self.arrays:
            return self.arrays[operand]
        if isinstance(operand.type, NoneType):
            return None
        if (array := _constant_of(operand)) is not None:
            return array
        stored = self._stored(operand)
        return plain(builder, stored, is_signed=_is_signed(operand.type))

    def _stored(self, operand: SSAValue) -> SSAValue:
        """Return an operand's stored values; insert a cast if its op is not converted."""
        if (known := self.tensors.get(operand)) is not None:
            return known
        _check_is_not_later(operand)
        type_ = _stored_type(operand.type)
        if not isa(type_, TensorType) or DYNAMIC_INDEX in type_.get_shape():
            raise Unsupported(
                f"has an operand of type '{operand.type}' with a dynamic shape; "
                f"{SIZES_HINT}"
            )
        element_type = type_.get_element_type()
        if not _is_arithmetic(element_type):
            raise Unsupported(
                f"has an operand of type '{operand.type}', expected elements that "
                "are integers of up to 64 bits, f16, f32 or f64"
            )
        stored = self.tensors[operand] = _cast(_after(operand), operand, type_)
        stored.name_hint = operand.name_hint
        return stored

    # Control flow

    def _convert_if(self, op: tfl.IfOp) -> None:
        builder = LoweringBuilder.before(op)
        condition = _scalar(op, builder, self._original_value(builder, op.cond))
        if not op.else_region.blocks:
            fail(op, "'tfl.if' op has no region for a false condition")
        then_region, else_region = (op.detach_region(region) for region in op.regions)
        new = scf.IfOp(condition, op.result_types, then_region, else_region)
        self._replace(builder, op, new)

    def _convert_while(self, op: tfl.WhileOp) -> None:
        builder = LoweringBuilder.before(op)
        operands = [self._original_value(builder, operand) for operand in op.input]
        for region in op.regions:
            _check_types(op, "arguments of a region", region.block.arg_types)
        _check_types(op, "operands", op.operand_types)
        condition, body = (op.detach_region(region) for region in op.regions)
        new = scf.WhileOp(operands, op.result_types, condition, body)
        self._replace(builder, op, new)

    def _replace(self, builder: LoweringBuilder, op: Operation, new: Operation) -> None:
        new.location = op.location
        builder.insert(new)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
        Rewriter.replace_op(op, (), new.results)

    def _convert_yield(self, op: tfl.YieldOp) -> None:
        builder = LoweringBuilder.before(op)
        values = [self._original_value(builder, value) for value in op.arguments]
        parent = op.parent_op()
        if (
            isinstance(parent, scf.WhileOp)
            and op.parent_region() is parent.before_region
        ):
            condition = _scalar(op, builder, values[0])
            new: Operation = scf.ConditionOp(
                condition, *parent.before_region.block.args
            )
        else:
            assert parent is not None
            _check_types(parent, "values that a region yields", op.operand_types)
            new = scf.YieldOp(*values)
        new.location = op.location
        Rewriter.replace_op(op, new)


def _scalar(op: Operation, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    type_ = value.type
    if not isa(type_, TensorType) or any(size != 1 for size in type_.get_shape()):
        fail(
            op,
            f"'{op.name}' op has a condition of type '{type_}', expected a tensor with one "
            "element",
        )
    zeros = [builder.index(0) for _ in type_.get_shape()]
    return builder.op(tensor.ExtractOp, (value, *zeros), type_.element_type)


def _check_types(op: Operation, what: str, types: Sequence[Attribute]) -> None:
    """Check that types equal the result types, which scf requires, unlike tfl."""
    if tuple(types) == tuple(op.result_types):
        return
    actual, expected = (", ".join(map(str, each)) for each in (types, op.result_types))
    name = op_name(op).replace("scf", "tfl")
    fail(
        op,
        f"'{name}' op has {what} of types ({actual}), expected the types of its "
        f"results, ({expected})",
    )


def _check_is_not_later(value: SSAValue) -> None:
    """Raise an error if the op that defines a value is not converted yet."""
    owner = value.owner
    if isinstance(owner, Operation) and op_name(owner).startswith("tfl."):
        fail(
            owner,
            f"'{op_name(owner)}' op comes after a use of its result, expected blocks in an "
            "order in which values are defined before they are used",
        )


def _constant_of(value: SSAValue) -> NDArray[Any] | None:
    """Return the elements if a constant op defines the value, or else `None`."""
    op = value.owner
    if not isinstance(op, Operation) or not op.has_trait(ConstantLike):
        return None
    attribute = op.properties.get("value")
    if not isinstance(attribute, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return None
    return dense_elements(cast(_ElementsAttr, attribute))


def _may_need_signs(op: Operation) -> bool:
    """Return True if the semantics of an op may depend on signedness."""
    values = (*op.operands, *op.results)
    return op_name(op).partition(".")[0] not in _WITHOUT_SIGNS and any(
        has_signedness(value.type) for value in values
    )


def _is_arithmetic(type_: Attribute) -> bool:
    if isinstance(type_, IntegerType):
        return type_.bitwidth <= 64
    return isinstance(type_, Float16Type | Float32Type | Float64Type)


def _after(value: SSAValue) -> LoweringBuilder:
    """Return a builder that inserts right after the definition of a value."""
    owner = value.owner
    if isinstance(owner, Operation):
        return LoweringBuilder(InsertPoint.after(owner), location=owner.location)
    point = InsertPoint.at_start(owner)
    first = owner.first_op
    assert first is not None
    return LoweringBuilder(point, location=first.location)


@dataclass(frozen=True)
class ConvertTFLToLinalgPass(CountingPass):
    """
    Convert ops of TensorFlow Lite to linalg, tensor, arith, math and scf.

    The pass converts all of these ops or, if it fails, none.
    """

    name = "convert-tfl-to-linalg"

    fallback: FallbackMode = "on"
    """
    Treatment of ops on stored values without an integer kernel: compute with floats (`on`),
    or fail (`off`). With `only`, all ops on stored values are computed with floats.
    """

    kernels: KernelSet | None = None
    """
    Kernels whose results are computed: the reference kernels (`reference`); kernels that
    rescale the sums of `fully_connected` by a 31-bit multiplier, as TOSA does
    (`multiplier`); or XNNPACK's kernels of dynamic range quantization (`xnnpack`). Default:
    the module attribute `quant.kernels`, or `reference`.
    """

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        tfl_ops = ops_of_dialect(op, "tfl")
        for inner in tfl_ops:
            # First: no other advice helps.
            if isinstance(inner, tfl.CustomOp):
                fail(inner, f"'{inner.name}' op {without_conversion(inner, 'linalg')}")
        module = op.clone()
        try:
            kernels = self.kernels or kernel_set(op)
        except ValueError as e:
            fail(op, str(e))
        conversion = _LinalgConversion(
            {**implementations(kernels), **RECURRENT}, self.fallback
        )
        # Overflows are intended, or checked where they occur.
        with without_garbage_collection(), np.errstate(all="ignore"):
            conversion.convert(module)
        if self.fallback == "off":
            refuse_fallbacks(conversion.fallbacks)
        list_fallbacks(op, conversion.fallbacks)
        before, after = op.body.block, module.body.block
        op.body.detach_block(before)
        module.body.detach_block(after)
        op.body.add_block(after)
        before.erase()
        remaining = ops_of_dialect(op, "tfl")
        return PassOutcome(
            tfl_ops, len(tfl_ops) - len(remaining), "ops of TensorFlow Lite", remaining
        )
