"""Lowering of batch normalization with known statistics."""

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from xdsl_quant.frontends.stablehlo.dialect import BatchNormInferenceOp
from xdsl_quant.transforms.building.builder import LoweringBuilder, dimensions, shape_of

from .lowering import LinalgLowering, Values, stored_type


class LowerBatchNormInference(LinalgLowering[BatchNormInferenceOp]):
    """Lower `stablehlo.batch_norm_inference` to one `linalg.generic`."""

    def lower(
        self, builder: LoweringBuilder, op: BatchNormInferenceOp, args: Values
    ) -> Values:
        type_ = stored_type(op.operand.type)

        def body(body: LoweringBuilder, elements: Values) -> SSAValue:
            value, scale, offset, mean, variance, _ = elements
            epsilon = body.number(op.epsilon.value.data, type_.element_type)
            centered = body.add(arith.SubfOp(value, mean))
            total = body.add(arith.AddfOp(variance, epsilon))
            deviation = body.add(math.SqrtOp(total))
            normalized = body.add(arith.DivfOp(centered, deviation))
            scaled = body.add(arith.MulfOp(normalized, scale))
            return body.add(arith.AddfOp(scaled, offset))

        whole = dimensions(range(len(shape_of(args[0]))))
        feature = [whole[op.feature_index.value.data]]
        inputs = [(args[0], whole), *((value, feature) for value in args[1:])]
        return [builder.map(inputs, type_, builder.sizes(args[0]), body)]
