"""Pipelines that lower modules for proofs."""

from xdsl.dialects.func import FuncOp

from xdsl_quant.rounding_mode import Rounding, ScaleRounding
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes, multiverse, parse_module


def lower_quant_ops(
    rounding: Rounding, *, fuse: bool = False, scale_rounding: ScaleRounding = "single"
) -> str:
    """Return `lower-quant-ops` with its options, including `keep-qdq`."""
    names = ("rounding-mode", "zero-point-order", "nan")
    values = zip(names, rounding, Rounding(), strict=True)
    # The default mode of the pass, truncation, differs from that of `Rounding`.
    options = [
        f"{name}={value}"
        for name, value, default in values
        if name == "rounding-mode" or value != default
    ]
    options += ["keep-qdq=true", *(["fuse=true"] if fuse else [])]
    if scale_rounding != "single":
        options.append(f"scale-rounding={scale_rounding}")
    return f"lower-quant-ops{{{' '.join(options)}}}"


def scalar_lowering(
    rounding: Rounding, *, fuse: bool = False, scale_rounding: ScaleRounding = "single"
) -> str:
    """Return the pipeline that lowers a function of scalar casts."""
    casts = lower_quant_ops(rounding, fuse=fuse, scale_rounding=scale_rounding)
    return f"{casts},strip-func-quant-types,canonicalize"


def lowered_function(text: str, passes: str) -> FuncOp:
    """Parse a module, run passes, and return its entry function."""
    module = parse_module(text)
    apply_passes(module, passes, is_routine=True)
    return entry_function(module)


def lowering(
    rounding: Rounding, *, fuse: bool = False, scale_rounding: ScaleRounding = "single"
) -> str:
    """Return the pipeline of available passes that lowers ops for proofs."""
    pipeline = (
        "convert-tfl-to-linalg",
        "quant-convert-simulated-quantization{exact-bits=true}",
        "quant-remove-instrumentation",
        lower_quant_ops(rounding, fuse=fuse, scale_rounding=scale_rounding),
        f"convert-quantized-stablehlo-to-linalg{{rounding={scale_rounding}}}",
    )
    known = multiverse().all_passes
    return ",".join(p for p in pipeline if p.partition("{")[0] in known)
