"""Window ops on images: pooling and resizing."""

from abc import ABC

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    SAME_INPUT,
    SAME_SCALE,
    OneInputOp,
    Requires,
    TFLOp,
    require_rank,
    require_size,
)

__all__ = [
    "AveragePool2DOp",
    "MaxPool2DOp",
    "ResizeBilinearOp",
    "ResizeNearestNeighborOp",
]


class PoolOp(OneInputOp, ABC):
    """Base class of pooling ops."""

    filter_height = prop_def(props.I32)
    filter_width = prop_def(props.I32)
    fused_activation_function = prop_def(props.ACTIVATION)
    padding = prop_def(props.PADDING)
    stride_h = prop_def(props.I32)
    stride_w = prop_def(props.I32)


class ResizeOp(TFLOp, ABC):
    """Base class of ops that resize images."""

    input = operand_def(kinds.tensor_of("f32 quint8 QUI8 QI8 QI16"))
    size = operand_def(kinds.I32)
    align_corners = prop_def(props.BOOL)
    half_pixel_centers = opt_prop_def(props.BOOL)
    output = result_def(kinds.tensor_of("f32 quint8 QUI8 QI8 QI16"))

    traits = traits_def(
        Pure(),
        Requires(
            SAME_INPUT,
            require_rank(0, 4),
            require_rank(1, 1),
            require_size(1, 2),
            SAME_SCALE,
        ),
        quant.SameOperandsAndResultsScale(),
    )


@irdl_op_definition
class AveragePool2DOp(PoolOp, elements="f32 QI8 QUI8 QI16"):
    """
    Average pooling of images (NHWC), which ignores padding.

    Example:

    ```mlir
    %1 = "tfl.average_pool_2d"(%0) <{
        filter_height = 2 : i32, filter_width = 2 : i32, fused_activation_function = "NONE",
        padding = "VALID", stride_h = 2 : i32, stride_w = 2 : i32
    }> : (tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32>
    ```
    """

    name = "tfl.average_pool_2d"

    traits = traits_def(
        Pure(),
        Requires(SAME_SCALE),
        quant.SameOperandsAndResultsScale(),
        quant.QuantizableResult(),
    )


@irdl_op_definition
class MaxPool2DOp(PoolOp, elements="f32 QUI8 QI8 QI16 quint8"):
    """
    Max pooling of images (NHWC), which ignores padding.

    Example:

    ```mlir
    %1 = "tfl.max_pool_2d"(%0) <{
        filter_height = 2 : i32, filter_width = 2 : i32, fused_activation_function = "NONE",
        padding = "VALID", stride_h = 2 : i32, stride_w = 2 : i32
    }> : (tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32>
    ```
    """

    name = "tfl.max_pool_2d"

    traits = traits_def(
        Pure(),
        Requires(require_rank(0, 4), SAME_INPUT, SAME_SCALE),
        quant.SameOperandsAndResultsScale(),
        quant.OrdersElements(),
    )


@irdl_op_definition
class ResizeBilinearOp(ResizeOp):
    """
    Resize images (NHWC) with bilinear interpolation.

    Example:

    ```mlir
    %2 = "tfl.resize_bilinear"(%0, %1) <{
        align_corners = false, half_pixel_centers = true
    }> : (tensor<1x4x4x3xf32>, tensor<2xi32>) -> tensor<1x8x8x3xf32>
    ```
    """

    name = "tfl.resize_bilinear"

    traits = traits_def(quant.QuantizableResult())


@irdl_op_definition
class ResizeNearestNeighborOp(ResizeOp):
    """
    Resize images (NHWC) with nearest-neighbor interpolation.

    Example:

    ```mlir
    %2 = "tfl.resize_nearest_neighbor"(%0, %1) <{
        align_corners = false, half_pixel_centers = true
    }> : (tensor<1x4x4x3xf32>, tensor<2xi32>) -> tensor<1x8x8x3xf32>
    ```
    """

    name = "tfl.resize_nearest_neighbor"

    traits = traits_def(quant.MovesElements((0,)))
