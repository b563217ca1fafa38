"""
Comparison of the integers that runtimes compute for the same quantized types. It finds
the options with which compiled code reproduces each runtime.

```python
for comparison in compare_runtimes("!quant.uniform<i8:f32, 0.5:3>"):
    print(comparison)
```

Runtimes that are not installed are skipped.
"""

from .casts import RUNTIMES, compare_runtimes
from .comparison import Difference, Match, Row, RuntimeComparison
from .models import OP_RUNTIMES, compare_ops
from .runtimes import Runtime, Unavailable
from .whole_models import ModelComparison, StepDifference, compare_model

__all__ = [
    "OP_RUNTIMES",
    "RUNTIMES",
    "Comparison",
    "Difference",
    "Match",
    "ModelComparison",
    "Row",
    "Runtime",
    "RuntimeComparison",
    "StepDifference",
    "Unavailable",
    "compare_model",
    "compare_ops",
    "compare_runtimes",
]

Comparison = RuntimeComparison
"""Former public name of `RuntimeComparison`."""
