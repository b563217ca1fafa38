"""The op that stands for whatever StableHLO has no op for."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i32,
)
from xdsl.ir import Operation
from xdsl.irdl import (
    AtLeast,
    ParsePropInAttrDict,
    eq,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import EffectInstance, MemoryEffect

from xdsl_quant.dialects.verification import require

from .attributes import OutputOperandAliasAttr
from .base import StableHLOOp
from .syntax import FUNCTIONAL_TYPE

__all__ = [
    "CustomCallOp",
]

_TYPED_FFI = 4
"""The last `api_version`, which alone is configured by a dictionary."""

_Layouts = ArrayAttr[DenseIntOrFPElementsAttr[IndexType]]


class _CustomCallEffects(MemoryEffect):
    """Any effect if the op says that it has one, and none otherwise."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        assert isinstance(op, CustomCallOp)
        return None if op.has_side_effect.value.data else set()


@irdl_op_definition
class CustomCallOp(StableHLOOp):
    """
    A function that is known to who runs the program.

    Example:

    ```mlir
    %1 = stablehlo.custom_call @foo(%0) {backend_config = "bar"}
        : (tensor<4xf32>) -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#custom_call).
    """

    name = "stablehlo.custom_call"

    inputs = var_operand_def()
    call_target_name = prop_def(SymbolNameConstraint())
    has_side_effect = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    backend_config = opt_prop_def(StringAttr | DictionaryAttr)
    api_version = opt_prop_def(
        IntegerAttr.constr(eq(i32), value=AtLeast(0)), default_value=IntegerAttr(1, i32)
    )
    called_computations = opt_prop_def(
        ArrayAttr.constr(FlatSymbolRefAttrConstr), default_value=ArrayAttr(())
    )
    operand_layouts = opt_prop_def(_Layouts)
    result_layouts = opt_prop_def(_Layouts)
    output_operand_aliases = opt_prop_def(
        ArrayAttr[OutputOperandAliasAttr], default_value=ArrayAttr(())
    )
    result = var_result_def()

    assembly_format = f"$call_target_name `(` $inputs `)` {FUNCTIONAL_TYPE}"
    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(_CustomCallEffects())

    def verify_(self) -> None:
        version = self.api_version.value.data
        require(version <= _TYPED_FFI, f"expects api_version in [0, 4], got {version}")
        config, is_typed = self.backend_config, version == _TYPED_FFI
        require(
            config is None or isinstance(config, DictionaryAttr) == is_typed,
            f"backend_config for api_version {version} must be a "
            f"{'dictionary' if is_typed else 'string'} attribute.",
        )
