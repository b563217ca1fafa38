"""
Check a module against rules for quantized types that are stricter than MLIR's.

MLIR accepts a zero point of 300 for `i8`, and three scales for a dimension of size two.
The pass checks the types of values, signatures and attributes, and warns of subnormal
scales. The TensorFlow Lite rules also check how ops use values, and the requirements of
TensorFlow Lite's kernels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import counted, location_prefix, op_name, warn
from xdsl_quant.dialects.quant.type_rules import (
    Finding,
    RuleSet,
    TypeUse,
    subnormal_scales,
    type_uses,
)
from xdsl_quant.runtime.plugins import plugins

Rules = Literal["stablehlo", "tflite"]


@dataclass(frozen=True)
class QuantConstraintViolation:
    """Violation of a rule by a quantized type; `str()` is one line with location."""

    rule: str
    """Rule: `C1` to `C13` of the StableHLO specification, or a name."""

    op: Operation

    subject: str
    """Position of the type on the op, e.g. `result #0`, or the invalid attribute."""

    message: str
    """Description of the violation: the value that was found, and the legal values."""

    location: Attribute
    """Location of the value or the op."""

    def __str__(self) -> str:
        return f"{location_prefix(self.location)}error: {self.description}"

    @property
    def description(self) -> str:
        """The violation and its op, without location."""
        name = op_name(self.op)
        return f"'{name}' op {self.subject}: {self.message} ({self.rule})"


def quant_constraint_violations(
    module: Operation, rules: Rules = "stablehlo"
) -> list[QuantConstraintViolation]:
    """
    Return all violations of a rule set in a module, in the order of its ops.

    Args:
        module: a valid module, or any other op.
        rules: `stablehlo` or `tflite`.

    Raises:
        ValueError: for unknown rules.
    """
    return list(_violations(module, _rule_set(rules)))


def subnormal_scale_warnings(module: Operation) -> list[QuantConstraintViolation]:
    """
    Return all types with subnormal scales in a module, in the order of its ops. No rule
    set forbids them, but hardware without subnormal numbers computes with 0.
    """
    rules = RuleSet("hardware without subnormal numbers", subnormal_scales)
    return list(_violations(module, rules))


def _rule_set(rules: Rules) -> RuleSet:
    rule_sets = plugins().rule_sets
    if rules not in rule_sets:
        raise ValueError(
            f"unknown rules {rules!r}; expected one of {', '.join(rule_sets)}"
        )
    return rule_sets[rules]()


def _violations(
    module: Operation, rules: RuleSet
) -> Iterator[QuantConstraintViolation]:
    value_findings = rules.value_findings(module)
    findings_by_use: dict[TypeUse, Sequence[Finding]] = {}
    for op in module.walk():
        for subject, (rule, message) in rules.op_findings(op):
            yield QuantConstraintViolation(rule, op, subject, message, op.location)
        for subject, attribute, value in _subjects(op):
            findings: list[Finding] = []
            for use in type_uses(attribute):
                if use not in findings_by_use:
                    findings_by_use[use] = [*rules.type_findings(use)]
                findings += findings_by_use[use]
            if value is not None:
                findings += value_findings(value)
            location = op.location
            if isinstance(value, BlockArgument) and location_prefix(value.location):
                location = value.location
            for rule, message in findings:
                yield QuantConstraintViolation(rule, op, subject, message, location)


Subject = tuple[str, Attribute, SSAValue | None]
"""Position of a type on an op (for messages), the type, and the value of this type."""


def _subjects(op: Operation) -> Iterator[Subject]:
    """Yield each type and attribute of an op once."""
    blocks = dict(enumerate(block for region in op.regions for block in region.blocks))
    properties = dict(op.properties)
    if isinstance(op, FuncOp):
        # The entry block's arguments have the types of the function's inputs.
        function_type = op.function_type
        del properties["function_type"]
        arguments = blocks.pop(0).args if blocks else None
        for index, type_ in enumerate(function_type.inputs):
            argument = None if arguments is None else arguments[index]
            yield f"argument #{index}", type_, argument
        for index, type_ in enumerate(function_type.outputs):
            yield f"result #{index} of the signature", type_, None
    for name, attribute in (*properties.items(), *op.attributes.items()):
        yield f"attribute '{name}'", attribute, None
    for index, result in enumerate(op.results):
        yield f"result #{index}", result.type, result
    for number, block in blocks.items():
        for index, argument in enumerate(block.args):
            yield f"argument #{index} of block #{number}", argument.type, argument


@dataclass(frozen=True)
class VerifyQuantConstraintsPass(ModulePass):
    """
    Fail if a quantized type violates the rules of StableHLO or TensorFlow Lite, with
    one line for each violation. Warn of subnormal scales.
    """

    name = "verify-quant-constraints"

    rules: Rules = "stablehlo"
    """Rule set: `stablehlo` or `tflite`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for warning in subnormal_scale_warnings(op):
            warn(warning.description, location_prefix(warning.location))
        if not (violations := quant_constraint_violations(op, self.rules)):
            return
        title = _rule_set(self.rules).title
        count = counted(len(violations), "violation")
        summary = f"error: {count} of the rules of {title} for quantized types"
        raise PassFailedException("\n".join([*map(str, violations), summary]))
