"""Windows of convolutions and pooling: strides, dilations and padding of a node."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo.dialect.rules import Padding, WindowDimension
from xdsl_quant.unsupported import Unsupported


def per_dimension(
    node: Node, name: str, default: int, rank: int, sides: int = 1
) -> Sequence[int]:
    """Return an attribute with `sides` integers for each of `rank` spatial dimensions."""
    values = node.integers(name) or [default] * rank * sides
    if len(values) != rank * sides:
        raise Unsupported(
            f"attribute '{name}' has {len(values)} values; expected {rank * sides}"
        )
    return values


def declared_padding(node: Node, rank: int) -> Sequence[tuple[int, int]]:
    """Return the attribute `pads` as padding before and after each spatial dimension."""
    pads = per_dimension(node, "pads", 0, rank, 2)
    return [*zip(pads[:rank], pads[rank:], strict=True)]


def windows_of(
    node: Node, kernel: Sequence[int], image: Sequence[int], hint: str
) -> list[WindowDimension]:
    """
    Return the window of a node along each spatial dimension.

    Args:
        node: convolution or pooling node.
        kernel: sizes of the window.
        image: sizes of the spatial dimensions of the input.
        hint: advice in the message about dynamic sizes.
    """
    rank = len(image)
    _check_kernel_shape(node, kernel)
    auto_pad = node.text("auto_pad", "NOTSET")
    pads = declared_padding(node, rank)
    windows: list[WindowDimension] = []
    for size, extent, stride, dilation, (low, high) in zip(
        image,
        kernel,
        per_dimension(node, "strides", 1, rank),
        per_dimension(node, "dilations", 1, rank),
        pads,
        strict=True,
    ):
        if min(extent, stride, dilation) < 1:
            raise Unsupported(
                "sizes, strides and dilations of windows must be positive; found "
                f"{extent}, {stride} and {dilation}"
            )
        window = WindowDimension(extent, stride, dilation, Padding(low, high))
        if auto_pad != "NOTSET":
            window = window._replace(padding=_padding(auto_pad, window, size, hint))
        windows.append(window)
    return windows


def _check_kernel_shape(node: Node, kernel: Sequence[int]) -> None:
    declared = per_dimension(node, "kernel_shape", 0, len(kernel))
    if any(declared) and (*declared,) != (*kernel,):
        texts = ("x".join(map(str, sizes)) for sizes in (declared, kernel))
        raise Unsupported(
            "attribute 'kernel_shape' is {}, but the weights have windows {}".format(
                *texts
            )
        )


def _padding(auto_pad: str, window: WindowDimension, size: int, hint: str) -> Padding:
    """Return the padding of a mode of `auto_pad`."""
    if auto_pad == "VALID":
        return Padding()
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise Unsupported(f"attribute 'auto_pad' has the unknown value '{auto_pad}'")
    if size == DYNAMIC_INDEX and window.stride > 1:
        raise Unsupported(f"'auto_pad' depends on an unknown size; {hint}")
    rest = (-size % window.stride) if window.stride > 1 else 0
    total = max(window.extent - window.stride + rest, 0)
    return split_padding(total, is_upper=auto_pad == "SAME_UPPER")


def split_padding(total: int, *, is_upper: bool) -> Padding:
    """Return padding on both sides; the larger half is the upper or the lower one."""
    half = total // 2
    return Padding(half, total - half) if is_upper else Padding(total - half, half)
