"""
Conversion of ops of another package's `stablehlo` dialect, e.g. that of `xdsl-jax`, to ops
of this package, which the passes match.
"""

from functools import cache
from io import StringIO
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, Builtin, ModuleOp, UnregisteredAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.frontends.stablehlo.dialect import StableHLO

_OP_TYPES = {
    op_type.name: op_type
    for op_type in StableHLO.operations
    if issubclass(op_type, IRDLOperation)
}
_ATTRIBUTE_TYPES = (*StableHLO.attributes,)

_PROPERTY_NAMES = {"comparison_type": "compare_type"}
"""Property names of this package, by name of the same property in `xdsl-jax`."""


@cache
def _context() -> Context:
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(StableHLO)
    return ctx


def _adopt_attribute(attribute: Attribute) -> Attribute:
    """Convert an attribute of another `stablehlo` dialect; keep any other attribute."""
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr(map(_adopt_attribute, cast("ArrayAttr", attribute)))
    is_foreign = isinstance(attribute, UnregisteredAttr) or attribute.name.startswith(
        "stablehlo."
    )
    if not is_foreign or isinstance(attribute, _ATTRIBUTE_TYPES):
        return attribute
    text = StringIO()
    Printer(text).print_attribute(attribute)
    return Parser(_context(), text.getvalue()).parse_attribute()


def _adopt_op(op: Operation, op_type: type[IRDLOperation]) -> None:
    known = op_type.get_irdl_definition().properties
    properties: dict[str, Attribute] = {}
    attributes: dict[str, Attribute] = {}
    for name, attribute in (*op.attributes.items(), *op.properties.items()):
        if name == "op_name__":
            continue
        name = _PROPERTY_NAMES.get(name, name)
        container = properties if name in known else attributes
        container[name] = _adopt_attribute(attribute)
    new_op = op_type.create(
        operands=op.operands,
        result_types=op.result_types,
        properties=properties,
        attributes=attributes,
        location=op.location,
        regions=[region.clone() for region in op.regions],
    )
    try:
        new_op.verify(verify_nested_ops=False)
    except VerifyException:
        new_op.erase()
        raise
    Rewriter.replace_op(op, new_op)


def _is_foreign(op: Operation) -> bool:
    op_type = _OP_TYPES.get(op_name(op))
    return op_type is not None and not isinstance(op, op_type)


def with_own_ops(module: ModuleOp) -> ModuleOp:
    """Return the module, or a copy after `adopt_ops` if that would change it."""
    if not any(map(_is_foreign, module.walk())):
        return module
    copy = module.clone()
    adopt_ops(copy)
    return copy


def adopt_ops(module: ModuleOp) -> None:
    """
    Replace ops of another package's `stablehlo` dialect by ops of this package with the
    same name.

    Raises:
        PassFailedException: if an op is not valid as an op of this package.
    """
    # Ops in regions first: the verifier of an op inspects its regions.
    for op in [*module.walk(region_first=True)]:
        if not _is_foreign(op):
            continue
        try:
            _adopt_op(op, _OP_TYPES[op_name(op)])
        except (ParseError, VerifyException) as e:
            reason = str(e).strip().splitlines()[-1]
            fail(
                op,
                f"'{op_name(op)}' op of another dialect 'stablehlo' is unsupported: "
                f"{reason}; load 'StableHLO' from 'xdsl_quant.frontends.stablehlo.dialect' "
                "instead",
            )
