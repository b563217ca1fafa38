"""
Named ops of `linalg` that xDSL lacks: products, convolutions and pooling.

A layout defines an op: the dimensions of its operands in the notation of `einsum`. In
convolutions and pooling, `d`, `h` and `w` are positions in the result, and `D`, `H` and `W`
positions in the window: dimension `h` of the image has the index
`h * stride + H * dilation`.

MLIR documentation: <https://mlir.llvm.org/docs/Dialects/Linalg/>
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import auto
from functools import cache
from typing import ClassVar, cast

from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseIntElementsAttr,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    IntegerType,
    i1,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import (
    OpDef,
    get_accessors_from_op_def,
    irdl_attr_definition,
    opt_prop_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum
from xdsl.utils.type import get_element_type_or_self

from xdsl_quant.frontends.bracketed_attributes import BracketedAttribute


class TypeFn(StrEnum):
    """Conversion of integers to a wider type."""

    CAST_SIGNED = auto()
    CAST_UNSIGNED = auto()


@irdl_attr_definition
class TypeFnAttr(BracketedAttribute[TypeFn], EnumAttribute[TypeFn]):
    """`#linalg.type_fn<cast_unsigned>`"""

    name = "linalg.type_fn"


# Bodies

_OPS: Mapping[str, tuple[type[Operation], type[Operation]]] = {
    "sum": (arith.AddfOp, arith.AddiOp),
    "difference": (arith.SubfOp, arith.SubiOp),
    "product": (arith.MulfOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "max_unsigned": (arith.MaximumfOp, arith.MaxUIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp),
    "min_unsigned": (arith.MinimumfOp, arith.MinUIOp),
}
"""Ops on floats and integers."""

_BOOLEAN_OPS = {"sum": arith.OrIOp, "product": arith.AndIOp}
"""Ops on `i1` that differ from the ops on integers."""


def _built(
    op: type[Operation], operands: Sequence[SSAValue], type_: Attribute
) -> SSAValue:
    return op.create(operands=operands, result_types=(type_,)).results[0]


def _arithmetic(name: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    op = _OPS[name][_is_integer_type(lhs.type)]
    if lhs.type == i1:
        op = _BOOLEAN_OPS.get(name, op)
    return _built(op, (lhs, rhs), lhs.type)


def _converted(value: SSAValue, type_: Attribute, *, unsigned: bool) -> SSAValue:
    source = value.type
    if source == type_:
        return value
    is_from_integer = _is_integer_type(source)
    if is_from_integer != _is_integer_type(type_):
        signed = arith.SIToFPOp if is_from_integer else arith.FPToSIOp
        extended = arith.UIToFPOp if is_from_integer else arith.FPToUIOp
        return _built(extended if unsigned else signed, (value,), type_)
    if _bits(source) == _bits(type_):
        # As in MLIR, the body is invalid for `f16` and `bf16`.
        return value
    if _bits(source) > _bits(type_):
        op = arith.TruncIOp if is_from_integer else arith.TruncFOp
    elif is_from_integer:
        op = arith.ExtUIOp if unsigned else arith.ExtSIOp
    else:
        op = arith.ExtFOp
    return _built(op, (value,), type_)


def _bits(type_: Attribute) -> int:
    return cast(FixedBitwidthType, type_).bitwidth


def _is_integer_type(type_: Attribute) -> bool:
    return isinstance(type_, IntegerType)


def _has_arithmetic(type_: Attribute) -> bool:
    return isa(type_, IntegerType | AnyFloat)


def named_body(
    name: str, operands: Sequence[SSAValue], *, unsigned: bool = False
) -> Region:
    """
    Build the body of a named op.

    A product converts two factors to the type of the result, subtracts their zero points,
    multiplies, and adds to the result. Pooling combines an element of the image with the
    result. If operands are missing or are not numbers, the body yields its last argument.

    Args:
        name: the name of the op, which ends with the kind of pooling.
        operands: two inputs, optionally their zero points, and the result.
        unsigned: True to extend integers with zeros, as `max_unsigned` does.
    """
    types = [get_element_type_or_self(operand.type) for operand in operands]
    block = Block(arg_types=types)
    pooling = re.search(r"pooling_.*?_(sum|max|min)(_unsigned)?$", name)
    unsigned = unsigned or name.endswith("unsigned")
    with ImplicitBuilder(block):
        if len(types) not in (3, 5) or not all(map(_has_arithmetic, types)):
            YieldOp(*block.args[-1:])
            return Region(block)
        *inputs, result = block.args
        if pooling is not None:
            kind = f"{pooling[1]}{pooling[2] or ''}"
            element = _converted(inputs[0], result.type, unsigned=unsigned)
            YieldOp(_arithmetic(kind, result, element))
            return Region(block)
        factors: list[SSAValue] = []
        for i, value in enumerate(inputs[:2]):
            factor = _converted(value, result.type, unsigned=unsigned)
            if zero_points := inputs[2:]:
                zero_point = _converted(zero_points[i], result.type, unsigned=unsigned)
                factor = _arithmetic("difference", factor, zero_point)
            factors.append(factor)
        YieldOp(_arithmetic("sum", result, _arithmetic("product", *factors)))
    return Region(block)


# Layouts

_POOLING = {
    "ncw": ("ncw,W->ncw", ("sum", "max")),
    "nchw": ("nchw,HW->nchw", ("sum", "max")),
    "nwc": ("nwc,W->nwc", ("sum", "max", "min", "max_unsigned", "min_unsigned")),
    "nhwc": ("nhwc,HW->nhwc", ("sum", "max", "min", "max_unsigned", "min_unsigned")),
    "ndhwc": ("ndhwc,DHW->ndhwc", ("sum", "max", "min")),
}
"""Layout and kinds of pooling by format of the image."""

_LAYOUTS = {
    "batch_matmul": "bmk,bkn->bmn",
    "batch_matvec": "bmn,bn->bm",
    "batch_reduce_matmul": "bmk,bkn->mn bmnk",
    "batch_vecmat": "bm,bmn->bn",
    "conv_1d": "w,W->w",
    "conv_2d": "hw,HW->hw",
    "conv_3d": "dhw,DHW->dhw",
    "dot": "m,m->",
    "matmul": "mk,kn->mn",
    "matvec": "mn,n->m",
    "quantized_batch_matmul": "bmk,bkn->bmn",
    "quantized_matmul": "mk,kn->mn",
    "vecmat": "m,mn->n",
    "conv_1d_ncw_fcw": "ncw,fcW->nfw",
    "conv_1d_nwc_wcf": "nwc,Wcf->nwf",
    "conv_2d_nchw_fchw": "nchw,fcHW->nfhw",
    "conv_2d_nchw_fchw_q": "nchw,fcHW->nfhw",
    "conv_2d_ngchw_fgchw": "ngchw,fgcHW->ngfhw",
    "conv_2d_ngchw_gfchw": "ngchw,gfcHW->ngfhw",
    "conv_2d_ngchw_gfchw_q": "ngchw,gfcHW->ngfhw",
    "conv_2d_nhwc_fhwc": "nhwc,fHWc->nhwf",
    "conv_2d_nhwc_fhwc_q": "nhwc,fHWc->nhwf",
    "conv_2d_nhwc_hwcf": "nhwc,HWcf->nhwf",
    "conv_2d_nhwc_hwcf_q": "nhwc,HWcf->nhwf",
    "conv_2d_nhwgc_gfhwc": "nhwgc,gfHWc->nhwgf",
    "conv_2d_nhwgc_gfhwc_q": "nhwgc,gfHWc->nhwgf",
    "conv_3d_ncdhw_fcdhw": "ncdhw,fcDHW->nfdhw",
    "conv_3d_ndhwc_dhwcf": "ndhwc,DHWcf->ndhwf",
    "conv_3d_ndhwc_dhwcf_q": "ndhwc,DHWcf->ndhwf",
    "depthwise_conv_1d_ncw_cw": "ncw,cW->ncw nwcW",
    "depthwise_conv_1d_nwc_wc": "nwc,Wc->nwc",
    "depthwise_conv_1d_nwc_wcm": "nwc,Wcm->nwcm",
    "depthwise_conv_2d_nchw_chw": "nchw,cHW->nchw nhwcHW",
    "depthwise_conv_2d_nhwc_hwc": "nhwc,HWc->nhwc",
    "depthwise_conv_2d_nhwc_hwc_q": "nhwc,HWc->nhwc",
    "depthwise_conv_2d_nhwc_hwcm": "nhwc,HWcm->nhwcm",
    "depthwise_conv_2d_nhwc_hwcm_q": "nhwc,HWcm->nhwcm",
    "depthwise_conv_3d_ncdhw_cdhw": "ncdhw,cDHW->ncdhw ndhwDHWc",
    "depthwise_conv_3d_ndhwc_dhwc": "ndhwc,DHWc->ndhwc ndhwDHWc",
    "depthwise_conv_3d_ndhwc_dhwcm": "ndhwc,DHWcm->ndhwcm ndhwmDHWc",
    **{
        f"pooling_{image}_{kind}": layout
        for image, (layout, kinds) in _POOLING.items()
        for kind in kinds
    },
}
"""`einsum` notation by name, optionally followed by a space and the order of the loops."""

LAYOUTS: Mapping[str, str] = {f"linalg.{name}": v for name, v in _LAYOUTS.items()}
"""Layouts by the full name of the op."""


def _layout_of(op: Operation) -> tuple[str, str, str, str]:
    """Return the dimensions of the two inputs and the result, and the loops."""
    dimensions, _, order = LAYOUTS[op.name].partition(" ")
    inputs, _, result = dimensions.partition("->")
    image, window = inputs.split(",")
    return (
        image,
        window,
        result,
        order or result + "".join(letter for letter in window if letter not in result),
    )


def window_steps(op: Operation, name: str) -> Sequence[int]:
    """Return the `strides` or `dilations` of the window dimensions, by default 1."""
    _, window, _, _ = _layout_of(op)
    match op.properties.get(name):
        case DenseIntOrFPElementsAttr() as steps:
            return cast(DenseIntElementsAttr, steps).get_values()
        case _:
            return (1,) * sum(letter.isupper() for letter in window)


def default_maps(self: NamedOperation) -> Sequence[AffineMap]:
    """Return the indexing maps of the layout."""
    image, window, result, loops = _layout_of(self)
    strides, dilations = window_steps(self, "strides"), window_steps(self, "dilations")
    indices = {letter: AffineDimExpr(i) for i, letter in enumerate(loops)}
    spatial = [letter for letter in image if letter.upper() in loops]

    def image_index(letter: str) -> AffineExpr:
        if letter not in spatial:
            return indices[letter]
        axis = spatial.index(letter)
        position, offset = indices[letter], indices[letter.upper()]
        return position * strides[axis] + offset * dilations[axis]

    has_zero_points = "quantized_" in self.name or self.name.endswith("_q")
    results = (
        tuple(map(image_index, image)),
        tuple(indices[letter] for letter in window),
        *((),) * 2 * has_zero_points,
        tuple(indices[letter] for letter in result),
    )
    return [AffineMap(len(loops), 0, exprs) for exprs in results]


# Ops


def check_elements(op: Operation) -> None:
    """
    Verify that the arithmetic of the body exists for the elements.

    Raises:
        VerifyException: if elements are neither integers nor floats, or in unsigned
            pooling and with zero points, if the result is not an integer wider than `i1`.
    """
    types = [get_element_type_or_self(operand.type) for operand in op.operands]
    for type_ in types:
        if not _has_arithmetic(type_):
            raise VerifyException(
                f"expected integer or float elements, found '{type_}'"
            )
    if not types:
        # The count of operands is verified later.
        return
    is_boolean = types[-1] == i1
    kind = re.search(r"(max|min)_unsigned$", op.name)
    if kind is not None and (is_boolean or not isinstance(types[-1], IntegerType)):
        raise VerifyException(
            f"unsupported operation: unsigned {kind[1]} not on uint, found '{types[-1]}'"
        )
    if is_boolean and len(types) > 3:
        raise VerifyException("unsupported operation: sub with bools")


def hidden_region(
    cls: type[NamedOperation], inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]
) -> Region:
    """Build the body of a named op: see `named_body`."""
    return named_body(cls.name, (*inputs, *outputs))


class _LayoutOp(NamedOperation):
    """Named op with a layout."""

    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True

    get_hidden_region = classmethod(hidden_region)  # pyright: ignore[reportAssignmentType] the type of any op

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return default_maps(self)

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        _, _, result, loops = _layout_of(self)
        parallel, reduction = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()
        return ArrayAttr(parallel if loop in result else reduction for loop in loops)

    def verify_(self) -> None:
        check_elements(self)
        super().verify_()


class _WindowOp(_LayoutOp):
    """Convolution or pooling. Strides and dilations are 1 by default."""

    strides = opt_prop_def(DenseIntElementsAttr)

    dilations = opt_prop_def(DenseIntElementsAttr)

    def verify_(self) -> None:
        _, window, _, _ = _layout_of(self)
        rank = sum(letter.isupper() for letter in window)
        for name in ("strides", "dilations"):
            steps = cast(DenseIntElementsAttr | None, self.properties.get(name))
            if steps is None:
                continue
            if steps.get_shape() != (rank,) or steps.get_element_type() != i64:
                raise VerifyException(
                    f"attribute '{name}' failed to satisfy constraint: 64-bit signless "
                    f"int elements attribute of shape [{rank}]"
                )
        super().verify_()


def parse_product(cls: type[NamedOperation], parser: Parser) -> NamedOperation:
    """Parse a matrix product, optionally with `indexing_maps` and the property `cast`."""
    maps: Attribute | None = None
    if parser.parse_optional_keyword("indexing_maps"):
        parser.parse_punctuation("=")
        maps = parser.parse_attribute()
    op = NamedOperation.parse.__func__(cls, parser)
    if maps is not None:
        op.properties["indexing_maps"] = maps
    is_unsigned = op.properties.get("cast") == TypeFnAttr(TypeFn.CAST_UNSIGNED)
    # As in MLIR, `batch_reduce_matmul` ignores the property.
    if is_unsigned and op.name != "linalg.batch_reduce_matmul":
        op.body.detach_block(0)
        named_body(op.name, op.operands, unsigned=True).move_blocks(op.body)
    return op


def print_product(self: NamedOperation, printer: Printer) -> None:
    """Print a matrix product, with `indexing_maps` unless they are the default."""
    maps = self.get_indexing_maps()
    if [map_.data for map_ in maps] != [*default_maps(self)]:
        printer.print_string(" indexing_maps = ")
        printer.print_attribute(maps)
    NamedOperation.print(self, printer)


class _ProductOp(_LayoutOp):
    """Matrix product with optional indexing maps, for transposed or broadcast factors."""

    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])

    cast = opt_prop_def(TypeFnAttr)

    parse = classmethod(parse_product)  # pyright: ignore[reportAssignmentType] the type of any op

    print = print_product

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        return self.indexing_maps or super().get_indexing_maps()


@cache
def _definition_of(base: type[_LayoutOp]) -> OpDef:
    """Return the definition that the ops of a base share except for the name."""
    return OpDef.from_pyrdl(type(base.__name__, (base,), {"name": "linalg"}))


def _named_op(name: str) -> type[_LayoutOp]:
    if re.search(r"\.(batch_|batch_reduce_)?matmul$", name):
        base = _ProductOp
    elif re.search(r"conv_.*_.*_|pooling", name):
        base = _WindowOp
    else:
        base = _LayoutOp
    words = [word.capitalize() for word in name.removeprefix("linalg.").split("_")]
    dimensions, _, _ = LAYOUTS[name].partition(" ")
    namespace = {"name": name, "__doc__": f"`{dimensions}`", "__module__": __name__}
    op = cast(type[_LayoutOp], type(f"{''.join(words)}Op", (base,), namespace))
    # `irdl_op_definition` would convert the same declarations 57 times.
    definition = replace(_definition_of(base), name=name)
    for attribute, value in get_accessors_from_op_def(definition, op.verify_).items():
        setattr(op, attribute, value)
    return op


NAMED_OPS: Sequence[type[NamedOperation]] = [*map(_named_op, LAYOUTS)]
"""An op for each layout, including ops that xDSL has."""
