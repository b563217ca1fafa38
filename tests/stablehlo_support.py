"""
Write the table of supported ops into `docs/reference/stablehlo.md`, from the declarations,
the lowerings and the passes, and print lines of code per op: `python -m
tests.stablehlo_support`.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import get_args

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, VerificationContext
from xdsl.utils.exceptions import VerifyException

from tests.house import House
from tests.unit.frontends.stablehlo.lowering import (
    test_convert_quantized_stablehlo_to_linalg as quantized_programs,
)
from tests.unit.frontends.stablehlo.lowering.test_tables import REGIONS, region_program
from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant.traits import CastsQuantization, ComputesElementwise
from xdsl_quant.frontends import stablehlo as frontend
from xdsl_quant.frontends.stablehlo.dialect import ReturnOp, StableHLO
from xdsl_quant.frontends.stablehlo.dialect.chlo import CHLO, BroadcastingOp
from xdsl_quant.frontends.stablehlo.lowering.convert_stablehlo_to_linalg import (
    LOWERINGS,
)
from xdsl_quant.frontends.stablehlo.lowering.linalg.control_flow import ControlFlowOp
from xdsl_quant.frontends.stablehlo.lowering.linalg.elementwise import FORMULAS
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.runtime.loading import apply_passes, parse_module, parse_type

PAGE = Path(__file__).parents[1] / "docs/reference/stablehlo.md"
BEGIN = "| op | run, compile, linalg | quantized tensors | integer form |\n"
END = "\n## Other plugins\n"
QUANTIZED = {
    "per-tensor": "tensor<2x!quant.uniform<i8:f32, 0.5>>",
    "per-axis": "tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.5}>>",
}


def is_lowered(op_type: type[Operation]) -> bool:
    """Return True if `convert-stablehlo-to-linalg` has a lowering for an op."""
    if issubclass(op_type, BroadcastingOp):
        return op_type.applied_name() in FORMULAS
    others = (ReturnOp, *get_args(ControlFlowOp))
    lowered = [getattr(lowering, "op_type", None) for lowering in LOWERINGS]
    return (
        op_type in others
        or any(issubclass(op_type, base) for base in lowered if base)
        or op_type.has_trait(CastsQuantization)
        or (op_type.has_trait(ComputesElementwise) and op_type.name in FORMULAS)
    )


def quantized_values(op_type: type[IRDLOperation]) -> str:
    """Return the kinds of quantized tensors that an operand or result may be."""
    definition = op_type.get_irdl_definition()
    values = (*definition.operands, *definition.results)
    kinds: list[str] = []
    for name, text in QUANTIZED.items():
        type_ = parse_type(text)
        for _, value in values:
            try:
                value.constr.verify((type_,), VerificationContext())
            except VerifyException:
                continue
            kinds.append(name)
            break
    return ", ".join(kinds)


def _quantized_ops(module: ModuleOp) -> Counter[str]:
    """Return the number of ops with a quantized operand or result by name."""
    return Counter(
        op.name
        for op in module.walk()
        if any(
            QuantizedType.get_quantized_element_type(type_)
            for type_ in (*op.operand_types, *op.result_types)
        )
    )


def ops_with_integer_form() -> set[str]:
    """Return the ops that `stablehlo-legalize-quant-to-integer` replaces in programs."""
    types = quantized_programs.Types(Random(0), "i8", "f32")
    programs = [quantized_programs.program(types), *map(region_program, REGIONS)]
    found: set[str] = set()
    for module in map(parse_module, programs):
        before = _quantized_ops(module)
        # Warns of the ops that it keeps.
        apply_passes(module, "stablehlo-legalize-quant-to-integer{fallback=keep}")
        found |= {*(before - _quantized_ops(module))}
    return found


def table() -> str:
    """Return the table as Markdown."""
    integers = ops_with_integer_form()
    lines = [BEGIN, "|---|---|---|---|\n"]
    op_types = [*StableHLO.operations, *CHLO.operations]
    for op_type in sorted(op_types, key=lambda op_type: op_type.name):
        assert issubclass(op_type, IRDLOperation)
        name = op_type.name.removeprefix("stablehlo.")
        marks = ["yes" if is_lowered(op_type) else "", quantized_values(op_type)]
        marks.append("yes" if op_type.name in integers else "")
        cells = "".join(f" {mark} |".replace("  ", " ") for mark in marks)
        lines.append(f"| `{name}` |{cells}\n")
    return "".join(lines)


def page_with_table(page: str) -> str:
    """Return the page with a new table."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{table()}{end}{after}"


FRONTEND = Path(frontend.__file__).parent
OP_FILES = {
    "declared and verified": "dialect/*.py",
    "linalg form, which is interpreted and compiled": "lowering/linalg/*.py",
    "integer form": "lowering/integers/*.py",
    "passes to linalg": "lowering/convert_*_to_linalg.py",
    "pass to integers": "lowering/stablehlo_legalize_quant_to_integer.py",
}
"""Files with the code of ops, by what it is for."""

OTHER_FILES = (
    "dialect/shardy.py",
    "lowering/integers/qdq_groups.py",
    "lowering/integers/merged_products.py",
)
"""
Files of another dialect, and of `stablehlo-legalize-qdq-to-integer`: groups of float ops
between casts, and products of them that are merged.
"""


def lines_per_op() -> dict[str, float]:
    """Return the lines of code per op, without blank lines, comments and docstrings."""
    count = len([*StableHLO.operations, *CHLO.operations])
    others = {FRONTEND / name for name in OTHER_FILES}
    lines: dict[str, float] = {}
    for words, pattern in OP_FILES.items():
        files = sorted({*FRONTEND.glob(pattern)} - others)
        house = House({file.stem: file.read_text() for file in files})
        lines[words] = house.code_lines().total() / count
    return lines


if __name__ == "__main__":
    write_text_atomically(PAGE, page_with_table(PAGE.read_text()))
    lines = lines_per_op()
    for words, number in (*lines.items(), ("all", sum(lines.values()))):
        print(f"{number:5.1f} lines per op: {words}")
