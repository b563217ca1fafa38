"""Contractions with weights: `dot_general` and `convolution`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    MultipliesAndAccumulates,
)
from xdsl_quant.dialects.quant.types import PerAxisType
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    require,
)

from . import rules
from . import tensor_kinds as kinds
from .attributes import (
    ConvDimensionNumbersAttr,
    DotAlgorithmAttr,
    DotDimensionNumbersAttr,
    Precision,
    PrecisionAttr,
    dimension_size_text,
)
from .base import StableHLOOp, are_compatible_elements
from .rules import WindowDimension, verify_count, verify_dimensions, window_dimensions
from .syntax import FUNCTIONAL_TYPE

__all__ = [
    "ConvolutionOp",
    "DotGeneralOp",
]


@dataclass(frozen=True)
class ProductCoefficient(AffineOpCoefficient):
    """Trait of `dot_general` and `convolution`: the right operand contains weights."""

    def dimension_of(self, op: Operation) -> int | None:
        return op.coefficient_dimension if isinstance(op, ProductOp) else None

    def result_dimension_of(self, op: Operation) -> int:
        if isinstance(op, ConvolutionOp):
            return op.dimension_numbers.output_feature_dimension.data
        return super().result_dimension_of(op)

    def input_dimensions_of(self, op: Operation) -> tuple[int, int] | None:
        if isinstance(op, DotGeneralOp):
            _, (lhs, rhs) = op.dot_dimension_numbers.pairs()
            return (lhs[0], rhs[0]) if len(lhs) == 1 else None
        assert isinstance(op, ConvolutionOp)
        if op.batch_group_count.value.data != 1:
            return None
        numbers, groups = op.dimension_numbers, op.feature_group_count.value.data
        channels = numbers.input_feature_dimension.data
        if groups == 1:
            return channels, numbers.kernel_input_feature_dimension.data
        size = op.tensor_types[0].get_shape()[channels]
        # Depthwise: each channel of the input is a group.
        is_depthwise = size == groups
        return (channels, self.dimension_of(op) or 0) if is_depthwise else None

    def contracting_dimensions_of(self, op: Operation) -> Sequence[int]:
        if isinstance(op, DotGeneralOp):
            return op.dot_dimension_numbers.rhs_contracting_dimensions.get_values()
        return super().contracting_dimensions_of(op)


def verify_precisions(config: ArrayAttr[Attribute] | None) -> None:
    """Raise `VerifyException` if there are more precisions than factors."""
    require(
        config is None or len(config) <= 2,
        "expects precision config to be empty or have <= 2 elements, got "
        f"{len(config or ())}",
    )


def verify_product_shape(shape: Sequence[int], result: RankedTensor) -> None:
    """Raise `VerifyException` if the result has another shape than the inferred one."""
    sizes = ", ".join(map(dimension_size_text, shape))
    require(
        are_compatible_shapes(shape, result.get_shape()),
        f"inferred shape '[{sizes}]' is incompatible with return type of operation "
        f"'{result}'",
    )


class ProductOp(StableHLOOp, ABC):
    """Op that multiplies a tensor by weights and accumulates."""

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR_OR_PER_AXIS)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    traits = traits_def(Pure(), MultipliesAndAccumulates(), ProductCoefficient())

    @property
    @abstractmethod
    def coefficient_dimension(self) -> int | None:
        """Dimension of the right operand that may have per-axis scales."""

    @abstractmethod
    def result_dimensions(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Map dimensions of `lhs` and of `rhs` to the corresponding result dimensions."""

    @abstractmethod
    def inferred_shape(self) -> Sequence[int]:
        """
        Infer the shape of the result, in which unknown sizes are `DYNAMIC_INDEX`.

        Raises:
            VerifyException: if operands and properties are inconsistent.
        """

    @abstractmethod
    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        """
        Verify zero points and quantized dimensions of an op with a quantized tensor.

        Raises:
            VerifyException: if a zero point or quantized dimension is unsupported.
        """

    def inferred_types(self) -> Sequence[RankedTensor]:
        """Infer the result type; its element type is that of the left operand."""
        element_type = self.tensor_types[0].element_type
        return [TensorType(element_type, self.inferred_shape())]

    def verify_(self) -> None:
        verify_precisions(self.precision_config)
        types = self.tensor_types
        verify_product_shape(self.inferred_shape(), types[-1])
        if rules.has_quantized(types):
            lhs, rhs, result = (type_.element_type for type_ in types)
            self.verify_quantization(rhs, result)
            rules.verify_quantized_product(lhs, rhs, result)


@irdl_op_definition
class DotGeneralOp(ProductOp):
    """
    Batched matrix product: sums of products over the contracting dimensions.

    Example:

    ```mlir
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]
        : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#dot_general).
    """

    name = "stablehlo.dot_general"

    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    algorithm = opt_prop_def(DotAlgorithmAttr)

    assembly_format = (
        "$lhs `,` $rhs `,` custom<DotDimensions>($dot_dimension_numbers) "
        "custom<PrecisionAndAlgorithm>($precision_config, $algorithm) "
        f"{FUNCTIONAL_TYPE}"
    )

    @property
    def coefficient_dimension(self) -> int | None:
        (_, batching), _ = self.dot_dimension_numbers.pairs()
        free = {*self.result_dimensions()[1]} - {*batching}
        return free.pop() if len(free) == 1 else None

    def result_dimensions(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        batching, contracting = self.dot_dimension_numbers.pairs()
        # The result has batching dimensions, then the free ones of `lhs` and of `rhs`.
        free = count(len(batching[0]))
        mappings = [
            dict(zip(dimensions, count(), strict=False)) for dimensions in batching
        ]
        for side, type_ in enumerate(self.tensor_types[:2]):
            for d in range(len(type_.get_shape())):
                if d not in (*batching[side], *contracting[side]):
                    mappings[side][d] = next(free)
        lhs, rhs = (dict(sorted(mapping.items())) for mapping in mappings)
        return lhs, rhs

    def verify_(self) -> None:
        is_default = all(
            precision.data is Precision.DEFAULT
            for precision in self.precision_config or ()
        )
        require(
            self.algorithm is None or is_default,
            "expects precisions DEFAULT of an algorithm",
        )
        super().verify_()

    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        numbers = self.dot_dimension_numbers
        rules.verify_rhs_of_dot(rhs, numbers.rhs_contracting_dimensions.get_values())

    def inferred_shape(self) -> Sequence[int]:
        batching, contracting = self.dot_dimension_numbers.pairs()
        lhs, rhs, _ = self.tensor_types
        shapes = lhs.get_shape(), rhs.get_shape()
        for side, (name, shape) in enumerate(zip(("lhs", "rhs"), shapes, strict=True)):
            used = [*batching[side], *contracting[side]]
            verify_dimensions(f"{name} dimension numbers", used, len(shape))
        for kind, pair in (("batching", batching), ("contracting", contracting)):
            a, b = (
                [shape[dimension] for dimension in dimensions]
                for shape, dimensions in zip(shapes, pair, strict=True)
            )
            require(
                are_compatible_shapes(a, b), f"{kind} dimensions must match for lhs/rhs"
            )
        sizes: dict[int, int] = {}
        for shape, mapping in zip(shapes, self.result_dimensions(), strict=True):
            sizes = {position: shape[d] for d, position in mapping.items()} | sizes
        return [sizes[position] for position in sorted(sizes)]


class ConvolvingOp(StableHLOOp, ABC):
    """Op that multiplies a kernel by the windows of a tensor."""

    window_strides = opt_prop_def(kinds.NUMBERS)
    lhs_dilation = opt_prop_def(kinds.NUMBERS)
    rhs_dilation = opt_prop_def(kinds.NUMBERS)
    window_reversal = opt_prop_def(DenseArrayBase.constr(i1))
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    batch_group_count = prop_def(IntegerAttr[I64])
    feature_group_count = prop_def(IntegerAttr[I64])

    @abstractmethod
    def known_padding(self) -> DenseIntOrFPElementsAttr | None:
        """Return the padding of spatial dimensions; `None` for zero or unknown padding."""

    @property
    def window(self) -> list[WindowDimension]:
        """
        Window parameters of the kernel along each spatial dimension.

        Raises:
            VerifyException: if properties are inconsistent.
        """
        shape = self.tensor_types[1].get_shape()
        spatial = self.dimension_numbers.kernel_spatial_dimensions.get_values()
        return window_dimensions(
            [shape[dimension] for dimension in spatial],
            self.window_strides,
            self.known_padding(),
            self.lhs_dilation,
            self.rhs_dilation,
            self.window_reversal,
        )

    def inferred_shape(self) -> Sequence[int]:
        """
        Infer the shape of the result, in which unknown sizes are `DYNAMIC_INDEX`.

        Raises:
            VerifyException: if operands and properties are inconsistent.
        """
        lhs_type, rhs_type, *_ = self.tensor_types
        lhs, rhs = lhs_type.get_shape(), rhs_type.get_shape()
        a, b = lhs_type.element_type, rhs_type.element_type
        if not are_compatible_elements(a, b) and not rules.has_quantized(
            (lhs_type, rhs_type)
        ):
            raise VerifyException(
                f"expects lhs and rhs to have compatible element type. Got: '{a}' and '{b}'"
            )
        rank = len(lhs)
        verify_count("dimensions of the kernel", rhs, rank)
        tensors = self.dimension_numbers.by_tensor()
        for name, dimensions in tensors.items():
            verify_count(f"{name} dimension-numbers", dimensions, rank)
            verify_dimensions(f"{name} dimension-numbers", dimensions, rank)
        batch, features, *input_sizes = (lhs[i] for i in tensors["input"])
        kernel_features, output_features, *_ = (rhs[i] for i in tensors["kernel"])
        positions = [
            along.positions(size)
            for along, size in zip(self.window, input_sizes, strict=True)
        ]
        self._verify_groups(batch, features, kernel_features, output_features)
        if batch != DYNAMIC_INDEX:
            batch //= self.batch_group_count.value.data
        sizes = dict(
            zip(tensors["output"], (batch, output_features, *positions), strict=True)
        )
        return [sizes[dimension] for dimension in range(rank)]

    def _verify_groups(
        self, batch: int, features: int, kernel_features: int, output_features: int
    ) -> None:
        batch_groups = self.batch_group_count.value.data
        feature_groups = self.feature_group_count.value.data
        require(
            1 in (batch_groups, feature_groups),
            "expects batch_group_count and feature_group_count not to be both greater "
            f"than 1. Got {batch_groups} and {feature_groups} resp.",
        )
        for name, size, groups in (
            ("input batch", batch, batch_groups),
            ("input feature", features, feature_groups),
            ("output feature", output_features, batch_groups),
            ("output feature", output_features, feature_groups),
        ):
            require(groups > 0, f"expects positive group counts, got {groups}")
            require(
                size == DYNAMIC_INDEX or not size % groups,
                f"expects {name} dimension ({size}) to be a multiple of the group count "
                f"({groups})",
            )
        require(
            features == DYNAMIC_INDEX
            or kernel_features in (DYNAMIC_INDEX, features // feature_groups),
            f"expects input feature dimension ({features}) / feature_group_count "
            f"({feature_groups}) = kernel input feature dimension ({kernel_features})",
        )


@irdl_op_definition
class ConvolutionOp(ConvolvingOp, ProductOp):
    """
    Dot products of a kernel with the windows of a tensor.

    Example:

    ```mlir
    %2 = stablehlo.convolution(%0, %1)
        dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {stride = [1, 1], pad = [[1, 1], [1, 1]]}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x8x8x16xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#convolution).
    """

    name = "stablehlo.convolution"

    padding = opt_prop_def(DenseIntOrFPElementsAttr[I64])

    assembly_format = (
        "`` `(` operands `)` "
        "`dim_numbers` `=` custom<ConvDimensions>($dimension_numbers) `,` "
        "`window` `=` custom<ConvolutionWindow>($window_strides, $padding, "
        f"$lhs_dilation, $rhs_dilation, $window_reversal) {FUNCTIONAL_TYPE}"
    )
    irdl_options = (ParsePropInAttrDict(),)

    def known_padding(self) -> DenseIntOrFPElementsAttr | None:
        return self.padding

    @property
    def coefficient_dimension(self) -> int | None:
        return self.dimension_numbers.kernel_output_feature_dimension.data

    def result_dimensions(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        (batch, *_), (_, features, *_), output = (
            self.dimension_numbers.by_tensor().values()
        )
        # With batch groups, no result dimension corresponds to the batch dimension.
        is_grouped = self.batch_group_count.value.data != 1
        return {} if is_grouped else {batch: output[0]}, {features: output[1]}

    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        """Verify C29 and C30 of `convolution`: scales vary only along output features."""
        for name, type_, words in (
            ("rhs", rhs, "kernel_output_feature_dimension"),
            ("result", result, "output_feature_dimension"),
        ):
            require(
                not isinstance(type_, PerAxisType)
                or type_.quantized_dimension == getattr(self.dimension_numbers, words),
                f"quantization dimension of {name} should be same with {words}",
            )
