"""Control flow ops: conditionals and loops."""

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import TFLOp, is_compatible_with_shape, shape_of

__all__ = [
    "IfOp",
    "WhileOp",
    "YieldOp",
]


@irdl_op_definition
class YieldOp(TFLOp):
    """
    Terminator that yields the results of a region.

    Example:

    ```mlir
    "tfl.yield"(%0) : (tensor<4xf32>) -> ()
    ```
    """

    name = "tfl.yield"

    arguments = var_operand_def()

    traits = traits_def(Pure(), IsTerminator(), quant.AcceptsStoredValues())


@irdl_op_definition
class IfOp(TFLOp):
    """
    Conditional: the results of the region that `cond` selects. `else_region` may be empty.

    Example:

    ```mlir
    %2 = "tfl.if"(%0) ({
      "tfl.yield"(%1) : (tensor<4xf32>) -> ()
    }, {
      "tfl.yield"(%1) : (tensor<4xf32>) -> ()
    }) : (tensor<i1>) -> tensor<4xf32>
    ```
    """

    name = "tfl.if"

    cond = operand_def(kinds.BOOL)
    output = var_result_def(kinds.variadic_of("any"))
    then_region = region_def()
    else_region = region_def()

    traits = traits_def(RecursiveMemoryEffect(), quant.AcceptsStoredValues())

    def verify_(self) -> None:
        self.require(
            bool(self.then_region.blocks),
            "region #0 ('then_region') failed to verify constraint: region with 1 blocks",
        )
        for index, region in enumerate(self.regions):
            self.require(
                len(region.blocks) < 2, f"expects region #{index} to have 0 or 1 blocks"
            )
            self.require(
                not region.blocks or not region.block.args,
                f"region #{index} should have no arguments",
            )


@irdl_op_definition
class WhileOp(TFLOp):
    """
    Loop: run `body` on the loop-carried tensors as long as `cond` yields true.

    Example:

    ```mlir
    %3 = "tfl.while"(%2) ({
    ^bb0(%arg0: tensor<i32>):
      %0 = tfl.less(%arg0, %limit) : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "tfl.yield"(%0) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg0: tensor<i32>):
      %1 = tfl.add %arg0, %one {fused_activation_function = "NONE"} : tensor<i32>
      "tfl.yield"(%1) : (tensor<i32>) -> ()
    }) : (tensor<i32>) -> tensor<i32>
    ```
    """

    name = "tfl.while"

    input = var_operand_def(kinds.variadic_of("any"))
    is_stateless = opt_prop_def(props.BOOL)
    output = var_result_def(kinds.variadic_of("any"))
    cond = region_def()
    body = region_def()

    traits = traits_def(quant.AcceptsStoredValues())

    def verify_(self) -> None:
        for index, (name, region) in enumerate(
            (("cond", self.cond), ("body", self.body))
        ):
            self.require(
                len(region.blocks) == 1,
                f"region #{index} ('{name}') failed to verify constraint: region with 1 "
                "blocks",
            )
        self.require(
            len(self.input) == len(self.output),
            "number of operands does not match number of results "
            f"({len(self.input)} != {len(self.output)})",
        )
        cond, body = self.cond.block.args, self.body.block.args
        self.require(
            len(cond) == len(body),
            "number of arguments in condition function does not match number of arguments "
            f"in body function ({len(cond)} != {len(body)})",
        )
        for a, b in zip(cond, body, strict=True):
            self.require(
                is_compatible_with_shape(a, shape_of(b)),
                "condition function's argument type does not match body function's "
                f"argument type ({a.type} != {b.type})",
            )
