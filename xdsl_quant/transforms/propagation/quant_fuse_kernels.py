"""
Wrap ops in the kernels of a hardware target.

Each `quant.region` contains the unchanged ops of one pattern of the target and has a port
for each value from outside (see
[`kernel_matching`][xdsl_quant.transforms.propagation.kernel_matching]). Larger kernels take
precedence. The pass leaves an op alone if no pattern matches, if its types match no
signature, or if it is quantized or has side effects. A chain whose intermediate results
have other users is not fused.

Before, with the target `stablehlo-int8`:

```mlir
%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ...
%z = stablehlo.add %y, %b : tensor<2x4xf32>
```

After, where `%b` is a constant:

```mlir
%z = quant.region "product_bias" (%x_1 = %x : tensor<2x3xf32>,
    %w_1 = %w : tensor<3x4xf32>, %b_1 = %b : tensor<2x4xf32>) -> (tensor<2x4xf32>) {
  %y = stablehlo.dot_general %x_1, %w_1, contracting_dims = [1] x [0] : ...
  %z = stablehlo.add %y, %b_1 : tensor<2x4xf32>
  quant.return %z : tensor<2x4xf32>
}
```
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant.regions import RegionOp, ReturnOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome

from .kernel_matching import (
    KernelMatch,
    constant_values,
    kernel_matches,
    pattern_names,
    uses_from_outside,
)
from .module_kernels import blocks_with_kernels, functions_called_by, kernels_of
from .target_files import target_of_option
from .target_spec import TargetSpec

POSITIONS = "quant.positions"
"""
Kernel attribute with the former positions of the kernel's ops in their block, set if the
ops were not adjacent. `quant-inline-regions` uses it to restore the order.
"""


@dataclass(frozen=True)
class QuantFuseKernelsPass(CountingPass):
    """Wrap the ops of each pattern of a hardware target in a `quant.region`."""

    name = "quant-fuse-kernels"

    target: str | None = None
    """Name of a built-in or plugin target, or path of a `.toml` file; required."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        target = target_of_option(self.target)
        names = target.op_names
        candidates = [x for x in op.walk() if not names.isdisjoint(pattern_names(x))]
        before = len(kernels_of(op))
        return PassOutcome(
            candidates,
            fuse_kernels(op, target) - before,
            f"chains of ops with the types of a kernel of target '{target.name}'",
            remedy="see xdsl-quant target check",
        )


def fuse_kernels(module: ModuleOp, target: TargetSpec) -> int:
    """
    Wrap ops in the kernels of a target.

    Returns:
        The number of kernels in the module, including those that existed before.

    Raises:
        PassFailedException: if a Python pattern fails or does not return ops; the
            module is unchanged then.
    """
    constants = constant_values(module)
    blocks = [*blocks_with_kernels(module)]
    count = sum(isinstance(op, RegionOp) for block in blocks for op in block.ops)
    # Match everything before the first change, so a failing pattern changes nothing.
    matches = [m for block in blocks for m in kernel_matches(block, target, constants)]
    ops = (op for match in matches for op in match.ops)
    in_kernels = functions_called_by(module, ops)
    for match in matches:
        if not any(function.is_ancestor(match.ops[0]) for function in in_kernels):
            _wrap(match)
            count += 1
    return count


def _wrap(match: KernelMatch) -> None:
    last = match.ops[-1]
    uses = [*uses_from_outside(match.ops)]
    inputs = [use.operation.operands[use.index] for use in uses]
    region = RegionOp(
        match.kernel.name, inputs, [value.type for value in match.outputs]
    )
    region.location = last.location
    if match.positions[-1] - match.positions[0] >= len(match.ops):
        region.attributes[POSITIONS] = ArrayAttr(
            IntegerAttr(position, i64) for position in match.positions
        )
    Rewriter.insert_op(region, InsertPoint.before(last))
    inside = {inner for op in match.ops for inner in op.walk()}
    for value, result in zip(match.outputs, region.results, strict=True):
        result.name_hint = value.name_hint
        value.replace_uses_with_if(result, lambda use: use.operation not in inside)
    body = region.body.block
    operands: dict[Operation, list[SSAValue]] = {}
    for use, argument in zip(uses, body.args, strict=True):
        op = use.operation
        argument.name_hint = op.operands[use.index].name_hint
        operands.setdefault(op, [*op.operands])[use.index] = argument
    for op, values in operands.items():
        op.operands = values
    terminator = body.last_op
    assert isinstance(terminator, ReturnOp)
    for op in match.ops:
        op.detach()
        body.insert_op_before(op, terminator)
    terminator.operands = match.outputs
