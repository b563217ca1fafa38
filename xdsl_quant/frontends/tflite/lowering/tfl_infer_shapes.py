"""
The pass `tfl-infer-shapes`: infer the result types of TensorFlow Lite ops, as LiteRT does
when it allocates tensors.

The shape of a result is that of the op's [formula
][xdsl_quant.frontends.tflite.lowering.kernels], evaluated with [expressions
][xdsl_quant.transforms.building.tensor_expressions] in place of operands. Formulas of
constants, and of shapes, are evaluated with NumPy.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FunctionType,
    IntegerType,
    ModuleOp,
    NoneType,
    TensorType,
    UnrankedTensorType,
    f32,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import PassFailedException, VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import fail, quoted
from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant.traits import CastsQuantization
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.dialects.verification import are_compatible_shapes
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.detection import DETECTION, DetectionOptions
from xdsl_quant.frontends.tflite.dialect.signatures import entry_input_names
from xdsl_quant.frontends.tflite.dynamic_shapes import ops_with_dynamic_shapes
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.arrays import (
    constant_attr,
    dense_elements,
    elements_attr,
    numpy_dtype,
    shape_text,
    stored_elements,
)
from xdsl_quant.runtime.entry_function import entry_function, functions_by_name
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.signless_types import signless
from xdsl_quant.transforms.building.tensor_expressions import plain
from xdsl_quant.transforms.building.type_replacement import set_type
from xdsl_quant.unsupported import Unsupported

from .kernels import IMPLEMENTATIONS, Computation, Implementation, svdf
from .kernels.computation import Array, dequantize_array, is_array

_LARGEST_FOLDED = 1 << 16
"""Element count of the largest constants whose elements formulas get."""

_FORMULAS: Mapping[type[Operation], Implementation] = {
    **IMPLEMENTATIONS,
    tfl.SVDFOp: svdf,
}

_FAILURES = (
    VerifyException,
    Unsupported,
    ArithmeticError,
    LookupError,
    MemoryError,
    ValueError,
    TypeError,
)
"""Exceptions of formulas for operands that an op does not support."""


def infer_shapes(module: ModuleOp) -> int:
    """
    Infer the types of op results and of called functions in a valid module, in place.
    Types that depend on `?` sizes of arguments, on elements of run-time values or on ops
    without formula stay as they are.

    Returns:
        The number of changed types.
    """
    return len(_Inference(module).run())


def fold_shapes(module: ModuleOp) -> int:
    """
    Infer shapes, and replace integers computed from shapes and constants by constants, in
    place. Return the number of replaced ops.
    """
    inference = _Inference(module)
    inference.run()
    count = 0
    for value, array in inference.values.items():
        op = cast(Operation, value.owner)
        element_type = scalar_or_element_type(value.type)
        if not isinstance(element_type, IntegerType) or len(op.results) > 1:
            continue
        attribute = elements_attr(array, cast(IntegerType, element_type))
        constant = tfl.ConstOp.create(
            result_types=[value.type],
            properties={"value": attribute},
            location=op.location,
        )
        constant.results[0].name_hint = value.name_hint
        Rewriter.replace_op(op, constant)
        count += 1
    return count


def set_input_shapes(
    module: ModuleOp, shapes: Mapping[str, Sequence[int]], *, static: bool = False
) -> None:
    """
    Set the sizes of dynamic function arguments in place, and infer all other shapes.

    Args:
        module: a module with `tfl` ops.
        shapes: shapes of arguments of the entry function, by tensor, signature or
            argument name.
        static: replace all other dynamic sizes of arguments by 1.

    Raises:
        PassFailedException: if an argument is unknown or incompatible with its shape.
    """
    if shapes:
        function = entry_function(module)
        indices = entry_input_names(function)
        for name in shapes.keys() - indices.keys():
            known = quoted(indices) or "none"
            fail(function, f"unknown input '{name}'; available: {known}")
        _set_shapes(function, {indices[name]: shape for name, shape in shapes.items()})
    called = _called_names(module)
    for name, function in functions_by_name(module).items() if static else ():
        if name not in called and function.body.blocks:
            for argument in function.args:
                set_type(argument, _with_ones(argument.type))
    infer_shapes(module)


def _with_ones(type_: Attribute) -> Attribute:
    if not isa(type_, TensorType):
        return type_
    sizes = [1 if size == DYNAMIC_INDEX else size for size in type_.get_shape()]
    return TensorType(type_.element_type, sizes)


def set_argument_shapes(
    module: ModuleOp, function: FuncOp, shapes: Sequence[Sequence[int]]
) -> None:
    """
    Set the shapes of all arguments of a function in place, and infer all other shapes.

    Raises:
        PassFailedException: if a shape is incompatible with the type of its argument.
    """
    pairs = enumerate(zip(function.args, shapes, strict=False))
    _set_shapes(
        function, {i: shape for i, (a, shape) in pairs if isa(a.type, TensorType)}
    )
    infer_shapes(module)


def _set_shapes(function: FuncOp, shapes: Mapping[int, Sequence[int]]) -> None:
    """Set the shapes of arguments by position; change nothing if one is incompatible."""
    types: dict[int, Attribute] = {}
    for index, shape in shapes.items():
        type_ = function.args[index].type
        if not isa(type_, TensorType) or not are_compatible_shapes(
            type_.get_shape(), shape
        ):
            fail(
                function,
                f"argument {index} has shape {shape_text(shape)}, but its type is "
                f"'{type_}'; expected the static sizes of the type",
            )
        types[index] = TensorType(type_.element_type, shape)
    for index, type_ in types.items():
        set_type(function.args[index], type_)


def _called_names(module: ModuleOp) -> Counter[str]:
    return Counter(
        op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)
    )


def _has_static_shape(type_: Attribute) -> bool:
    return isa(type_, TensorType) and type_.has_static_shape()


def _refined_type(known: Attribute, new: Attribute) -> Attribute:
    """Return the static type `new` if it has the elements of `known`, or else `known`."""
    is_same = scalar_or_element_type(known) == scalar_or_element_type(new)
    return new if is_same and _has_static_shape(new) else known


@dataclass
class _Inference:
    module: ModuleOp

    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    """Elements of op results that are known, except constants."""

    changes: list[tuple[SSAValue, Attribute]] = field(
        default_factory=list[tuple[SSAValue, Attribute]]
    )
    """Values with a new type, and their old types."""

    changed: set[SSAValue] = field(default_factory=set[SSAValue])

    argument_types: dict[str, Sequence[Attribute]] = field(
        default_factory=dict[str, Sequence[Attribute]]
    )
    """Types of the arguments for which a called function was visited."""

    originals: dict[str, FuncOp] = field(default_factory=dict[str, FuncOp])
    """Copies of functions with several calls, before inference."""

    active: list[str] = field(default_factory=list[str])
    """Names of the functions that are being visited."""

    def run(self) -> Sequence[tuple[SSAValue, Attribute]]:
        """Infer all types, and return the values that changed, with their old types."""
        self.functions = functions_by_name(self.module)
        self.calls = _called_names(self.module)
        self.variables = {
            _variable_name(op.resource_id): op.value.type
            for op in self.module.walk()
            if isinstance(op, tfl.AssignVariableOp) and _has_static_shape(op.value.type)
        }
        roots = [f for name, f in self.functions.items() if name not in self.calls]
        with np.errstate(all="ignore"):
            for function in roots:
                self._visit_function(function)
        for function in functions_by_name(self.module).values():
            _update_type(function)
        return self.changes

    def _visit_function(self, function: FuncOp) -> None:
        self.active.append(function.sym_name.data)
        for block in function.body.blocks:
            self._visit_block(block)
        self.active.pop()

    def _visit_block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case CallOp():
                    self._visit_call(op)
                case tfl.CustomOp():
                    self._visit_custom_op(op)
                case tfl.ReadVariableOp():
                    name = _variable_name(op.resource_id)
                    type_ = self.variables.get(name, op.results[0].type)
                    self._set_types(op.results, [type_])
                case tfl.IfOp():
                    self._visit_if(op)
                case tfl.WhileOp():
                    self._visit_while(op)
                case _ if op.results:
                    self._visit_op(op)
                case _:
                    pass

    def _set_types(
        self, values: Sequence[SSAValue], types: Sequence[Attribute]
    ) -> None:
        for value, new in zip(values, types, strict=True):
            if (type_ := _refined_type(value.type, new)) != value.type:
                self.changes.append((value, value.type))
                self.changed.add(value)
                set_type(value, type_)

    def _undo(self, count: int) -> None:
        """Restore the types of all changes but the first `count`."""
        while len(self.changes) > count:
            value, type_ = self.changes.pop()
            self.changed.discard(value)
            self.values.pop(value, None)
            set_type(value, type_)

    # Functions and regions

    def _visit_call(self, op: CallOp) -> None:
        name = op.callee.string_value()
        callee = self.functions.get(name)
        if callee is None or name in self.active:
            return
        if callee.is_declaration and self.calls[name] == 1:
            # Its only caller determines the types of a function outside of the module.
            callee.function_type = FunctionType.from_lists(
                op.operand_types, callee.function_type.outputs.data
            )
        if len(callee.body.blocks) != 1:
            return
        types = [
            _refined_type(old.type, new)
            for old, new in zip(self._parameters(name), op.operand_types, strict=False)
        ]
        known = self.argument_types.get(name)
        if known is None:
            if self.calls[name] > 1:
                self.originals[name] = callee.clone()
            self.argument_types[name] = types
            self._set_types(callee.body.block.args, types)
            self._visit_function(callee)
        elif known != types:
            callee = self._copy_for(op, name, types)
        if isinstance(end := callee.body.block.last_op, ReturnOp):
            self._set_types(op.results, end.operand_types)

    def _parameters(self, name: str) -> Sequence[SSAValue]:
        """Return the arguments of a function, with the types before inference."""
        return self.originals.get(name, self.functions[name]).body.block.args

    def _copy_for(self, call: CallOp, name: str, types: Sequence[Attribute]) -> FuncOp:
        """Let a call with other types than those of former calls call a copy."""
        copy = self.originals[name].clone()
        number = sum(known.startswith(f"{name}_shape") for known in self.functions)
        new_name = f"{name}_shape{number + 1}"
        copy.properties["sym_name"] = type(copy.sym_name)(new_name)
        self.functions[new_name] = copy
        self.module.body.block.add_op(copy)
        call.properties["callee"] = type(call.callee)(new_name)
        self._set_types(copy.body.block.args, types)
        self._visit_function(copy)
        return copy

    def _visit_if(self, op: tfl.IfOp) -> None:
        yielded = [
            self._yielded(region.block) for region in op.regions if region.blocks
        ]
        if len(yielded) == 2 and yielded[0] == yielded[1]:
            self._set_types(op.results, yielded[0])

    def _yielded(self, block: Block) -> Sequence[Attribute]:
        self._visit_block(block)
        end = block.last_op
        return () if end is None else end.operand_types

    def _visit_while(self, op: tfl.WhileOp) -> None:
        """Infer the types of a loop if all its steps have values of the same shapes."""
        count = len(self.changes)
        for region in op.regions:
            self._set_types(region.block.args, op.operand_types)
        self._visit_block(op.cond.block)
        types = self._yielded(op.body.block)
        if tuple(types) == op.body.block.arg_types:
            self._set_types(op.results, types)
        elif len(self.changes) > count:
            self._undo(count)
            self.argument_types = {
                name: types
                for name, types in self.argument_types.items()
                if tuple(types) == self.functions[name].body.block.arg_types
            }

    # Ops

    def _visit_op(self, op: Operation) -> None:
        if op.has_trait(CastsQuantization, value_if_unregistered=False) and isa(
            type_ := op.operand_types[0], TensorType
        ):
            element_type = scalar_or_element_type(op.result_types[0])
            self._set_types(op.results, [TensorType(element_type, type_.get_shape())])
            return
        if (formula := _FORMULAS.get(type(op))) is None or op.has_trait(ConstantLike):
            return
        is_open = not all(map(_has_static_shape, op.result_types)) or any(
            operand in self.changed for operand in op.operands
        )
        if not is_open and not self._is_known(op):
            return
        builder = LoweringBuilder(InsertPoint.at_end(Block()), location=op.location)
        try:
            operands = [self._operand(builder, op, i) for i in range(len(op.operands))]
            if isinstance(formula, Computation):
                pairs = zip(operands, op.operand_types, strict=True)
                floats = [_as_floats(value, type_) for value, type_ in pairs]
                results = formula.formula(op, *floats)
            else:
                results = formula(op, *operands)
        except _FAILURES:
            return
        results = results if isinstance(results, tuple) else (results,)
        for result, value in zip(op.results, results, strict=True):
            if all(isinstance(size, Integral) for size in np.shape(value)):
                self._define(result, value)

    def _visit_custom_op(self, op: tfl.CustomOp) -> None:
        if op.custom_code.data != DETECTION or len(op.results) != 4:
            return
        with suppress(Unsupported):
            shapes = DetectionOptions.of(op).result_shapes
            self._set_types(op.results, [TensorType(f32, shape) for shape in shapes])

    def _is_known(self, op: Operation) -> bool:
        """Return True if the elements of an op's results follow from known elements."""
        if isinstance(op, tfl.ShapeOp | tfl.RankOp):
            return True
        return all(v in self.values or _is_small_constant(v) for v in op.operands)

    def _define(self, result: SSAValue, value: Any) -> None:
        element_type = scalar_or_element_type(result.type)
        self._set_types([result], [TensorType(element_type, np.shape(value))])
        if not is_array(value) or isinstance(element_type, QuantizedType):
            return
        array = np.asarray(value)
        if array.size <= _LARGEST_FOLDED:
            self.values[result] = array.astype(numpy_dtype(element_type))

    def _operand(self, builder: LoweringBuilder, op: Operation, index: int) -> Any:
        """Return the elements of an operand, or else an expression of its shape."""
        operand = op.operands[index]
        if isinstance(operand.type, NoneType):
            return None
        if (known := self.values.get(operand)) is not None:
            return known
        if _is_small_constant(operand):
            return _small_elements(operand)
        if isinstance(op, tfl.ReshapeOp) and index == 1:
            return _sizes_of_result(op)
        if isinstance(operand.type, UnrankedTensorType) or not _has_static_shape(
            operand.type
        ):
            raise Unsupported("has an operand of unknown shape")
        return _expression(builder, cast(TensorType, operand.type))


def _variable_name(handle: SSAValue) -> tuple[str, str] | None:
    """Return the names of a variable; `None` for a handle from elsewhere."""
    if not isinstance(op := handle.owner, tfl.VarHandleOp):
        return None
    return op.container.data, op.shared_name.data


def _update_type(function: FuncOp) -> None:
    """Update the type of a function from its arguments and returned values."""
    if len(function.body.blocks) != 1:
        return
    block = function.body.block
    outputs = (
        end.operand_types
        if isinstance(end := block.last_op, ReturnOp)
        else function.function_type.outputs.data
    )
    function.function_type = FunctionType.from_lists(block.arg_types, outputs)


def _is_small_constant(value: SSAValue) -> bool:
    owner = value.owner
    return (
        isinstance(owner, tfl.ConstOp | tfl.QConstOp)
        and isa(type_ := value.type, TensorType)
        and math.prod(type_.get_shape()) <= _LARGEST_FOLDED
        and constant_attr(value) is not None
    )


def _small_elements(value: SSAValue) -> Array:
    attribute = constant_attr(value)
    assert attribute is not None
    elements = dense_elements(attribute)
    element_type = scalar_or_element_type(value.type)
    if isinstance(element_type, StoredQuantizedType):
        return stored_elements(elements, element_type)
    return elements


def _expression(builder: LoweringBuilder, type_: TensorType) -> Any:
    """Return an expression for a value known at run time; floats if it is quantized."""
    element_type = type_.element_type
    is_quantized = isinstance(element_type, QuantizedType)
    stored = signless(
        TensorType(f32 if is_quantized else element_type, type_.get_shape())
    )
    block = Block(arg_types=[stored])
    return plain(builder, block.args[0])


def _as_floats(value: Any, type_: Attribute) -> Any:
    return dequantize_array(value, type_) if is_array(value) else value


def _sizes_of_result(op: tfl.ReshapeOp) -> Array:
    """Return the sizes that the result type gives, with -1 for an unknown size."""
    if not isinstance(type_ := op.output.type, TensorType):
        raise Unsupported("has a result of unknown rank")
    sizes = [-1 if size == DYNAMIC_INDEX else size for size in type_.get_shape()]
    if sizes.count(-1) > 1:
        raise Unsupported("has a result with several unknown sizes")
    return np.array(sizes)


@dataclass(frozen=True)
class TFLInferShapesPass(CountingPass):
    """
    Infer the shapes of op results from those of function arguments.

    Before, with `static=true`:

    ```mlir
    func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %0 = "tfl.relu"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
      func.return %0 : tensor<?x4xf32>
    }
    ```

    After:

    ```mlir
    func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
      %0 = "tfl.relu"(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
      func.return %0 : tensor<1x4xf32>
    }
    ```
    """

    name = "tfl-infer-shapes"

    shapes: tuple[str, ...] = ()
    """Shapes of arguments with dynamic sizes, e.g. `shapes="x=1x10"`."""

    static: bool = False
    """Replace all other dynamic sizes of arguments by 1."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        dynamic = ops_with_dynamic_shapes(op)
        shapes = dict(map(_named_shape, self.shapes))
        set_input_shapes(op, shapes, static=self.static)
        left = ops_with_dynamic_shapes(op)
        return PassOutcome(
            dynamic,
            len(dynamic) - len(left),
            "values of dynamic shape that depend on static shapes",
            remedy="set the shapes of arguments with 'shapes' or 'static'",
        )


def _named_shape(text: str) -> tuple[str, Sequence[int]]:
    name, equals, sizes = text.rpartition("=")
    numbers = sizes.split("x") if sizes else []
    if not (name and equals) or not all(map(str.isdecimal, numbers)):
        raise PassFailedException(
            f"invalid shape: '{text}'; expected NAME=SIZES, e.g. x=1x16x16x3"
        )
    return name, [int(number) for number in numbers]
