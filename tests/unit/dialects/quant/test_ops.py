"""The casts, built in Python."""

import pytest
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    Builtin,
    IndexType,
    IntegerType,
    ModuleOp,
    NoneAttr,
    Signedness,
    StringAttr,
    TensorType,
    TupleType,
    UnrankedTensorType,
    VectorType,
    f32,
    f64,
    i8,
    i16,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import Pure, is_side_effect_free
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    DequantizeCastOp,
    Quant,
    QuantizeCastOp,
    StorageCastOp,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)

PER_LAYER = UniformQuantizedType(i8, f32, 0.5, 3)
OTHER = UniformQuantizedType(i8, f32, 0.5, 4)
PER_AXIS = UniformQuantizedPerAxisType(i8, f32, [0.5, 2.0], quantized_dimension=1)
SUB_CHANNEL = UniformQuantizedSubChannelType(
    i8, f32, [[0.5, 2.0]], quantized_dimensions=[1], block_sizes=[2]
)
ANY = AnyQuantizedType(i8, f32)
CALIBRATED = CalibratedQuantizedType(f32, -1.0, 1.0)

CastOp = QuantizeCastOp | DequantizeCastOp | StorageCastOp
CASTS = [QuantizeCastOp, DequantizeCastOp, StorageCastOp]


def test_dialect():
    assert [op.name for op in Quant.operations] == [
        "quant.qcast",
        "quant.dcast",
        "quant.scast",
        "quant.const_fake_quant",
        "quant.const_fake_quant_per_axis",
        "quant.stats",
        "quant.stats_ref",
        "quant.coupled_ref",
        "quant.region",
        "quant.return",
        "quant.dynamic_qcast",
        "quant.dynamic_dcast",
        "quant.choose_parameters",
    ]
    assert [attr.name for attr in Quant.attributes] == [
        "quant.any",
        "quant.block_scaled",
        "quant.calibrated",
        "quant.fixed_point",
        "quant.none",
        "quant.quantile",
        "quant.uniform",
    ]


# Construction


@pytest.mark.parametrize(
    ("op_type", "input_type", "result_type"),
    [
        (QuantizeCastOp, f32, PER_LAYER),
        (DequantizeCastOp, PER_LAYER, f32),
        (StorageCastOp, i8, PER_LAYER),
        (StorageCastOp, PER_LAYER, i8),
        (QuantizeCastOp, TensorType(f32, [-1, 2]), TensorType(PER_AXIS, [-1, 2])),
        (
            DequantizeCastOp,
            UnrankedTensorType(SUB_CHANNEL),
            UnrankedTensorType(f32),
        ),
        (
            StorageCastOp,
            TensorType(i8, [3, 4], StringAttr("a")),
            TensorType(SUB_CHANNEL, [3, 4]),
        ),
        (QuantizeCastOp, f32, ANY),
        (DequantizeCastOp, CALIBRATED, f32),
        (StorageCastOp, i8, ANY),
    ],
)
def test_construction(
    op_type: type[CastOp], input_type: Attribute, result_type: Attribute
):
    value = create_ssa_value(input_type)
    op = op_type(value, result_type)
    op.verify()
    assert op.input is value
    assert op.result.type == result_type
    assert op.properties == {}
    assert op.attributes == {}
    assert len(op.operands) == len(op.results) == 1


def test_construction_from_an_op():
    first = StorageCastOp(create_ssa_value(i8), PER_LAYER)
    second = DequantizeCastOp(first, f32)
    assert second.input is first.result


def test_text():
    op = QuantizeCastOp(
        create_ssa_value(TensorType(f32, [4])), TensorType(PER_LAYER, [4])
    )
    op.input.name_hint = "x"
    op.result.name_hint = "q"
    assert str(op) == (
        "%q = quant.qcast %x : tensor<4xf32> to "
        "tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>"
    )


# Folds


def _chain(start: Attribute, *steps: tuple[type[CastOp], Attribute]) -> list[CastOp]:
    """Casts, each of the result of the one before."""
    ops: list[CastOp] = []
    value: SSAValue = create_ssa_value(start)
    for op_type, result_type in steps:
        op = op_type(value, result_type)
        op.verify()
        ops.append(op)
        value = op.result
    return ops


@pytest.mark.parametrize("quantized_type", [PER_LAYER, ANY, CALIBRATED])
def test_dcast_of_qcast_is_the_value(quantized_type: Attribute):
    first, second = _chain(
        f32, (QuantizeCastOp, quantized_type), (DequantizeCastOp, f32)
    )
    assert first.fold() is None
    assert second.fold() == (first.input,)


@pytest.mark.parametrize(
    "quantized_type",
    [PER_LAYER, ANY, TensorType(PER_AXIS, [5, 2]), UnrankedTensorType(SUB_CHANNEL)],
)
def test_qcast_of_dcast_is_the_value(quantized_type: Attribute):
    expressed_type = AnyQuantizedType.cast_to_expressed_type(quantized_type)
    assert expressed_type is not None
    first, second = _chain(
        quantized_type,
        (DequantizeCastOp, expressed_type),
        (QuantizeCastOp, quantized_type),
    )
    assert first.fold() is None
    assert second.fold() == (first.input,)


@pytest.mark.parametrize(
    ("start", "between"),
    [
        (i8, PER_LAYER),
        (PER_LAYER, i8),
        (TensorType(i8, [5, 2]), TensorType(PER_AXIS, [5, 2])),
        (UnrankedTensorType(SUB_CHANNEL), UnrankedTensorType(i8)),
    ],
)
def test_scast_of_scast_is_the_value(start: Attribute, between: Attribute):
    first, second = _chain(start, (StorageCastOp, between), (StorageCastOp, start))
    assert first.fold() is None
    assert second.fold() == (first.input,)


def test_casts_to_another_type_do_not_fold():
    _, second = _chain(PER_LAYER, (DequantizeCastOp, f32), (QuantizeCastOp, OTHER))
    assert second.fold() is None
    _, second = _chain(PER_LAYER, (StorageCastOp, i8), (StorageCastOp, OTHER))
    assert second.fold() is None
    encoded = TensorType(f32, [2], StringAttr("a"))
    _, second = _chain(
        encoded,
        (QuantizeCastOp, TensorType(PER_LAYER, [2])),
        (DequantizeCastOp, TensorType(f32, [2])),
    )
    assert second.fold() is None


def test_casts_of_different_kinds_do_not_fold():
    _, second = _chain(f32, (QuantizeCastOp, PER_LAYER), (StorageCastOp, i8))
    assert second.fold() is None
    _, second = _chain(i8, (StorageCastOp, PER_LAYER), (DequantizeCastOp, f32))
    assert second.fold() is None


@pytest.mark.parametrize("op_type", CASTS)
def test_block_arguments_and_other_ops_do_not_fold(op_type: type[CastOp]):
    module = ModuleOp([test_op := test.TestOp(result_types=[f32])])
    assert op_type(test_op, PER_LAYER).fold() is None
    module.body.block.insert_arg(f32, 0)
    assert op_type(module.body.block.args[0], PER_LAYER).fold() is None


def test_a_cast_of_itself_does_not_fold():
    """The order of ops in a module is free, so there can be rings."""
    value = create_ssa_value(f32)
    first = QuantizeCastOp(value, PER_LAYER)
    second = DequantizeCastOp(first, f32)
    first.operands[0] = second.result
    assert first.fold() is None
    assert second.fold() is None


# Passes


def _module(ops: list[CastOp], *used: SSAValue) -> ModuleOp:
    start = test.TestOp(result_types=[ops[0].input.type])
    ops[0].operands[0] = start.results[0]
    return ModuleOp([start, *ops, test.TestOp(operands=used)])


def _names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.ops]


def test_folds_in_canonicalization():
    ops = _chain(f32, (QuantizeCastOp, PER_LAYER), (DequantizeCastOp, f32))
    module = _module(ops, ops[-1].result)
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    CanonicalizePass().apply(context, module)
    first, last = module.ops
    assert last.operands[0] is first.results[0]


@pytest.mark.parametrize("op_type", CASTS)
def test_casts_are_pure(op_type: type[CastOp]):
    assert op_type.has_trait(Pure)
    unused = op_type(create_ssa_value(f32), PER_LAYER)
    assert is_side_effect_free(unused)
    module = _module([unused])
    region_dce(module.body)
    assert _names(module) == ["test.op", "test.op"]


def test_equal_casts_are_common():
    (first,) = _chain(f32, (QuantizeCastOp, PER_LAYER))
    equal = QuantizeCastOp(first.input, UniformQuantizedType(i8, f32, 0.5, 3))
    other = QuantizeCastOp(first.input, OTHER)
    start = test.TestOp(result_types=[f32])
    for op in (first, equal, other):
        op.operands[0] = start.results[0]
    user = test.TestOp(operands=[first.result, equal.result, other.result])
    module = ModuleOp([start, first, equal, other, user])
    cse(module)
    assert list(module.ops) == [start, first, other, user]
    assert list(user.operands) == [first.result, first.result, other.result]


# Verification

_SHAPES = (
    "failed to verify that input and result are both scalars or both tensors with "
    "matching shape"
)
_TEXT = "!quant.uniform<i8:f32, 5.000000e-01:3>"


def _message(op: Operation) -> str:
    with pytest.raises(VerifyException) as e:
        op.verify()
    return str(e.value)


@pytest.mark.parametrize(
    ("op_type", "input_type", "result_type", "message"),
    [
        (
            QuantizeCastOp,
            *(i8, PER_LAYER),
            "'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but "
            "got 'i8'",
        ),
        (
            QuantizeCastOp,
            *(f32, TensorType(i8, [2])),
            "'quant.qcast' op result #0 must be scalar or tensor of quantized type, but "
            "got 'tensor<2xi8>'",
        ),
        (
            QuantizeCastOp,
            *(VectorType(f32, [2]), PER_LAYER),
            "'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but "
            "got 'vector<2xf32>'",
        ),
        (
            DequantizeCastOp,
            *(IndexType(), NoneAttr()),
            "'quant.dcast' op operand #0 must be scalar or tensor of quantized type, but "
            "got 'index'",
        ),
        (
            DequantizeCastOp,
            *(PER_LAYER, PER_LAYER),
            "'quant.dcast' op result #0 must be scalar or tensor of floating-point, but "
            f"got '{_TEXT}'",
        ),
        (
            StorageCastOp,
            *(IntegerType(8, Signedness.UNSIGNED), PER_LAYER),
            "'quant.scast' op operand #0 must be scalar or tensor of signless integer or "
            "quantized type, but got 'ui8'",
        ),
        (
            StorageCastOp,
            *(PER_LAYER, TupleType((i8,))),
            "'quant.scast' op result #0 must be scalar or tensor of signless integer or "
            "quantized type, but got 'tuple<i8>'",
        ),
        (
            QuantizeCastOp,
            *(TensorType(f32, [2]), TensorType(PER_LAYER, [-1])),
            f"'quant.qcast' op {_SHAPES}",
        ),
        (
            DequantizeCastOp,
            *(UnrankedTensorType(PER_LAYER), TensorType(f32, [])),
            f"'quant.dcast' op {_SHAPES}",
        ),
        (StorageCastOp, i8, TensorType(i8, [1]), f"'quant.scast' op {_SHAPES}"),
        (
            StorageCastOp,
            *(i8, i16),
            "'quant.scast' op failed to verify that input must be integer and result must "
            "be quantized, or vice versa",
        ),
        (
            QuantizeCastOp,
            *(f64, PER_LAYER),
            "expressed type in quantized type expected to match float type",
        ),
        (
            DequantizeCastOp,
            *(AnyQuantizedType(i8), f32),
            "expressed type in quantized type expected to match float type",
        ),
        (
            StorageCastOp,
            *(PER_LAYER, i16),
            "storage type in quantized type expected to match integer type",
        ),
        (
            StorageCastOp,
            *(CALIBRATED, i8),
            "storage type in quantized type expected to match integer type",
        ),
        (
            QuantizeCastOp,
            *(f32, PER_AXIS),
            "scalar types may not use per-axis quantization",
        ),
        (
            DequantizeCastOp,
            *(TensorType(PER_AXIS, [2]), TensorType(f32, [2])),
            "quantized dimension must be less than tensor rank",
        ),
        (
            StorageCastOp,
            *(TensorType(i8, [2, 3]), TensorType(PER_AXIS, [2, 3])),
            "quantized dimension size does not match number of scales",
        ),
        (
            StorageCastOp,
            *(SUB_CHANNEL, i8),
            "scalar types may not use sub-channel quantization",
        ),
        (
            QuantizeCastOp,
            *(TensorType(f32, [4]), TensorType(SUB_CHANNEL, [4])),
            "quantized dimension 1 must be less than tensor rank 1",
        ),
        (
            QuantizeCastOp,
            *(TensorType(f32, [1, 5]), TensorType(SUB_CHANNEL, [1, 5])),
            "tensor dimension size 5 at axis 1 must be divisible by the corresponding "
            "block size 2",
        ),
        (
            QuantizeCastOp,
            *(TensorType(f32, [0, 4]), TensorType(SUB_CHANNEL, [0, 4])),
            "tensor dimension size of zero is not allowed with sub-channel quantization",
        ),
        (
            QuantizeCastOp,
            *(TensorType(f32, [1, 4, 1]), TensorType(SUB_CHANNEL, [1, 4, 1])),
            "Rank of scales 2 must match the rank of the tensor 3",
        ),
        (
            QuantizeCastOp,
            *(TensorType(f32, [1, 8]), TensorType(SUB_CHANNEL, [1, 8])),
            "dimension size 4 of scales tensor at axis 1 should match (tensor dimension at "
            "axis / block sizes at axis) = 4",
        ),
    ],
)
def test_verification(
    op_type: type[CastOp],
    input_type: Attribute,
    result_type: Attribute,
    message: str,
):
    op = op_type(create_ssa_value(input_type), result_type)
    assert _message(op) == message


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ([[[1.0], [2.0]]], None),
        ([1.0, 2.0], None),
        ([[1.0, 2.0]], None),
        (
            [[1.0], [2.0]],
            "dimension size 2 of scales tensor at axis 0 should be 1, as the axis has no "
            "block size",
        ),
        (
            [[[1.0], [2.0]], [[3.0], [4.0]]],
            "dimension size 2 of scales tensor at axis 0 should be 1, as the axis has no "
            "block size",
        ),
    ],
)
def test_sub_channel_types_on_unranked_tensors(
    scales: list[object], message: str | None
):
    """MLIR refuses all of them."""
    quantized_type = UniformQuantizedSubChannelType(
        i8, f32, scales, quantized_dimensions=[1], block_sizes=[2]
    )
    op = QuantizeCastOp(
        create_ssa_value(UnrankedTensorType(f32)), UnrankedTensorType(quantized_type)
    )
    if message is None:
        op.verify()
    else:
        assert _message(op) == message
