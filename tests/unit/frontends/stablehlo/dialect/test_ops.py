"""Ops made in Python: what their constructors fill in, their traits, and their text."""

import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    TensorType,
    bf16,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import Commutative, ConstantLike, Pure
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException

from tests.real_stablehlo import RealStableHLO
from xdsl_quant.dialects.quant import UniformQuantizedPerAxisType, UniformQuantizedType
from xdsl_quant.frontends.stablehlo.dialect import (
    AbsOp,
    AddOp,
    AndOp,
    AsyncDoneOp,
    AsyncStartOp,
    BroadcastInDimOp,
    CaseOp,
    ClampOp,
    CollectivePermuteOp,
    CompareOp,
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonType,
    ComparisonTypeAttr,
    CompositeOp,
    ConcatenateOp,
    ConstantOp,
    ConvDimensionNumbersAttr,
    ConvertOp,
    ConvolutionOp,
    CustomCallOp,
    DivideOp,
    DotDimensionNumbersAttr,
    DotGeneralOp,
    ExponentialOp,
    GatherDimensionNumbersAttr,
    GatherOp,
    IfOp,
    InfeedOp,
    LogisticOp,
    MapOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    OrOp,
    OutfeedOp,
    PadOp,
    Precision,
    PrecisionAttr,
    RecvOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ResultAccuracyAttr,
    ReturnOp,
    RngBitGeneratorOp,
    RngOp,
    ScatterOp,
    SelectAndScatterOp,
    SelectOp,
    SendOp,
    SliceOp,
    SortOp,
    StableHLO,
    SubtractOp,
    TanhOp,
    TransposeOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
    WhileOp,
    XorOp,
)
from xdsl_quant.frontends.stablehlo.dialect.attributes import (
    booleans_attr,
    padding_attr,
)
from xdsl_quant.runtime.loading import IRError, parse_module

Q = UniformQuantizedType(i8, f32, 0.5)
PER_AXIS = UniformQuantizedPerAxisType(i8, f32, (0.5, 0.25), quantized_dimension=1)


def _value(element_type: Attribute, *shape: int) -> SSAValue:
    return Block(arg_types=[TensorType(element_type, shape)]).args[0]


def _named(name: str, *shape: int, element_type: Attribute = f32) -> SSAValue:
    value = _value(element_type, *shape)
    value.name_hint = name
    return value


X = _named("x", 2, 3)
S = _named("s")
P = _named("p", element_type=i1)
SCALAR = TensorType(f32, ())
DOT = DotDimensionNumbersAttr(
    lhs_batching_dimensions=[],
    rhs_batching_dimensions=[],
    lhs_contracting_dimensions=[1],
    rhs_contracting_dimensions=[1],
)
CONV = ConvDimensionNumbersAttr(
    input_batch_dimension=0,
    input_feature_dimension=2,
    input_spatial_dimensions=[1],
    kernel_input_feature_dimension=1,
    kernel_output_feature_dimension=2,
    kernel_spatial_dimensions=[0],
    output_batch_dimension=0,
    output_feature_dimension=2,
    output_spatial_dimensions=[1],
)
PRECISIONS = ArrayAttr(
    [PrecisionAttr(Precision.DEFAULT), PrecisionAttr(Precision.HIGH)]
)


def _tensor(*shape: int) -> TensorType[Attribute]:
    return TensorType(f32, shape)


def _slice(starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]):
    return SliceOp(
        X,
        result_types=[_tensor(2, 2)],
        start_indices=starts,
        limit_indices=limits,
        strides=strides,
    )


def _dot(
    lhs: SSAValue,
    rhs: SSAValue = X,
    result_types: Sequence[Attribute] = (TensorType(f32, (2, 2)),),
    dot_dimension_numbers: DotDimensionNumbersAttr = DOT,
    precision_config: Attribute | None = None,
):
    return DotGeneralOp(
        lhs,
        rhs,
        result_types=result_types,
        dot_dimension_numbers=dot_dimension_numbers,
        precision_config=precision_config,
    )


MADE: dict[str, Callable[[], Operation]] = {
    "stablehlo.constant dense<1> : tensor<2xi8>": lambda: ConstantOp(
        DenseIntOrFPElementsAttr.from_list(TensorType(i8, (2,)), (1,))
    ),
    "stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> "
    "tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>": lambda: ConstantOp(
        DenseIntOrFPElementsAttr.from_list(TensorType(i8, (2,)), (1,)),
        TensorType(Q, (2,)),
    ),
    "stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> "
    "tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>": lambda: UniformQuantizeOp(
        X, result_types=[TensorType(Q, (2, 3))]
    ),
    "stablehlo.add %x, %x : tensor<2x3xf32>": lambda: AddOp(X, X),
    "stablehlo.add %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x?xf32>": (
        lambda: AddOp(X, X, result_types=[_tensor(2, DYNAMIC_INDEX)])
    ),
    "stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xi8>": lambda: ConvertOp(
        X, result_types=[TensorType(i8, (2, 3))]
    ),
    "stablehlo.tanh %x : tensor<2x3xf32>": lambda: TanhOp(X),
    "stablehlo.compare LT, %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
    "tensor<2x3xi1>": lambda: CompareOp(
        X,
        X,
        result_types=[TensorType(i1, (2, 3))],
        comparison_direction=ComparisonDirectionAttr(ComparisonDirection.LT),
    ),
    "stablehlo.compare EQ, %x, %x, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
    "tensor<2x3xi1>": lambda: CompareOp(
        X,
        X,
        result_types=[TensorType(i1, (2, 3))],
        comparison_direction=ComparisonDirectionAttr(ComparisonDirection.EQ),
        compare_type=ComparisonTypeAttr(ComparisonType.FLOAT),
    ),
    "stablehlo.select %p, %x, %x : tensor<i1>, tensor<2x3xf32>": lambda: SelectOp(
        P, X, X, result_types=[X.type]
    ),
    "stablehlo.clamp %s, %x, %s : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> "
    "tensor<2x3xf32>": lambda: ClampOp(S, X, S, result_types=[X.type]),
    "stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>": lambda: ReshapeOp(
        X, result_types=[_tensor(6)]
    ),
    "stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>": (
        lambda: TransposeOp(X, result_types=[_tensor(3, 2)], permutation=(1, 0))
    ),
    "stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<2x3xf32>) -> "
    "tensor<2x4x3xf32>": lambda: BroadcastInDimOp(
        X, result_types=[_tensor(2, 4, 3)], broadcast_dimensions=(0, 2)
    ),
    "stablehlo.concatenate %x, %x, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
    "tensor<2x6xf32>": lambda: ConcatenateOp(
        [X, X], result_types=[_tensor(2, 6)], dimension=1
    ),
    "stablehlo.slice %x [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>": (
        lambda: _slice((0, 0), (2, 3), (1, 2))
    ),
    "stablehlo.pad %x, %s, low = [0, 1], high = [0, -1], interior = [1, 0] : "
    "(tensor<2x3xf32>, tensor<f32>) -> tensor<3x3xf32>": lambda: PadOp(
        X,
        S,
        result_types=[_tensor(3, 3)],
        edge_padding_low=(0, 1),
        edge_padding_high=(0, -1),
        interior_padding=(1, 0),
    ),
    "stablehlo.reduce(%x init: %s) applies stablehlo.maximum across dimensions = [0] : "
    "(tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>": lambda: ReduceOp(
        [X], [S], MaximumOp, [_tensor(3)], dimensions=[0]
    ),
    "stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], "
    "precision = [DEFAULT, HIGH] : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
    "tensor<2x2xf32>": lambda: _dot(X, precision_config=PRECISIONS),
    "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
    "window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
    "(tensor<1x8x4xf32>, tensor<3x4x2xf32>) -> tensor<1x6x2xf32>": lambda: (
        ConvolutionOp(
            _named("a", 1, 8, 4),
            _named("b", 3, 4, 2),
            result_types=[_tensor(1, 6, 2)],
            dimension_numbers=CONV,
            batch_group_count=1,
            feature_group_count=1,
        )
    ),
    "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
    "window = {stride = [2], pad = [[1, 0]], lhs_dilate = [1], rhs_dilate = [1], "
    "reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, "
    "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]} : "
    "(tensor<1x8x4xf32>, tensor<3x2x2xf32>) -> tensor<1x4x2xf32>": lambda: (
        ConvolutionOp(
            _named("a", 1, 8, 4),
            _named("b", 3, 2, 2),
            result_types=[_tensor(1, 4, 2)],
            dimension_numbers=CONV,
            window_strides=[2],
            padding=padding_attr([(1, 0)]),
            lhs_dilation=[1],
            rhs_dilation=[1],
            window_reversal=booleans_attr([True]),
            batch_group_count=1,
            feature_group_count=2,
            precision_config=PRECISIONS,
        )
    ),
    "stablehlo.return %x, %s : tensor<2x3xf32>, tensor<f32>": lambda: ReturnOp(X, S),
}


@pytest.mark.parametrize("text", MADE)
def test_what_is_made_in_python(text: str):
    op = MADE[text]()
    op.verify()
    assert str(op).removeprefix("%0 = ") == text


def test_results_have_the_type_of_an_operand():
    q = _value(Q, 4)
    for op_type in (AddOp, SubtractOp, MultiplyOp, DivideOp, MaximumOp, MinimumOp):
        op = op_type(q, q)
        op.verify()
        assert op.result.type == q.type
    for op_type in (NegateOp, AbsOp, ExponentialOp, LogisticOp, TanhOp):
        op = op_type(q)
        op.verify()
        assert op.result.type == q.type


def test_properties_read_back():
    transpose = TransposeOp(X, result_types=[_tensor(3, 2)], permutation=(1, 0))
    assert transpose.permutation.get_values() == (1, 0)
    slice_ = _slice((0, 0), (2, 3), (1, 2))
    assert slice_.limit_indices.get_values() == (2, 3)
    concatenate = ConcatenateOp([X, X], result_types=[_tensor(2, 6)], dimension=1)
    assert concatenate.dimension.value.data == 1
    dot = _dot(X)
    assert dot.dot_dimension_numbers.rhs_contracting_dimensions.get_values() == (1,)
    assert dot.precision_config is None
    convolution = ConvolutionOp(
        X,
        X,
        result_types=[_tensor(1)],
        dimension_numbers=CONV,
        batch_group_count=1,
        feature_group_count=1,
    )
    assert convolution.padding is None
    assert convolution.window_strides is None
    assert convolution.feature_group_count.value.data == 1
    assert TanhOp(X).result_accuracy == ResultAccuracyAttr()


def test_properties_of_python_values():
    numbers = GatherDimensionNumbersAttr([1], [0], [], [], [0], index_vector_dim=1)
    gather = GatherOp(
        X,
        _value(i32, 4, 1),
        result_types=[_tensor(4, 3)],
        dimension_numbers=numbers,
        slice_sizes=[1, 3],
        indices_are_sorted=True,
    )
    gather.verify()
    assert gather.slice_sizes.get_values() == (1, 3)
    assert gather.indices_are_sorted == BoolAttr.from_bool(True)
    window = ReduceWindowOp(
        [X], [S], MaximumOp, [_tensor(1, 2)], window_dimensions=[2, 2]
    )
    window.verify()


def test_fields_of_attributes():
    with pytest.raises(
        TypeError, match="expected the fields lhs_batching_dimensions, "
    ):
        DotDimensionNumbersAttr(lhs_contracting_dimensions=[1])  # pyright: ignore[reportCallIssue] the error itself
    assert DotDimensionNumbersAttr([], [], [1], rhs_contracting_dimensions=[1]) == DOT


def test_properties_may_be_among_the_attributes():
    module = parse_module(
        """
        func.func @f(%x: tensor<1x8x4xf32>, %k: tensor<3x4x2xf32>) {
          %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]
            {precision_config = [#stablehlo<precision HIGH>], note}
            : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<1x4x1x4xf32>
          %1 = stablehlo.convolution(%x, %k)
            dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64,
             window_strides = array<i64: 5>}
            : (tensor<1x8x4xf32>, tensor<3x4x2xf32>) -> tensor<1x2x2xf32>
          %2 = stablehlo.compare LT, %x, %x {
            compare_type = #stablehlo<comparison_type FLOAT>
          } : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<1x8x4xi1>
          %3 = stablehlo.transpose %k, dims = [2, 1, 0] {permutation = array<i64: 0, 2, 1>}
            : (tensor<3x4x2xf32>) -> tensor<3x2x4xf32>
          func.return
        }
        """
    )
    text = str(module)
    assert "contracting_dims = [1] x [1], precision = [HIGH] {note} :" in text
    assert "compare LT, %x, %x, FLOAT : " in text
    assert "transpose %k, dims = [0, 2, 1] : " in text
    assert "window = {stride = [5]} {batch_group_count" in text


def test_a_return_is_of_tensors():
    with pytest.raises(VerifyException, match="operand #0 must be variadic of ranked"):
        ReturnOp(Block(arg_types=[i32]).args[0]).verify()


def test_a_resource_may_be_a_constant():
    value = DenseResourceAttr.from_params("weights", TensorType(i8, (2,)))
    ConstantOp(value).verify()
    ConstantOp(value, TensorType(Q, (2,))).verify()


def test_traits():
    impure = {op for op in StableHLO.operations if not op.has_trait(Pure)}
    control_flow = {CaseOp, IfOp, WhileOp}
    computing = {MapOp, ReduceOp, ReduceWindowOp, ScatterOp, SelectAndScatterOp, SortOp}
    random = {RngOp, RngBitGeneratorOp}
    parallel = {op for op in impure if op.__module__.endswith("collectives")}
    assert CollectivePermuteOp in parallel
    transfers = {InfeedOp, OutfeedOp, SendOp, RecvOp, AsyncStartOp, AsyncDoneOp}
    kept = {CompositeOp, CustomCallOp, *random, *parallel, *transfers}
    assert impure == {*kept, *computing, *control_flow}
    commutative = {op for op in StableHLO.operations if op.has_trait(Commutative)}
    assert commutative == {AddOp, AndOp, MaximumOp, MinimumOp, MultiplyOp, OrOp, XorOp}
    assert [op for op in StableHLO.operations if op.has_trait(ConstantLike)] == [
        ConstantOp
    ]


def test_what_is_dead_is_removed():
    module = parse_module(
        """
        func.func @f(%x: tensor<2xf32>, %s: tensor<f32>) {
          %0 = stablehlo.constant dense<1.0> : tensor<2xf32>
          %1 = stablehlo.multiply %x, %0 : tensor<2xf32>
          %2 = stablehlo.reduce(%1 init: %s) applies stablehlo.add across dimensions = [0]
            : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          func.return
        }
        """
    )
    assert region_dce(module.body)
    assert [op.name for op in module.walk()] == [
        "builtin.module",
        "func.func",
        "func.return",
    ]


def test_an_invalid_slice_has_a_text():
    invalid = _slice((0,), (2, 3), (1, 2))
    assert "[0:2, None:3:2]" in str(invalid)
    with pytest.raises(VerifyException, match="expects 2 start_indices, got 1"):
        invalid.verify()


_LONG = UniformQuantizedPerAxisType(
    i8, f32, [0.5] * 1000, [0] * 999 + [128], quantized_dimension=0
)


def test_each_zero_point_is_checked():
    value = _value(_LONG, 1000)
    for _ in range(2):
        with pytest.raises(VerifyException, match="operand #0 must be"):
            AddOp(value, value).verify()


def test_elements_that_hybrid_ops_take():
    weights = _value(PER_AXIS, 3, 2)
    numbers = DotDimensionNumbersAttr([], [], [1], [0])
    _dot(X, weights, dot_dimension_numbers=numbers).verify()
    with pytest.raises(VerifyException, match="mismatched rhs quantization expressed"):
        _dot(
            _value(bf16, 2, 3),
            weights,
            result_types=[TensorType(bf16, (2, 2))],
            dot_dimension_numbers=numbers,
        ).verify()


REDUCERS = {
    "stablehlo.add %a, %b": True,
    "stablehlo.maximum %a, %b": True,
    "stablehlo.add %b, %a": False,
    "stablehlo.add %a, %a": False,
    "stablehlo.subtract %a, %b": False,
}


@pytest.mark.parametrize("reducer", REDUCERS)
def test_what_the_short_form_of_a_reduction_is_for(reducer: str):
    module = parse_module(
        f"""
        func.func @f(%x: tensor<2xi32>, %s: tensor<i32>) {{
          %0 = stablehlo.reduce(%x init: %s) across dimensions = [0]
            : (tensor<2xi32>, tensor<i32>) -> tensor<i32>
            reducer(%a: tensor<i32>, %b: tensor<i32>) {{
            %1 = {reducer} : tensor<i32>
            stablehlo.return %1 : tensor<i32>
          }}
          func.return
        }}
        """
    )
    assert ("applies" in str(module)) == REDUCERS[reducer]
    assert str(parse_module(str(module))) == str(module)


def test_a_reduction_that_widens_is_written_out():
    wide, narrow = TensorType(i64, ()), TensorType(i32, (2,))
    block = Block(arg_types=(wide, wide))
    lhs, rhs = block.args
    total = AddOp(lhs, rhs)
    block.add_ops((total, ReturnOp(total)))
    reduce = ReduceOp(
        [_value(i32, 2)], [_value(i32)], Region(block), [wide], dimensions=[0]
    )
    assert reduce.inputs[0].type == narrow
    reduce.verify()
    assert "applies" not in str(reduce)
    assert "reducer(" in str(reduce)


_IMPORTED = """
import sys
import xdsl_quant.frontends.stablehlo.dialect
print(sorted(name for name in ("numpy", "xdsl_quant.transforms") if name in sys.modules))
"""


def test_the_dialect_imports_nothing_heavy():
    command = [sys.executable, "-c", _IMPORTED]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


def test_a_module_that_is_parsed_is_verified_and_printed_as_it_was():
    text = str(
        ModuleOp(
            [
                constant := ConstantOp(
                    DenseIntOrFPElementsAttr.from_list(
                        TensorType(f32, (2,)), (1.0, 2.0)
                    )
                ),
                quantized := UniformQuantizeOp(
                    constant, result_types=[TensorType(Q, (2,))]
                ),
                UniformDequantizeOp(quantized, result_types=[TensorType(f32, (2,))]),
            ]
        )
    )
    assert str(parse_module(text)) == text


def test_replica_groups_along_mesh_axes():
    """Real StableHLO accepts the same module, and refuses it without the symbol."""
    axes = '[#stablehlo.axis_ref<name = "x">, #stablehlo.axis_ref<name = "y">]'
    groups = f"#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = {axes}>"
    text = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = "stablehlo.all_reduce"(%x) <{{replica_groups = {groups}}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }}) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}"""
    with pytest.raises(IRError, match=r"replica_groups: mesh symbol 'mesh' not found"):
        parse_module(text)
    real, mesh = RealStableHLO(), "func.func private @mesh()\n"
    assert real.text(text) is None
    ours = str(parse_module(mesh + text))
    assert f"replica_groups = {groups}" in ours
    assert real.text(mesh + text) == real.text(ours)
