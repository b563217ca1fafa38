"""
Array formulas as ops on tensors.

A [`TensorExpression`][xdsl_quant.transforms.building.tensor_expressions.TensorExpression]
stands for an array whose elements are known at run time only. It supports the operators
of NumPy arrays, and NumPy functions accept it: a formula written for arrays builds ops
when it is called with expressions.

Evaluation is lazy. Elementwise formulas, slices and broadcasts only record how an element
is computed from elements of other arrays. The ops that compute an element are built in the
loop nest that needs it. A loop nest is built for a reduction, for a data movement op with
indices that are not affine, and for a result. All sizes are static.

Example:

```python
import numpy as np
from xdsl.builder import InsertPoint
from xdsl.dialects.builtin import TensorType, UnknownLoc, i8
from xdsl.ir import Block

from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.tensor_expressions import stored

block = Block(arg_types=[TensorType(i8, [2, 3])])
builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
x = stored(builder, block.args[0])
y = np.maximum(x - 5, 0).sum(axis=1)
print(y.shape, y.tensor(i8).type)
```

prints `(2,) tensor<2xi8>`.
"""

from . import data_movement, reduction, scans
from .expressions import (
    TensorExpression,
    constant,
    constant_tensor,
    plain,
    stored,
    with_expression,
)

REGISTERED = data_movement, reduction, scans
"""Modules that implement NumPy functions for expressions."""

__all__ = [
    "TensorExpression",
    "constant",
    "constant_tensor",
    "plain",
    "stored",
    "with_expression",
]
