"""When patches are applied, and that none touches an xDSL that behaves."""

import json
import re
from collections.abc import Sequence
from importlib.metadata import version

import pytest
from xdsl.context import Context

from xdsl_quant import xdsl_patches

from .modules import run

CAST = """
from xdsl.utils.exceptions import VerifyException

def is_fixed(arith):
    from xdsl.dialects.builtin import TensorType, f32, i8
    from xdsl.ir import Block

    operands = Block(arg_types=[TensorType(i8, [2])]).args
    result_types = [TensorType(f32, [2])]
    op = arith.SIToFPOp.build(operands=operands, result_types=result_types)
    try:
        op.verify_()
    except VerifyException:
        return False
    return True
"""


def test_a_dialect_is_fixed_when_a_context_loads_it():
    script = """
import xdsl_quant.universe
import pytest
from xdsl.context import Context
from xdsl.dialects import arith, get_all_dialects

print(is_fixed(arith))
ctx = Context()
ctx.register_dialect("arith", get_all_dialects()["arith"])
print(is_fixed(arith))
ctx.load_registered_dialect("arith")
print(is_fixed(arith))
"""
    assert run("python", "-c", CAST + script).split() == ["False", "False", "True"]


def test_a_dialect_is_fixed_when_it_is_loaded_by_hand():
    script = """
import xdsl_quant.universe
import pytest
from xdsl.context import Context
from xdsl.dialects import arith

Context().load_dialect(arith.Arith)
print(is_fixed(arith))
"""
    assert run("python", "-c", CAST + script).split() == ["True"]


def test_the_order_of_imports_does_not_matter():
    script = """
from xdsl.dialects import arith
import xdsl_quant.transforms.quant.lower_quant_ops, xdsl_quant.universe
from xdsl_quant import xdsl_patches
print(is_fixed(arith))
xdsl_patches.apply()
print(is_fixed(arith))
"""
    assert run("python", "-c", CAST + script).split() == ["False", "True"]


def test_passes_apply_patches():
    script = """
import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass
print(is_fixed(arith))
LowerQuantOpsPass().apply(Context(), ModuleOp([]))
print(is_fixed(arith))
"""
    assert run("python", "-c", CAST + script).split() == ["False", "True"]


def test_contexts_are_changed_once():
    xdsl_patches.apply_on_load({})
    load = Context.load_registered_dialect
    xdsl_patches.apply_on_load({})
    assert Context.load_registered_dialect is load


SNAPSHOT = """
import math
import re

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, linalg, tensor, tosa
from xdsl.ir import Dialect
from xdsl.irdl import AnyAttr, IRDLOperation, OperandDef, PropertyDef, ResultDef
from xdsl.parser import AttrParser, Parser
from xdsl.traits import (
    HasCanonicalizationPatternsTrait, NoMemoryEffect, RecursiveMemoryEffect
)
from xdsl.utils.mlir_lexer import MLIRLexer

from xdsl_quant import xdsl_patches

CASTS = (
    arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp,
    arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp,
)
CLASSES = (
    *tosa.TOSA.operations, tosa.TOSA, arith.Arith, *CASTS,
    tensor.ReshapeOp, tensor.DimOp, tensor.ExtractOp,
    *linalg.Linalg.operations, linalg.Linalg, func.FuncOp,
    builtin.Builtin, builtin.DenseIntOrFPElementsAttr,
    builtin.MemRefType, builtin.UnrankedMemRefType, builtin.VectorType,
    AttrParser, AttrParser._TensorLiteralElement, Parser, MLIRLexer,
)

def snapshot(class_):
    if isinstance(class_, Dialect):
        parts = (*class_.operations, *class_.attributes)
        return [part.name for part in parts], [*class_._interfaces]
    members = {name: id(value) for name, value in vars(class_).items()}
    if not issubclass(class_, IRDLOperation):
        return members
    definition = class_.get_irdl_definition()
    named = *definition.operands, *definition.results, *definition.properties.items()
    constraints = [id(d) for _, d in named]
    return members, constraints, definition.traits.traits

def apply_all():
    xdsl_patches.apply(*xdsl_patches.PATCHED_DIALECTS)

def changed(action):
    before = [snapshot(class_) for class_ in CLASSES]
    action()
    after = [snapshot(class_) for class_ in CLASSES]
    return [
        class_.name.capitalize() if isinstance(class_, Dialect) else class_.__name__
        for class_, b, a in zip(CLASSES, before, after) if b != a
    ]
"""

NAMED = (
    *("Conv2DNchwFchwOp", "Conv2DNgchwFgchwOp", "Conv2DNgchwGfchwOp"),
    *("Conv2DNhwc_FhwcOp", "Conv2DNhwc_HwcfOp", "Conv2DNhwgcGfhwcOp"),
    "PoolingNchwMaxOp",
)
"""Convolutions and pooling of xDSL."""

PATCHES: Sequence[tuple[str, Sequence[str]]] = (
    ("builtin.read_unclosed_strings_in_linear_time", ("MLIRLexer",)),
    ("builtin.compare_splats_by_bits", ("DenseIntOrFPElementsAttr",)),
    ("builtin.parse_dense_hexadecimal_floats", ("_TensorLiteralElement",)),
    ("builtin.check_dense_types_without_constraints", ("AttrParser",)),
    ("builtin.exchange_packed_integers", ("DenseIntOrFPElementsAttr", "AttrParser")),
    ("builtin.name_resources_once", ("AttrParser",)),
    ("builtin.keep_resources_as_bytes", ("Builtin",)),
    ("builtin.read_digits_without_copies", ("Parser", "MLIRLexer")),
    ("builtin.read_text_beyond_ascii", ("MLIRLexer",)),
    ("builtin.read_ranges_and_metadata_of_locations", ("AttrParser",)),
    ("builtin.read_location_aliases_before_definition", ("AttrParser",)),
    (
        "builtin.refuse_quantized_elements",
        ("AttrParser", "MemRefType", "UnrankedMemRefType", "VectorType"),
    ),
    (
        "arith.widen_casts",
        (
            *("SIToFPOp", "UIToFPOp", "FPToSIOp", "FPToUIOp"),
            *("ExtSIOp", "ExtUIOp", "TruncIOp"),
        ),
    ),
    ("arith.make_extsi_pure", ("ExtSIOp",)),
    ("arith.add_remf", ("Arith",)),
    ("func.keep_declaration_attributes", ("FuncOp",)),
    ("func.look_up_symbols_in_tables", ()),
    ("linalg.add_named_ops", ("Linalg",)),
    ("linalg.convert_named_operands", (*NAMED, "MatmulOp", "QuantizedMatmulOp")),
    (
        "linalg.make_structured_effects_known",
        (
            *(*NAMED, "MatmulOp", "QuantizedMatmulOp", "GenericOp", "TransposeOp"),
            *("AddOp", "CopyOp", "ExpOp", "FillOp", "LogOp", "MaxOp", "MinOp", "MulOp"),
            *("SelectOp", "SqrtOp", "SubOp"),
        ),
    ),
    ("tensor.widen_reshape", ("ReshapeOp",)),
    ("tensor.canonicalize_reshapes", ("ReshapeOp", "DimOp", "ExtractOp")),
    ("tosa.add_ops", ("Tosa",)),
    (
        "tosa.read_nan_mode_keywords",
        ("ClampOp", "MaxPool2DOp", "ReduceMaxOp", "ReduceMinOp"),
    ),
    ("tosa.take_resources", ("ConstOp",)),
    ("tosa.read_rounding_mode_attributes", ("RescaleOp",)),
    (
        "tosa.take_types_of_mlir",
        ("AddOp", "ClampOp", "MatMulOp", "MulOp", "SubOp"),
    ),
    (
        "tosa.make_ops_pure",
        (
            *("AvgPool2DOp", "ClampOp", "ConcatOp", "ConstOp", "MaxPool2DOp"),
            *("ReduceAllOp", "ReduceAnyOp", "ReduceMaxOp", "ReduceMinOp"),
            *("ReduceProductOp", "ReduceSumOp", "RescaleOp"),
        ),
    ),
)
"""Each patch and the classes of xDSL that it changes."""


def test_all_patches_are_listed():
    named = {
        f"{dialect}.{patch.__name__}": patch
        for dialect in xdsl_patches.PATCHED_DIALECTS
        for patch in xdsl_patches.patches_of(dialect)
    }
    assert [*named] == [name for name, _ in PATCHES]


def test_each_patch_changes_xdsl_once():
    script = """
import json, sys
from importlib.metadata import version
from xdsl_quant.xdsl_patches import patches_of

def patch(name):
    dialect, function = name.split(".")
    return next(p for p in patches_of(dialect) if p.__name__ == function)

print(json.dumps([
    [name, changed(patch(name)), changed(patch(name))] for name in sys.argv[1:]
]))
print(json.dumps(changed(apply_all)))
"""
    lines = run("python", "-c", SNAPSHOT + script, *(name for name, _ in PATCHES))
    each, all_together = map(json.loads, lines.splitlines())
    for (name, classes), (name_, first, second) in zip(PATCHES, each, strict=True):
        assert name == name_
        # Should the first of these fail after an update of xDSL: remove the patch.
        assert sorted(first) == sorted(classes), name
        assert second == [], name
    assert all_together == []


def test_nothing_is_patched_if_patches_are_switched_off():
    script = "import json; print(json.dumps(changed(apply_all)))"
    printed = run("python", "-c", SNAPSHOT + script, XDSL_QUANT_PATCHES="off")
    assert json.loads(printed) == []


def test_an_xdsl_that_behaves_is_left_alone():
    script = """
import json

def accept(*_):
    pass

for class_ in (*CASTS, tensor.ReshapeOp):
    definition = class_.get_irdl_definition()
    definition.operands[0] = ("input", OperandDef(AnyAttr()))
    definition.results[0] = ("result", ResultDef(AnyAttr()))
    class_.verify_ = accept
for class_ in (tensor.ReshapeOp, tensor.DimOp, tensor.ExtractOp):
    class_.traits.add_trait(HasCanonicalizationPatternsTrait())
arith.ExtSIOp.traits.add_trait(NoMemoryEffect())
arith.Arith._operations.append(type("RemFOp", (), {"name": "arith.remf"}))
linalg.ops.GenericOp.traits.add_trait(RecursiveMemoryEffect())
from xdsl_quant.frontends.linalg_named_ops.ops import NAMED_OPS, TypeFnAttr, named_body
linalg.Linalg._operations.extend(NAMED_OPS)
linalg.Linalg._attributes.append(TypeFnAttr)
linalg.ops.MatmulOp.get_hidden_region = lambda inputs, outputs: named_body(
    "linalg.matmul", (*inputs, *outputs)
)
func.FuncOp.print = lambda self, printer: printer.print_attr_dict(self.properties)
builtin.DenseIntOrFPElementsAttr.is_splat = lambda self: False
builtin.DenseIntOrFPElementsAttr.print_without_type = (
    lambda self, printer: printer.print_string(f'dense<"0x01{"00" * 12}">')
)
MLIRLexer._unescaped_characters_regex = re.compile('"[^"]*+"')
AttrParser._TensorLiteralElement.to_type = lambda self, parser, type: math.inf
AttrParser._parse_dense_literal_type = lambda self: self.parse_type()
AttrParser._parse_dialect_resource_handle = lambda self, name, interface: "a_0"
def skip_location(self):
    while self._current_token.text != ")":
        self._consume_token()
AttrParser._parse_location = skip_location
from xdsl.utils.exceptions import VerifyException
def refuse(self):
    if self.element_type.name == "quant.probe":
        raise VerifyException("no quantized elements")
builtin.MemRefType.verify = refuse
lex = MLIRLexer._lex_string_literal
from xdsl.utils.lexer import Token
from xdsl.utils.mlir_lexer import MLIRTokenKind
MLIRLexer._lex_string_literal = lambda self, start: Token(
    MLIRTokenKind.STRING_LIT, lex(self, start).span
)
from xdsl_quant.frontends.tosa.attributes import ATTRIBUTES
from xdsl_quant.frontends.tosa.ops import OPERATIONS
for class_ in tosa.TOSA.operations:
    class_.traits.add_trait(NoMemoryEffect())
    class_.print = lambda self, printer: None
tosa.RescaleOp.parse = lambda parser: None
for class_ in (tosa.AddOp, tosa.SubOp, tosa.MulOp, tosa.MatMulOp, tosa.ClampOp):
    definition = class_.get_irdl_definition()
    definition.operands[:] = [(n, OperandDef(AnyAttr())) for n, _ in definition.operands]
    definition.results[0] = ("output", ResultDef(AnyAttr()))
    class_.verify_ = accept
tosa.ConstOp.get_irdl_definition().properties["values"] = PropertyDef(AnyAttr())
tosa.TOSA._operations.extend(OPERATIONS)
tosa.TOSA._attributes.extend(ATTRIBUTES)
print(json.dumps(changed(apply_all)))
"""
    # That resources are bytes is no behaviour: it takes less memory.
    assert json.loads(run("python", "-c", SNAPSHOT + script)) == ["Builtin"]


def test_an_xdsl_newer_than_tested_is_reported_once(monkeypatch: pytest.MonkeyPatch):
    xdsl_patches._warn_of_untested_xdsl.cache_clear()  # pyright: ignore[reportPrivateUsage] it warns once a process
    monkeypatch.setattr(xdsl_patches, "NEWEST_TESTED_XDSL", (0, 7))
    release = ".".join(version("xdsl").split(".")[:2])
    message = (
        f"xDSL {release} is newer than the newest tested release: 0.7; if something "
        "fails, install 'xdsl<0.8'"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        xdsl_patches.apply("builtin")
    # In tests warnings are errors.
    xdsl_patches.apply("builtin")
