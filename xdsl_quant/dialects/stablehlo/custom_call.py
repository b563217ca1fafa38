"""The op that stands for whatever StableHLO has no op for."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerAttr,
    ShapedType,
    StringAttr,
    SymbolNameConstraint,
    TupleType,
    UnrankedTensorType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
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
from xdsl.utils.exceptions import VerifyException

from .attributes import OutputOperandAliasAttr
from .base import StableHLOOp, require, verify_count, verify_dimensions
from .syntax import FUNCTIONAL_TYPE
from .tensor_kinds import PASSED, VariadicOf

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

    inputs = var_operand_def(VariadicOf(PASSED))
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
    result = var_result_def(VariadicOf(PASSED))

    assembly_format = (
        f"$call_target_name `(` $inputs `)` attr-dict `:` {FUNCTIONAL_TYPE}"
    )
    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(_CustomCallEffects())

    def __init__(
        self,
        call_target_name: str,
        inputs: Sequence[SSAValue | Operation],
        result_types: Sequence[Attribute],
        *,
        has_side_effect: bool = False,
        backend_config: StringAttr | DictionaryAttr | None = None,
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={
                "call_target_name": StringAttr(call_target_name),
                "has_side_effect": BoolAttr.from_bool(has_side_effect),
                "backend_config": backend_config,
            },
        )

    def verify_(self) -> None:
        version = self.api_version.value.data
        require(version <= _TYPED_FFI, f"expects api_version in [0, 4], got {version}")
        config, is_typed = self.backend_config, version == _TYPED_FFI
        require(
            config is None or isinstance(config, DictionaryAttr) == is_typed,
            f"backend_config for api_version {version} must be a "
            f"{'dictionary' if is_typed else 'string'} attribute.",
        )
        require(
            (self.operand_layouts is None) == (self.result_layouts is None),
            "Layout attributes should be specified for either both operands and results "
            "or none.",
        )
        results = self.result_types
        if len(results) == 1 and isinstance(tuple_type := results[0], TupleType):
            results = tuple(tuple_type.types)
        _verify_layouts("operand", self.operand_types, self.operand_layouts)
        _verify_layouts("result", results, self.result_layouts)
        for alias in self.output_operand_aliases:
            self._verify_alias(alias)

    def _verify_alias(self, alias: OutputOperandAliasAttr) -> None:
        index = alias.operand_index.data
        verify_dimensions("operand_index", (index,), len(self.operands))
        results = cast(tuple[TypeAttribute, ...], self.result_types)
        result = results[0] if len(results) == 1 else TupleType(results)
        operand = self.operand_types[index]
        input_part = _part(operand, alias.operand_tuple_indices.get_values())
        if input_part != _part(result, alias.output_tuple_indices.get_values()):
            raise VerifyException(
                f"expects an operand and a result of one type in {alias}, got types of "
                f"'{operand}' and '{result}'"
            )


def _part(type_: Attribute, indices: Sequence[int]) -> Attribute:
    for index in indices:
        types = type_.types.data if isinstance(type_, TupleType) else ()
        verify_dimensions("tuple_indices", (index,), len(types))
        type_ = types[index]
    return type_


def _verify_layouts(
    name: str, types: Sequence[Attribute], layouts: _Layouts | None
) -> None:
    if layouts is None:
        return
    verify_count(f"{name} layouts", layouts.data, len(types))
    for type_, layout in zip(types, layouts, strict=True):
        # A tensor has as many numbers as dimensions, a token has none.
        rank = len(type_.get_shape()) if isinstance(type_, ShapedType) else 0
        is_layout = sorted(layout.get_values()) == [*range(rank)]
        if isinstance(type_, TupleType) or not (
            is_layout or isinstance(type_, UnrankedTensorType)
        ):
            raise VerifyException(f"incorrect layout {layout} for type '{type_}'")
