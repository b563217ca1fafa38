"""Patches of xDSL's `linalg` dialect: named ops of MLIR 22 that it lacks or restricts."""

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i1, i8, i32
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.linalg.abstract_ops import (
    ConvOperation,
    NamedOperation,
    PoolingOperation,
)
from xdsl.dialects.linalg.ops import MatmulOp, QuantizedMatmulOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import BaseAttr, OptPropertyDef
from xdsl.utils.type import get_element_type_or_self

from .ops import (
    NAMED_OPS,
    TypeFnAttr,
    check_elements,
    default_maps,
    hidden_region,
    parse_product,
    print_product,
)


def add_named_ops() -> None:
    """
    Add the named matrix products, convolutions and pooling ops that xDSL lacks, and
    `#linalg.type_fn`.

    MLIR: has these ops.
    Obsolete with: `docs/upstream/linalg-named-ops.md`.
    """
    known = {part.name for part in (*Linalg.operations, *Linalg.attributes)}
    # xDSL has no public way to extend a dialect.
    Linalg._operations.extend(op for op in NAMED_OPS if op.name not in known)  # pyright: ignore[reportPrivateUsage] no public way
    if TypeFnAttr.name not in known:
        Linalg._attributes.append(TypeFnAttr)  # pyright: ignore[reportPrivateUsage] no public way


def convert_named_operands() -> None:
    """
    Let the bodies of named ops convert their operands to the element type of the result,
    `matmul` have indexing maps and `cast = #linalg.type_fn<cast_unsigned>`, and
    convolutions omit strides and dilations of 1.

    MLIR: converts operands, and multiplies transposed factors. The body of
    `pooling_nchw_max` ignores the window operand.
    Obsolete with: `docs/upstream/linalg-operand-types.md`.
    """
    narrow, wide = TensorType(i8, (2, 2)), TensorType(i32, (2, 2))
    *inputs, output = Block(arg_types=(narrow, narrow, wide)).args
    body = MatmulOp.get_hidden_region(inputs, (output,))
    if len(body.block.ops) > 3:
        return
    for op_type in Linalg.operations:
        if issubclass(op_type, MatmulOp | QuantizedMatmulOp):
            _replace_body(op_type)
        elif issubclass(op_type, ConvOperation | PoolingOperation):
            _replace_body(op_type)
            _let_steps_be_absent(op_type)
    MatmulOp.get_irdl_definition().properties["cast"] = OptPropertyDef(
        BaseAttr(TypeFnAttr)
    )
    MatmulOp.parse = classmethod(parse_product)  # pyright: ignore[reportAttributeAccessIssue] the type of any op
    MatmulOp.print = print_product


def _replace_body(op_type: type[NamedOperation]) -> None:
    verify = op_type.verify_

    def verify_(self: NamedOperation) -> None:
        check_elements(self)
        verify(self)

    body_of_xdsl = op_type.get_hidden_region

    def body(
        cls: type[NamedOperation],
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
    ) -> Region:
        types = {get_element_type_or_self(value.type) for value in (*inputs, *outputs)}
        # xDSL's body, which adds in another order, stays where it is valid.
        if (
            len(types) == 1
            and i1 not in types
            and not issubclass(cls, PoolingOperation)
        ):
            return body_of_xdsl(inputs, outputs)
        return hidden_region(cls, inputs, outputs)

    op_type.verify_ = verify_
    op_type.get_hidden_region = classmethod(body)  # pyright: ignore[reportAttributeAccessIssue] declared as abstract


def _let_steps_be_absent(op_type: type[NamedOperation]) -> None:
    properties = op_type.get_irdl_definition().properties
    for name in ("strides", "dilations"):
        properties[name] = OptPropertyDef(properties[name].constr)
    op_type.get_default_indexing_maps = default_maps


PATCHES = (add_named_ops, convert_named_operands)
