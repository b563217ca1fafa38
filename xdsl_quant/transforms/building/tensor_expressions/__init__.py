"""
Formulas of arrays as ops on tensors.

A [`TensorExpression`][xdsl_quant.transforms.building.tensor_expressions.TensorExpression]
stands for an array whose elements are known at run time. It has the operators of NumPy
arrays, and NumPy functions take it: a formula that is written for arrays builds ops if it
is given expressions, with what it does to each element written once for both.

Nothing is computed before it has to be. Elementwise formulas, slices, and what broadcasts
only say how an element is made of others. It becomes part of the loops that need it: those
of a sum along dimensions, of an op that moves elements where an index is no linear formula
of another, or of a result. All sizes are known.

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

from . import data_movement, reduction
from .expressions import (
    TensorExpression,
    constant,
    constant_tensor,
    plain,
    stored,
    with_expression,
)

REGISTERED = data_movement, reduction
"""The modules that implement NumPy functions for expressions."""

__all__ = [
    "TensorExpression",
    "constant",
    "constant_tensor",
    "plain",
    "stored",
    "with_expression",
]
