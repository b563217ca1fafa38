"""
Interpreter functions for xDSL's interpreter that compute on NumPy arrays, with the
arithmetic of the types in the IR.

```python
interpreter = Interpreter(module)
register_implementations(interpreter)
(result,) = interpreter.call_op("f", (np.float32(0.3),))
```

or, with arguments that are checked first, `run_function(module, "f", 0.3)`; and where a
function keeps state, `StatefulModel(module, "f").step(0.3)` again and again.

Values of the interpreter are what
[`check_argument`][xdsl_quant.runtime.arrays.check_argument] makes of an argument:

* Tensors are arrays, and scalars are NumPy scalars. A tensor of rank 0 may be either, and
  an induction variable of `scf.for` is a Python number.
* The dtype is the one that
  [`numpy_dtype`][xdsl_quant.runtime.arrays.numpy_dtype] says: that of the type
  for floats, the smallest integer that is large enough for the others, with copies of the
  sign in the bits that the type does not have. `i1` is `bool`.
* A value of a quantized type holds its stored values, unsigned for an unsigned storage
  type. `quant.scast` is what turns the 200 of a `u8` into the -56 of an `i8` and back.
* No array is written to once it is a value. Arguments are not copied, and a result of the
  interpreter may be a view of an argument or of a constant.
"""

from .functions import StatefulModel, run_function
from .registration import register_implementations

__all__ = ["StatefulModel", "register_implementations", "run_function"]
