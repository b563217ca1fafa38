"""
Validation of pipelines on models, kernel by kernel.

A model of `tfl` ops is cut at stored values: each op is a kernel, a function of its
operands that are not constant. The formula of the op in the interpreter is compared with
the code that a pipeline makes of the kernel, for all stored values:

* *movement*: the code only moves elements, so labels of elements determine it;
* *elementwise*: each result element depends on one element of each operand in the same
  way, so all (pairs of) stored values determine it, and for step functions of `f32`
  numbers all steps;
* *products*: the code is an affine part, which zero and unit vectors determine, and an
  elementwise part, which is compared for all values within the bounds of the affine part,
  or where it or the formula steps;
* *means*: as products, with coefficients 1.

Kernels of other forms are reported as unknown, with the reason.
"""

from .cutting import ModelKernel, cut_kernels
from .validation import kernel_theorems, prove_kernel

__all__ = ["ModelKernel", "cut_kernels", "kernel_theorems", "prove_kernel"]
