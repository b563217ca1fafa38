"""
Kernels: `quant.region`, which groups the ops that a target executes as one kernel.

The region computes in floating point, and its ops are not quantized. Specifications of its
ports (operands and results) constrain how these are quantized.

MLIR had these ops until version 14, in the generic form only. Their custom form is:

```
region ::= `quant.region` string `(` (input (`,` input)*)? `)`
           (`->` `(` output (`,` output)* `)`)? (`attributes` attribute-dictionary)? region
input  ::= value `=` value `:` port
output ::= port
port   ::= type (`as` specification)?
```

The specification of a port defaults to its element type, which does not constrain it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.type_kinds import AttributeKind, attribute, verify_attributes

from .types import QuantizedType, scalar_or_element_type

_ATTRIBUTES = "logical_kernel", "input_specs", "output_specs"
_SPECS = AttributeKind(ArrayAttr[TypeAttribute], "type array")


def is_specification(spec: Attribute, type_: Attribute) -> bool:
    """
    Return True if a specification is valid for a port of this type: a quantized type that
    matches the element type and shape, or the element type itself (no constraint).
    """
    if not isinstance(spec, QuantizedType):
        return spec == scalar_or_element_type(type_)
    if not spec.is_compatible_expressed_type(type_):
        return False
    try:
        spec.verify_container(type_)
    except VerifyException:
        return False
    return True


def _element_types(types: Sequence[Attribute]) -> Sequence[Attribute]:
    return [*map(scalar_or_element_type, types)]


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """
    Return results from a kernel.

    Example:

    ```mlir
    quant.return %y : tensor<2x3xf32>
    ```
    """

    name = "quant.return"

    arguments = var_operand_def()

    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"

    # `RegionOp` is defined below.
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(RegionOp)))

    def __init__(self, *arguments: SSAValue | Operation):
        super().__init__(operands=[arguments])


_IMPLICIT_RETURN = SingleBlockImplicitTerminator(ReturnOp)


@irdl_op_definition
class RegionOp(IRDLOperation):
    """
    Group the ops that a target executes as one kernel, with constraints on the
    quantization of operands and results. The body is isolated from above: it accesses
    operands through its arguments.

    Example:

    ```mlir
    %y = quant.region "add" (%a = %x : tensor<4xf32> as !quant.any<i8:f32>,
                             %b = %c : tensor<4xf32>) -> (tensor<4xf32>) {
      %z = arith.addf %a, %b : tensor<4xf32>
      quant.return %z : tensor<4xf32>
    }
    ```
    """

    name = "quant.region"

    inputs = var_operand_def()
    results_ = var_result_def()

    input_specs = attribute(_SPECS)
    """Specification per operand: a quantized type, or the element type (no constraint)."""

    logical_kernel = attribute(AttributeKind(StringAttr, "string"))
    """Name by which targets identify the kernel."""

    output_specs = attribute(_SPECS)
    """Specification per result: a quantized type, or the element type (no constraint)."""

    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(),
        RecursiveMemoryEffect(),
        _IMPLICIT_RETURN,
    )

    def __init__(
        self,
        kernel: str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        body: Region | None = None,
        *,
        input_specs: Sequence[Attribute] = (),
        output_specs: Sequence[Attribute] = (),
    ):
        """
        Build a kernel. Specifications default to the element types of operands and
        results, and the body to a block with an argument for each operand.
        """
        types = [value.type for value in inputs]
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            attributes={
                "input_specs": ArrayAttr(input_specs or _element_types(types)),
                "logical_kernel": StringAttr(kernel),
                "output_specs": ArrayAttr(output_specs or _element_types(result_types)),
            },
            regions=[body or Region(Block(arg_types=types))],
        )
        ensure_terminator(self, _IMPLICIT_RETURN)

    @property
    def kernel(self) -> str:
        """Name by which targets identify the kernel."""
        return self.logical_kernel.data

    @property
    def specs(self) -> Sequence[Attribute]:
        """The specifications of all operands, then of all results."""
        return *self.input_specs, *self.output_specs

    @property
    def returned_values(self) -> Sequence[SSAValue]:
        """The values that the body returns."""
        terminator = self.body.block.last_op
        return () if terminator is None else terminator.operands

    def verify_(self) -> None:
        self._verify_ports()
        parent = self.parent_op()
        while parent is not None:
            if isinstance(parent, RegionOp):
                raise VerifyException(
                    "'quant.region' op must not be nested in another 'quant.region' op"
                )
            parent = parent.parent_op()

    def _verify_ports(self) -> None:
        verify_attributes(self)
        self._verify_specs()
        self._verify_body()

    def _verify_specs(self) -> None:
        inputs, outputs = self.input_specs.data, self.output_specs.data
        if (len(inputs), len(outputs)) != (len(self.inputs), len(self.results)):
            raise VerifyException(
                "'quant.region' op has unmatched operands/results number and spec "
                "attributes number"
            )
        for kind, specs, values in (
            ("input", inputs, self.inputs),
            ("output", outputs, self.results),
        ):
            for spec, value in zip(specs, values, strict=True):
                if not is_specification(spec, value.type):
                    raise VerifyException(
                        f"'quant.region' op has incompatible specification {spec} and "
                        f"{kind} type '{value.type}'"
                    )

    def _verify_body(self) -> None:
        # MLIR does not verify the types in the body.
        for kind, ports, inner, outer in (
            ("arguments", "operands", self.body.block.args, self.inputs),
            ("returned values", "results", self.returned_values, self.results),
        ):
            inner_types, outer_types = (
                quoted(value.type for value in values) or "none"
                for values in (inner, outer)
            )
            if inner_types != outer_types:
                raise VerifyException(
                    f"'quant.region' op expected {kind} of types {outer_types} like its "
                    f"{ports}, but got {inner_types}"
                )

    # Text

    def print(self, printer: Printer) -> None:
        try:
            self._verify_ports()
        except VerifyException:
            # An invalid op is printed, too: xDSL shows it below the error message.
            printer.print_op_with_default_format(self)
            return
        printer.print_string(" ")
        printer.print_attribute(self.logical_kernel)
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(
                zip(self.body.block.args, self.inputs, self.input_specs, strict=True),
                lambda port: _print_input(printer, *port),
            )
        if self.results:
            printer.print_string(" -> ")
            with printer.in_parens():
                printer.print_list(
                    zip(self.result_types, self.output_specs, strict=True),
                    lambda port: _print_port(printer, *port),
                )
        printer.print_op_attributes(
            self.attributes, reserved_attr_names=_ATTRIBUTES, print_keyword=True
        )
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> RegionOp:
        kernel = parser.parse_str_literal()
        inputs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_input(parser)
        )
        outputs: Sequence[tuple[Attribute, Attribute]] = ()
        if parser.parse_optional_punctuation("->"):
            outputs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_port(parser)
            )
        attributes = parser.parse_optional_attr_dict_with_keyword(_ATTRIBUTES)
        body = _parse_body(parser, [argument for argument, _, _ in inputs])
        op = cls(
            kernel,
            [value for _, value, _ in inputs],
            [type_ for type_, _ in outputs],
            body,
            input_specs=[spec for _, _, spec in inputs],
            output_specs=[spec for _, spec in outputs],
        )
        op.attributes |= attributes.data if attributes else {}
        return op


def _print_port(printer: Printer, type_: Attribute, spec: Attribute) -> None:
    printer.print_attribute(type_)
    if spec != scalar_or_element_type(type_):
        printer.print_string(" as ")
        printer.print_attribute(spec)


def _print_input(
    printer: Printer, argument: SSAValue, value: SSAValue, spec: Attribute
) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    _print_port(printer, value.type, spec)


def _parse_body(parser: Parser, arguments: Sequence[Parser.Argument]) -> Region:
    """Parse a body in an empty scope, because xDSL copies the scope for each region."""
    start = parser.pos
    names, parser.ssa_values = parser.ssa_values, {}
    body = parser.parse_region(arguments)
    parser.ssa_values = names
    for name in parser.forward_ssa_references.keys() & names.keys():
        parser.raise_error(
            f"'quant.region' op uses %{name} from outside; make it an operand", start
        )
    return body


def _parse_port(parser: Parser) -> tuple[Attribute, Attribute]:
    type_ = parser.parse_type()
    if parser.parse_optional_keyword("as"):
        return type_, parser.parse_type()
    return type_, scalar_or_element_type(type_)


def _parse_input(parser: Parser) -> tuple[Parser.Argument, SSAValue, Attribute]:
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    operand = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    type_, spec = _parse_port(parser)
    value = parser.resolve_operand(operand, type_)
    return parser.Argument(argument.name, type_, None), value, spec
