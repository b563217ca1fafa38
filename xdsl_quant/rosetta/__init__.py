"""
Which integers runtimes compute for the same quantized types, and with which options
compiled code computes the same.

```python
for comparison in compare_runtimes("!quant.uniform<i8:f32, 0.5:3>"):
    print(comparison)
```

Runtimes that are not installed are left out.
"""

from .casts import RUNTIMES, compare_runtimes
from .comparison import Difference, Match, Row, RuntimeComparison
from .models import OP_RUNTIMES, compare_ops
from .runtimes import Runtime, Unavailable

__all__ = [
    "OP_RUNTIMES",
    "RUNTIMES",
    "Comparison",
    "Difference",
    "Match",
    "Row",
    "Runtime",
    "RuntimeComparison",
    "Unavailable",
    "compare_ops",
    "compare_runtimes",
]

Comparison = RuntimeComparison
"""The former name, which the API reference printed."""
