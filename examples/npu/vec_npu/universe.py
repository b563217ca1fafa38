"""The plugin of `xdsl-opt` and xdsl-quant; factories import modules on first use."""

from pathlib import Path

from xdsl_quant.universe import QuantizationUniverse


def get_vec():
    from .dialect import Vec

    return Vec


def get_convert_kernels_to_vec():
    from .convert_kernels_to_vec import ConvertKernelsToVecPass

    return ConvertKernelsToVecPass


def get_target() -> Path:
    return Path(__file__).with_name("vec-npu.toml")


def get_gated_result():
    from .kernels import gated_result

    return gated_result


def get_dot():
    from .kernels import dot

    return dot


def get_gated():
    from .kernels import gated

    return gated


VEC_NPU_UNIVERSE = QuantizationUniverse(
    all_dialects={"vec": get_vec},
    all_passes={"convert-kernels-to-vec": get_convert_kernels_to_vec},
    hardware_targets={"vec-npu": get_target},
    constraints={"vec.gated-result": get_gated_result},
    kernel_patterns={"vec.dot": get_dot, "vec.gated": get_gated},
)
