"""
Functions for xDSL's interpreter that compute ops on NumPy arrays, with the arithmetic of
the types in the IR.

```python
interpreter = Interpreter(module)
register_implementations(interpreter)
(result,) = interpreter.call_op("f", (np.float32(0.3),))
```

`run_function(module, "f", 0.3)` checks arguments first;
`StatefulModel(module, "f").step(0.3)` keeps state between calls.

Interpreter values are the results of
[`check_argument`][xdsl_quant.runtime.arrays.check_argument]:

* Tensors are arrays, and scalars are NumPy scalars. A tensor of rank 0 may be an array or a
  NumPy scalar. An induction variable of `scf.for` is a Python number.
* [`numpy_dtype`][xdsl_quant.runtime.arrays.numpy_dtype] gives the dtype of a type: for
  floats, the same type; for integers, the smallest sufficient signed dtype, with
  sign-extended values; for `i1`, `bool`.
* A value of a quantized type holds its stored values, unsigned for unsigned storage types.
  For example, `quant.scast` converts 200 of a type with `u8` storage to -56 of `i8`.
* Arrays that are interpreter values are never modified. Arguments are not copied, and
  results may be views of arguments or constants.
"""

from .functions import StatefulModel, run_function
from .registration import register_implementations

__all__ = ["StatefulModel", "register_implementations", "run_function"]
