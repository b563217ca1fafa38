"""Texts of the `tfl` dialect: valid ones of each op, and what may be wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True)
class Sample:
    """An op; operands whose text is `dense<...> : T` are constants."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = ()
    form: str = "generic"
    """`generic`, `custom` or `unquoted`"""

    def text(self) -> str:
        """A module with a function that has the op."""
        constants: list[str] = []
        arguments: list[str] = []
        types: list[str] = []
        for index, operand in enumerate(self.operands):
            type_ = operand.rpartition(" : ")[2]
            types.append(type_)
            if operand == type_:
                arguments.append(f"%a{index}: {type_}")
                continue
            op = '"tfl.pseudo_const"() <{value = ' + operand + "}> : () -> " + type_
            constants.append(f"%a{index} = {op}")
        names = ", ".join(f"%a{index}" for index in range(len(types)))
        count = len(self.results)
        bound = f"%r:{count} = " if count else ""
        properties = ", ".join(
            f"{name} = {value}" if value else name for name, value in self.properties
        )
        if self.form == "custom":
            attributes = f" {{{properties}}}" if properties else ""
            op = f"tfl.{self.name} {names}{attributes} : {self.results[0]}"
        else:
            quote = '"' if self.form == "generic" else ""
            attributes = f" <{{{properties}}}>" if properties else ""
            region = " ({\n  })" if self.name == "lstm" else ""
            op = (
                f"{quote}tfl.{self.name}{quote}({names}){attributes}{region} : "
                f"({', '.join(types)}) -> ({', '.join(self.results)})"
            )
        body = "\n  ".join((*constants, bound + op))
        return f"func.func @f({', '.join(arguments)}) {{\n  {body}\n  func.return\n}}\n"


def _samples() -> list[Sample]:
    found: list[Sample] = []

    def add(names: str, operands: str, results: str, properties: str = "") -> None:
        pairs = [pair.partition("=") for pair in _split(properties)]
        for name in names.split():
            found.append(
                Sample(
                    name,
                    tuple(_split(operands)),
                    tuple(_split(results)),
                    tuple((key.strip(), value.strip()) for key, _, value in pairs),
                )
            )

    f, i, b = "tensor<2x3xf32>", "tensor<2xi32>", "tensor<2x3xi1>"
    activation = 'fused_activation_function = "NONE"'
    add("add sub mul div", f"{f}; {f}", f, activation)
    add("add sub", f"{f}; tensor<3xf32>", f, activation)
    add("maximum minimum squared_difference pow floor_div floor_mod", f"{f}; {f}", f)
    add("equal not_equal greater greater_equal less less_equal", f"{f}; {f}", b)
    add("logical_and logical_or", f"{b}; {b}", b)
    add("logical_not", b, b)
    add("select select_v2", f"{b}; {f}; {f}", f)
    add("neg abs sign sqrt rsqrt exp log sin cos floor ceil round cast", f, f)
    add("relu relu6 relu_n1_to_1 relu_0_to_1 hard_swish elu logistic tanh", f, f)
    add("log_softmax", f, f)
    add("leaky_relu", f, f, "alpha = 0.5 : f32")
    add("softmax", f, f, "beta = 1.0 : f32")
    bits = "num_bits = 8 : i32; narrow_range = false"
    add("fake_quant", f, f, f"min = -1.0 : f32; max = 2.0 : f32; {bits}")
    add("gelu", f, f, "approximate = true")
    add("l2_normalization", f, f, activation)
    add("prelu", f"{f}; tensor<3xf32>", f)
    q = "tensor<2x3x!quant.uniform<i8:f32, 0.5:1>>"
    add("quantize", f, q, f"qtype = {q}")
    add("dequantize", q, f)
    strides = 'padding = "SAME"; stride_h = 1 : i32; stride_w = 1 : i32'
    dilations = "dilation_h_factor = 1 : i32; dilation_w_factor = 1 : i32"
    image = "tensor<1x4x5x2xf32>"
    add(
        "conv_2d",
        f"{image}; tensor<3x2x2x2xf32>; tensor<3xf32>",
        "tensor<1x4x5x3xf32>",
        f"{activation}; {strides}; {dilations}",
    )
    add(
        "depthwise_conv_2d",
        f"{image}; tensor<1x2x2x2xf32>; none",
        image,
        f"{activation}; {strides}; {dilations}; depth_multiplier = 1 : i32",
    )
    add(
        "transpose_conv",
        f"dense<[1, 4, 5, 3]> : tensor<4xi32>; tensor<3x2x2x2xf32>; {image}; none",
        "tensor<1x4x5x3xf32>",
        f"{activation}; {strides}",
    )
    add(
        "fully_connected",
        f"{f}; tensor<4x3xf32>; tensor<4xf32>",
        "tensor<2x4xf32>",
        f'{activation}; keep_num_dims = false; weights_format = "DEFAULT"',
    )
    add(
        "batch_matmul",
        "tensor<2x4x3xf32>; tensor<1x3x5xf32>",
        "tensor<2x4x5xf32>",
        "adj_x = false; adj_y = false",
    )
    add(
        "svdf",
        f"{f}; {f}; {f}; none; {f}",
        f,
        f"{activation}; rank = 1 : i32; asymmetric_quantize_inputs = true",
    )
    lstm = "tensor<1x3x2xf32>; " + "tensor<4x2xf32>; " * 4 + "tensor<4x4xf32>; " * 4
    lstm += "none; " * 3 + "tensor<4xf32>; " * 4 + "none; " * 2
    states = "tensor<1x4xf32>; tensor<1x4xf32>; "
    options = (
        'fused_activation_function = "TANH"; time_major = false; cell_clip = 0.0 : f32'
    )
    add(
        "unidirectional_sequence_lstm",
        f"{lstm}{states}none; none; none; none",
        "tensor<1x3x4xf32>",
        options,
    )
    peephole = lstm.replace("none; none; none; ", "tensor<4xf32>; " * 3)
    add(
        "unidirectional_sequence_lstm",
        f"{peephole}{states}none; none; none; none",
        "tensor<1x3x4xf32>",
        options,
    )
    cell = lstm.replace("1x3x2", "1x2"), states, "none; none; none; none"
    options = (
        'fused_activation_function = "TANH"; cell_clip = 0.0 : f32; '
        "kernel_type = #tfl<lstm_kernel_type_attr FULL>"
    )
    add("lstm", "".join(cell), "tensor<1x4xf32>", options)
    norms = "; ".join(["tensor<4xf32>"] * 4)
    cell = peephole.replace("1x3x2", "1x2"), states, norms
    add("lstm", "".join(cell), "tensor<1x4xf32>", options)
    add("embedding_lookup", f"{i}; tensor<9x3xf32>", f)
    add(
        "average_pool_2d max_pool_2d",
        image,
        image,
        f"{activation}; {strides}; filter_height = 1 : i32; filter_width = 1 : i32",
    )
    add(
        "resize_bilinear resize_nearest_neighbor",
        f"{image}; {i}",
        "tensor<1x8x8x2xf32>",
        "align_corners = false; half_pixel_centers = true",
    )
    add(
        "mean sum reduce_prod reduce_max reduce_min",
        f"{f}; tensor<1xi32>",
        "tensor<2xf32>",
        "keep_dims = false",
    )
    add("arg_max arg_min", f"{f}; tensor<i32>", i)
    add("topk_v2", f"{f}; tensor<i32>", "tensor<2x1xf32>; tensor<2x1xi32>")
    add("reshape", f"{f}; dense<[3, -1]> : tensor<2xi32>", "tensor<3x2xf32>")
    add("reshape", f"{f}; tensor<2xi32>", "tensor<3x2xf32>")
    add("squeeze", "tensor<1x3xf32>", "tensor<3xf32>", "squeeze_dims = [0]")
    add("expand_dims", f"{f}; tensor<i32>", "tensor<1x2x3xf32>")
    add("transpose", f"{f}; dense<[1, 0]> : {i}", "tensor<3x2xf32>")
    add("transpose", f"{f}; {i}", "tensor<3x2xf32>")
    add("slice", f"{f}; dense<[1, 0]> : {i}; dense<[1, -1]> : {i}", "tensor<1x3xf32>")
    masks = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask".split()
    add(
        "strided_slice",
        f"{f}; {i}; {i}; {i}",
        "tensor<1x3xf32>",
        "; ".join((*(f"{mask} = 0 : i32" for mask in masks), "offset = false")),
    )
    add("dynamic_update_slice", f"{f}; tensor<1x1xf32>; {i}", f)
    add(
        "concatenation",
        f"{f}; tensor<1x3xf32>; tensor<?x3xf32>",
        "tensor<?x3xf32>",
        f"axis = 0 : i32; {activation}",
    )
    add(
        "concatenation",
        f"{f}; {f}",
        "tensor<2x6xf32>",
        f"axis = -1 : i32; {activation}",
    )
    add(
        "pack",
        f"{f}; {f}",
        "tensor<2x2x3xf32>",
        "axis = 0 : i32; values_count = 2 : i32",
    )
    add(
        "unpack",
        f,
        "tensor<2xf32>; tensor<2xf32>; tensor<2xf32>",
        "axis = 1 : i32; num = 3 : i32",
    )
    add(
        "split",
        f"dense<0> : tensor<i32>; {f}",
        "tensor<1x3xf32>; tensor<1x3xf32>",
        "num_splits = 2 : i32",
    )
    add(
        "split_v",
        f"{f}; dense<[1, -1]> : {i}; dense<1> : tensor<i32>",
        "tensor<2x1xf32>; tensor<2x2xf32>",
        "num_splits = 2 : i32",
    )
    add("pad", f"{f}; tensor<2x2xi32>", "tensor<4x5xf32>")
    add("rfft2d", f"{f}; {i}", "tensor<2x2xcomplex<f32>>")
    add("real imag complex_abs", "tensor<2x3xcomplex<f32>>", f)
    add("padv2", f"{f}; tensor<2x2xi32>; tensor<f32>", "tensor<4x5xf32>")
    add(
        "mirror_pad",
        f"{f}; tensor<2x2xi32>",
        "tensor<4x5xf32>",
        "mode = #tfl<mirror_pad_attr REFLECT>",
    )
    add(
        "gather",
        f"{f}; tensor<4xi32>",
        "tensor<4x3xf32>",
        "axis = 0 : i32; batch_dims = 0 : i32",
    )
    add("gather_nd", f"{f}; tensor<4x2xi32>", "tensor<4xf32>")
    add("tile", f"{f}; {i}", "tensor<4x3xf32>")
    add("broadcast_to", f"{f}; tensor<3xi32>", "tensor<5x2x3xf32>")
    add("reverse_v2", f"{f}; tensor<1xi32>", f)
    add(
        "space_to_depth depth_to_space",
        "tensor<1x4x4x4xf32>",
        "tensor<1x?x?x?xf32>",
        "block_size = 2 : i32",
    )
    add(
        "space_to_batch_nd batch_to_space_nd",
        f"tensor<4x4x4x2xf32>; {i}; tensor<2x2xi32>",
        "tensor<?x?x?x2xf32>",
    )
    add("pseudo_const", "", "tensor<2x3xi32>", "value = dense<7> : tensor<2x3xi32>")
    add("pseudo_qconst", "", q, f"qtype = {q}; value = dense<7> : tensor<2x3xi8>")
    add("no_value", "", "none", "value")
    add("shape", f, i)
    add("rank", f, "tensor<i32>")
    add("broadcast_args", f"{i}; {i}", i)
    add("fill", f"{i}; tensor<f32>", f)
    add("range", "tensor<i32>; tensor<i32>; tensor<i32>", "tensor<?xi32>")
    add(
        "custom",
        f"{f}; none",
        f"{f}; {f}",
        'custom_code = "A"; custom_option = #tfl<const_bytes : "0x6162">',
    )
    add(
        "var_handle",
        "",
        "tensor<*x!tf_type.resource>",
        'container = ""; shared_name = "a"',
    )
    add("read_variable", "tensor<*x!tf_type.resource>", f)
    add("assign_variable", f"tensor<*x!tf_type.resource>; {f}", "")
    add("call_once", "", "", 'session_init_function = "NoOp"')
    return found


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split("; ") if part.strip()]


SAMPLES = _samples()

CUSTOM_FORMS = (
    "add sub mul div floor_div pow squared_difference logical_and logical_or not_equal "
    "greater greater_equal less less_equal"
).split()

_ELEMENTS = (
    "f32",
    "f16",
    "i32",
    "i64",
    "i8",
    "ui8",
    "i4",
    "i1",
    "!tf_type.quint8",
    "!tf_type.string",
    "!quant.uniform<i8:f32, 0.5:1>",
    "!quant.uniform<i8:f32, 0.25>",
    "!quant.uniform<i8<-127:127>:f32, 0.5:1>",
    "!quant.uniform<u8:f32, 0.5:1>",
    "!quant.uniform<u8:f32, 0.25:3>",
    "!quant.uniform<i16:f32, 0.5>",
    "!quant.uniform<i4:f32, 0.5>",
)
_TENSOR = re.compile(r"tensor<((?:[\d?]+x)*)(.*)>")


def _with_type(
    change: Callable[[Random, list[str], str], str],
) -> Callable[[Random, str], str]:
    """A change of a type, behind a constant or not."""

    def changed(random: Random, operand: str) -> str:
        type_ = operand.rpartition(" : ")[2]
        if not (match := _TENSOR.fullmatch(type_)):
            return random.choice(("none", "tensor<2x3xf32>", "tensor<*xf32>"))
        return change(random, [*match[1].split("x")[:-1]], match[2])

    return changed


def _tensor(sizes: Sequence[str], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


@_with_type
def _other_element(random: Random, sizes: list[str], element: str) -> str:
    return _tensor(sizes, random.choice(_ELEMENTS))


@_with_type
def _other_size(random: Random, sizes: list[str], element: str) -> str:
    if sizes:
        sizes[random.randrange(len(sizes))] = random.choice("1234?")
    return _tensor(sizes, element)


@_with_type
def _other_rank(random: Random, sizes: list[str], element: str) -> str:
    if sizes and random.random() < 0.5:
        sizes.pop(random.randrange(len(sizes)))
    else:
        sizes.insert(random.randrange(len(sizes) + 1), random.choice("12?"))
    return _tensor(sizes, element)


@_with_type
def _no_rank(random: Random, sizes: list[str], element: str) -> str:
    return f"tensor<*x{element}>"


@_with_type
def _no_tensor(random: Random, sizes: list[str], element: str) -> str:
    return random.choice((f"memref<{'x'.join((*sizes, 'f32'))}>", "none", "f32"))


def _other_numbers(random: Random, operand: str) -> str:
    """Other numbers in a constant."""
    if operand == operand.rpartition(" : ")[2]:
        return _other_size(random, operand)
    numbers = re.sub(r"-?\d+", lambda _: str(random.randrange(-2, 4)), operand, count=0)
    return numbers.rpartition(" : ")[0] + " : " + operand.rpartition(" : ")[2]


_CHANGES = (
    *(_other_element, _other_element, _other_size, _other_size, _other_rank),
    *(_no_rank, _no_tensor, _other_numbers, _other_numbers),
)
_VALUES = (
    *("0 : i32", "-1 : i32", "2 : i32", "9 : i32", "1 : i64", "1.5 : f32", "true"),
    *('"NONE"', '"VALID"', '"RELU6"', '"X"', "tensor<2x3xf32>", "[0]", "unit"),
)


def _with_property(random: Random, sample: Sample) -> Sample:
    properties = [*sample.properties]
    if not properties:
        return sample
    index = random.randrange(len(properties))
    name, _ = properties.pop(index)
    if random.random() < 0.7:
        properties.insert(index, (name, random.choice(_VALUES)))
    return replace(sample, properties=tuple(properties))


def _with_quantized(random: Random, sample: Sample) -> Sample:
    """Quantized instead of floating-point numbers, of one type or another."""
    one, other = random.choices(_ELEMENTS[-7:], k=2)

    def changed(type_: str) -> str:
        element = one if random.random() < 0.8 else other
        return type_.replace("f32>", f"{element}>") if "quant" not in type_ else type_

    return replace(
        sample,
        operands=tuple(map(changed, sample.operands)),
        results=tuple(map(changed, sample.results)),
    )


def changed(random: Random, sample: Sample) -> Sample:
    """A sample with something else in one place."""
    where = random.randrange(12)
    if where < 3:
        return _with_property(random, sample)
    if where < 5:
        return _with_quantized(random, sample)
    if where == 5 and random.random() < 0.3:
        operands = sample.operands
        return replace(
            sample, operands=random.choice((operands[1:], (*operands, "tensor<f32>")))
        )
    types = [*sample.operands, *sample.results]
    if not types:
        return sample
    index = random.randrange(len(types))
    change = random.choice(_CHANGES)
    count = len(sample.operands)
    if index >= count and change is _other_numbers:
        change = _other_size
    types[index] = change(random, types[index])
    return replace(sample, operands=tuple(types[:count]), results=tuple(types[count:]))
