"""Names of the kernels whose results an interpreter or a lowering reproduces."""

from typing import Literal

KernelSet = Literal["reference", "multiplier", "xnnpack", "onnxruntime"]
