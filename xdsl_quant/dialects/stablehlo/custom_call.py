"""The op that stands for whatever StableHLO has no op for."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NoReturn, cast

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
from .base import StableHLOOp
from .tensor_kinds import PASSED, VariadicOf

_VERSIONS = (
    "UNSPECIFIED",
    "ORIGINAL",
    "STATUS_RETURNING",
    "STATUS_RETURNING_UNIFIED",
    "TYPED_FFI",
)
"""Names of `api_version` by number; the last one alone is configured by a dictionary."""

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
        "$call_target_name `(` $inputs `)` attr-dict `:` "
        "functional-type(operands, results) custom<VerifyTypesLater>()"
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

    def _fail(self, message: str) -> NoReturn:
        raise VerifyException(f"'{self.name}' op {message}")

    def verify_(self) -> None:
        self._verify_version()
        if (self.operand_layouts is None) != (self.result_layouts is None):
            self._fail(
                "Layout attributes should be specified for either both operands and "
                "results or none."
            )
        self._verify_layouts("operand", self.operand_types, self.operand_layouts)
        results = self.result_types
        if len(results) == 1 and isinstance(tuple_type := results[0], TupleType):
            results = tuple(tuple_type.types)
        self._verify_layouts("result", results, self.result_layouts)
        for alias in self.output_operand_aliases:
            self._verify_alias(alias)

    def _verify_version(self) -> None:
        version = self.api_version.value.data
        if version >= len(_VERSIONS):
            self._fail(f"unknown api_version, {version}; expected 0 to 4")
        config, is_typed = self.backend_config, _VERSIONS[version] == "TYPED_FFI"
        if config is not None and isinstance(config, DictionaryAttr) != is_typed:
            self._fail(
                f"backend_config for api_version API_VERSION_{_VERSIONS[version]} must "
                f"be a {'dictionary' if is_typed else 'string'} attribute."
            )

    def _verify_layouts(
        self, name: str, types: Sequence[Attribute], layouts: _Layouts | None
    ) -> None:
        if layouts is None:
            return
        if len(types) != len(layouts):
            self._fail(
                f"Number of {name}s must match the number of {name} layouts, "
                f"{len(types)} != {len(layouts)}"
            )
        for index, (type_, layout) in enumerate(zip(types, layouts, strict=True)):
            dimensions = layout.get_values()
            if isinstance(type_, TupleType):
                self._fail(
                    "Tuple types are not fully supported with layout constraints yet"
                )
            if isinstance(type_, UnrankedTensorType):
                continue
            if not isinstance(type_, ShapedType):
                if len(dimensions):
                    self._fail(
                        f"Only tensor types can have non-empty layout: {name} #{index} "
                        f"of type '{type_}' has layout {layout}"
                    )
                continue
            rank = len(type_.get_shape())
            if sorted(dimensions) != [*range(rank)]:
                self._fail(
                    f"incorrect layout {layout} for type '{type_}', layout must be a "
                    f"permutation of [0, {rank})"
                )

    def _verify_alias(self, alias: OutputOperandAliasAttr) -> None:
        count, index = len(self.operands), alias.operand_index.data
        if not 0 <= index < count:
            self._fail(
                "expects operandIndex in the output_operand_alias attribute to be in "
                f"range [0, {count}); got: {index}."
            )
        results = cast(tuple[TypeAttribute, ...], self.result_types)
        result = results[0] if len(results) == 1 else TupleType(results)
        parts: list[Attribute] = []
        for name, part, indices in (
            ("operand", self.operand_types[index], alias.operand_tuple_indices),
            ("output", result, alias.output_tuple_indices),
        ):
            for at in indices.get_values():
                if not isinstance(part, TupleType) or not 0 <= at < len(part.types):
                    self._fail(
                        f"{name}_tuple_indices in the output_operand_alias attribute out "
                        "of bounds"
                    )
                part = part.types.data[at]
            parts.append(part)
        if parts[0] != parts[1]:
            self._fail(
                "shapes mismatch in the output_operand_alias attribute: operand part has "
                f"type '{parts[0]}' and output part has type '{parts[1]}'"
            )
