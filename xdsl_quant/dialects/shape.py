"""
The ops of MLIR's `shape` dialect that quantized ops on unranked tensors are lowered to.

If the installed xDSL has a `shape` dialect, its classes replace those of this module, so
that patterns match parsed ops. Import the classes from here and build ops with `.build`:
constructors of xDSL's classes may differ.

See external [documentation](https://mlir.llvm.org/docs/Dialects/ShapeDialect/).
"""

from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    ShapedType,
    TensorType,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .type_kinds import TypeKind, verify_kinds


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """
    The type `!shape.shape`: a shape that may be unranked or invalid.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/ShapeDialect/#shapetype).
    """

    name = "shape.shape"


@irdl_attr_definition
class SizeType(ParametrizedAttribute, TypeAttribute):
    """
    The type `!shape.size`: an element count or extent that may be unknown or invalid.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/ShapeDialect/#sizetype).
    """

    name = "shape.size"


@irdl_attr_definition
class ValueShapeType(ParametrizedAttribute, TypeAttribute):
    """
    The type `!shape.value_shape`: a value together with its shape.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/ShapeDialect/#valueshapetype).
    """

    name = "shape.value_shape"


_SHAPED_TYPES = (
    TensorType,
    UnrankedTensorType,
    MemRefType,
    UnrankedMemRefType,
    VectorType,
    ValueShapeType,
)


def _is_shape_or_extent_tensor(type_: Attribute) -> bool:
    if not isinstance(type_, TensorType):
        return isinstance(type_, ShapeType)
    return type_.get_num_dims() == 1 and isinstance(type_.get_element_type(), IndexType)


# As in MLIR's message, nothing follows "or".
_SHAPED = TypeKind(
    "shaped of any type values or ", lambda type_: isinstance(type_, _SHAPED_TYPES)
)
_SHAPE = TypeKind("shape or extent tensor", _is_shape_or_extent_tensor)
_SIZE = TypeKind("size or index", lambda type_: isinstance(type_, SizeType | IndexType))


def _error_result(op: Operation, type_name: str) -> VerifyException:
    return VerifyException(
        f"'{op.name}' op if at least one of the operands can hold error values then the "
        f"result must be of type `{type_name}` to propagate them"
    )


@irdl_op_definition
class ShapeOfOp(IRDLOperation, HasCanonicalizationPatternsInterface):
    """
    Return the shape of a shaped value, as a tensor with one element per dimension.

    Example:

    ```mlir
    %shape = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/ShapeDialect/#shapeshape_of-shapeshapeofop).
    """

    name = "shape.shape_of"

    arg = operand_def()
    result = result_def()

    assembly_format = "$arg attr-dict `:` type($arg) `->` type($result)"

    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue | Operation, result_type: Attribute):
        super().__init__(operands=[arg], result_types=[result_type])

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from xdsl_quant.transforms.canonicalization_patterns.shape import ShapeOfReshape

        return (ShapeOfReshape(),)

    def verify_(self) -> None:
        arg_type, result_type = self.arg.type, self.result.type
        verify_kinds(self, [_SHAPED], [_SHAPE])
        if isinstance(result_type, ShapeType):
            return
        if isinstance(arg_type, ValueShapeType):
            raise _error_result(self, "shape")
        if not isinstance(arg_type, ShapedType):
            return
        assert isinstance(result_type, TensorType)
        rank = arg_type.get_num_dims()
        if result_type.get_shape()[0] not in (DYNAMIC_INDEX, rank):
            raise VerifyException(
                f"'{self.name}' op inferred type(s) 'tensor<{rank}xindex>' are "
                "incompatible with return type(s) of operation "
                f"'{result_type}'"
            )


@irdl_op_definition
class NumElementsOp(IRDLOperation):
    """
    Return the element count of a shape.

    Example:

    ```mlir
    %count = shape.num_elements %shape : tensor<?xindex> -> index
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/ShapeDialect/#shapenum_elements-shapenumelementsop).
    """

    name = "shape.num_elements"

    shape = operand_def()
    result = result_def()

    assembly_format = "$shape attr-dict `:` type($shape) `->` type($result)"

    traits = traits_def(Pure())

    def __init__(
        self, shape: SSAValue | Operation, result_type: Attribute | None = None
    ):
        super().__init__(operands=[shape], result_types=[result_type or IndexType()])

    def verify_(self) -> None:
        shape_type, result_type = self.shape.type, self.result.type
        verify_kinds(self, [_SHAPE], [_SIZE])
        if isinstance(shape_type, ShapeType) and not isinstance(result_type, SizeType):
            raise _error_result(self, "size")


@irdl_op_definition
class SplitAtOp(IRDLOperation):
    """
    Split a shape before the dimension `index`. A negative index counts from the end.

    As in MLIR, the op has no custom syntax.

    Example:

    ```mlir
    %head, %tail = "shape.split_at"(%shape, %index) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/ShapeDialect/#shapesplit_at-shapesplitatop).
    """  # noqa: E501 - a line that must not be broken

    name = "shape.split_at"

    operand = operand_def()
    index = operand_def()
    head = result_def()
    tail = result_def()

    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue | Operation,
        index: SSAValue | Operation,
        head_type: Attribute,
        tail_type: Attribute,
    ):
        super().__init__(operands=[operand, index], result_types=[head_type, tail_type])

    def verify_(self) -> None:
        verify_kinds(self, [_SHAPE, _SIZE], [_SHAPE, _SHAPE])


Shape = Dialect(
    "shape",
    [ShapeOfOp, NumElementsOp, SplitAtOp],
    [ShapeType, SizeType, ValueShapeType],
)


def _adopt_ops(registered: Dialect) -> Dialect:
    """
    Replace this module's classes by those of `registered`. Return `registered`, extended by
    the classes that only this module has.
    """
    classes = {
        class_.name: class_
        for class_ in (*registered.operations, *registered.attributes)
    }
    operations = [op for op in Shape.operations if op.name not in classes]
    attributes = [attr for attr in Shape.attributes if attr.name not in classes]
    for class_ in (*Shape.operations, *Shape.attributes):
        # Type checkers still see the classes of this module.
        globals()[class_.__name__] = classes.get(class_.name, class_)
    if not operations and not attributes:
        return registered
    return Dialect(
        "shape",
        [*registered.operations, *operations],
        [*registered.attributes, *attributes],
    )


if _get_registered := get_all_dialects().get("shape"):
    Shape = _adopt_ops(_get_registered())
