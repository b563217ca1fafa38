"""
Interpreter functions for xDSL's interpreter that compute on NumPy arrays, with the
arithmetic of the types in the IR.

```python
interpreter = Interpreter(module)
register_implementations(interpreter)
(result,) = interpreter.call_op("f", (np.float32(0.3),))
```

`run_function(module, "f", 0.3)` checks arguments first; `StatefulModel(module,
"f").step(0.3)` keeps state between calls.

Interpreter values are the results of
[`check_argument`][xdsl_quant.runtime.arrays.check_argument]:

* Tensors are arrays, and scalars are NumPy scalars. A tensor of rank 0 may be either.
  An induction variable of `scf.for` is a Python number.
* The dtype is that of [`numpy_dtype`][xdsl_quant.runtime.arrays.numpy_dtype]: the type
  itself for floats, and the smallest sufficient integer dtype for integers,
  sign-extended. `i1` is `bool`.
* A value of a quantized type holds its stored values, unsigned for an unsigned storage
  type. `quant.scast` converts between, for example, 200 of `u8` and -56 of `i8`.
* Arrays that are interpreter values are never modified. Arguments are not copied, and
  results may be views of arguments or constants.
"""

from .functions import StatefulModel, run_function
from .registration import register_implementations

__all__ = ["StatefulModel", "register_implementations", "run_function"]
