"""Plugin declarations of the StableHLO frontend."""

from abc import ABCMeta
from inspect import getattr_static
from pathlib import Path

from xdsl.context import Context
from xdsl.ir import Data, OpaqueSyntaxAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import IRDLOperation
from xdsl.universe import Universe

from xdsl_quant.runtime.plugins import (
    QuantizationUniverse,
    lazy,
    pass_factories,
    target_files,
)

_HERE = "frontends.stablehlo"


_KINDS = Data, OpaqueSyntaxAttribute, SpacedOpaqueSyntaxAttribute
"""Kinds of attributes that xDSL's parser and printer distinguish by class."""


def _prefer_own_stablehlo(ctx: Context) -> None:
    """
    Replace ops and attributes of another plugin's dialect by those of this package, which
    become virtual subclasses: the other plugin's patterns and verifiers accept them. Only
    add missing ops to other dialects, e.g. one loaded by `load_dialect`.
    """
    # Start-up time of `xdsl-opt`.
    from .dialect import StableHLO

    if ctx.get_dialect("stablehlo") is StableHLO:
        return
    dialects = Universe.get_multiverse().all_dialects
    registered = ctx._registered_dialects["stablehlo"]  # pyright: ignore[reportPrivateUsage] as xDSL has no accessor
    is_plugin = registered is dialects.get("stablehlo")
    # xDSL refuses a second class of the same name.
    own = Context()
    own.load_dialect(StableHLO)
    for name in ("_loaded_ops", "_loaded_attrs", "_loaded_types"):
        loaded: dict[str, ABCMeta] = getattr(ctx, name)
        for class_name, class_ in getattr(own, name).items():
            other = loaded.setdefault(class_name, class_)
            if other is class_ or not is_plugin:
                continue
            if all(issubclass(other, k) == issubclass(class_, k) for k in _KINDS):
                other.register(class_)
            if issubclass(other, IRDLOperation) and issubclass(class_, IRDLOperation):
                _add_names(class_, other)
            loaded[class_name] = class_


def _add_names(own: type[IRDLOperation], other: type[IRDLOperation]) -> None:
    """Let operands, results and regions of an op also have their names in `other`."""
    definitions = own.get_irdl_definition(), other.get_irdl_definition()
    for part in ("operands", "results", "regions"):
        pairs = zip(*(getattr(d, part) for d in definitions), strict=False)
        for (name, _), (other_name, _) in pairs:
            if getattr_static(own, other_name, None) is None:
                setattr(own, other_name, getattr_static(own, name))


SLICE = QuantizationUniverse(
    all_dialects={
        "chlo": lazy(f"{_HERE}.dialect.chlo", "CHLO"),
        "sdy": lazy(f"{_HERE}.dialect.shardy", "SDY"),
        "stablehlo": lazy(f"{_HERE}.dialect", "StableHLO"),
    },
    all_passes=pass_factories(
        f"{_HERE}.lowering",
        (
            "convert-quantized-stablehlo-to-linalg",
            "convert-stablehlo-to-linalg",
            "quant-casts-to-stablehlo",
            "stablehlo-casts-to-quant",
            "stablehlo-legalize-qdq-to-integer",
            "stablehlo-legalize-quant-composite",
            "stablehlo-legalize-qdq-to-quantized-op",
            "stablehlo-legalize-quant-to-integer",
            "stablehlo-legalize-quantized-op-to-qdq",
        ),
    ),
    hardware_targets=target_files(
        Path(__file__).with_name("targets"),
        ("stablehlo-int16x8", "stablehlo-int8", "stablehlo-mixed"),
    ),
    kernel_patterns={
        "stablehlo.dynamic-softmax": lazy(f"{_HERE}.softmax", "dynamic_softmax")
    },
    on_load={"stablehlo": _prefer_own_stablehlo},
    model_objects={"torch": lazy(f"{_HERE}.torch_models", "module_of_torch")},
    foreign_files={
        ".pt2": "load it with torch.export.load in Python, and pass the program",
        **dict.fromkeys(
            (".ckpt", ".pt", ".pth", ".safetensors"),
            "it has weights without ops: load them into the model, and pass "
            "torch.export.export(model, inputs) in Python",
        ),
        **dict.fromkeys(
            (".h5", ".keras", ".pb"),
            "convert it to a .tflite file with TensorFlow's TFLiteConverter",
        ),
        ".mlirbc": "convert it to text with mlir-opt",
    },
    own_op_copies={"stablehlo": lazy(f"{_HERE}.lowering.adoption", "with_own_ops")},
    dialect_ops=dict.fromkeys(
        ("chlo", "stablehlo"), lazy(f"{_HERE}.dialect_ops", "STABLEHLO_OPS")
    ),
    model_dialects={"stablehlo": lazy(f"{_HERE}.models", "STABLEHLO_MODELS")},
    rule_sets={"stablehlo": lazy(f"{_HERE}.constraints", "STABLEHLO_RULES")},
)
