"""Ops that are defined by a function of the module."""

import re

from xdsl.dialects.builtin import (
    I32,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    i32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import AcceptsStoredValues
from xdsl_quant.dialects.verification import require

from .base import StableHLOOp
from .syntax import FUNCTIONAL_TYPE

__all__ = ["CompositeOp"]

_NAME = r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+"


class _HasDecomposition(SymbolUserOpInterface):
    """Verify that `decomposition` is a function with the types of the op."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CompositeOp)
        symbol = op.decomposition
        function = SymbolTable.lookup_symbol(op, symbol)
        if not isinstance(function, FuncOp):
            raise VerifyException(
                f"'{symbol.root_reference.data}' does not reference a valid function"
            )
        type_ = function.function_type
        for words, own, others in (
            ("operand", op.operand_types, type_.inputs.data),
            ("result", op.result_types, type_.outputs.data),
        ):
            require(
                len(own) == len(others),
                f"has {len(own)} {words}(s), but decomposition has {len(others)}",
            )
            for index, (a, b) in enumerate(zip(own, others, strict=True)):
                require(
                    a == b,
                    f"{words} at index {index} has type '{a}', but decomposition has type "
                    f"'{b}'",
                )


@irdl_op_definition
class CompositeOp(StableHLOOp):
    """
    Call of a function that implements a named op, which targets may have.

    Example:

    ```mlir
    %1 = stablehlo.composite "odml.rms_norm" %0 {decomposition = @rms_norm}
        : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "stablehlo.composite"

    inputs = var_operand_def()
    composite_name = prop_def(StringAttr, prop_name="name")
    composite_attributes = opt_prop_def(
        DictionaryAttr, default_value=DictionaryAttr({})
    )
    decomposition = prop_def(FlatSymbolRefAttrConstr)
    version = opt_prop_def(IntegerAttr[I32], default_value=IntegerAttr(0, i32))
    results_ = var_result_def()

    assembly_format = f"$name $inputs {FUNCTIONAL_TYPE}"
    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(_HasDecomposition(), AcceptsStoredValues())

    def verify_(self) -> None:
        require(
            re.fullmatch(_NAME, self.composite_name.data) is not None,
            "name must be a valid namespaced op name, i.e. it must match the following "
            f'regular expression: ^{_NAME}$ e.g. "my_namespace.my_op"',
        )
