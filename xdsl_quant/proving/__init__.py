"""
Proofs about casts, passes and networks for all inputs, by an SMT solver, by exhaustion, or
by bounds.

```python
for prover in provers("!quant.uniform<i8:f32, 0.3:5>"):
    for theorem in prover.theorems():
        print(theorem.verdict, theorem.claim, theorem.details)
```

Requires the extra `prove`; trying all inputs also requires `mlir`.
"""

from .accumulators import Accumulator, accumulators
from .casts import CastProver
from .certificates import Certificate, Region, certify
from .equivalence import equivalent, preserved
from .formula import Cast
from .modules import provers
from .requantization import RequantizationProver
from .terms import UnsupportedError
from .theorems import Theorem, Verdict

__all__ = [
    "Accumulator",
    "Cast",
    "CastProver",
    "Certificate",
    "Region",
    "RequantizationProver",
    "Theorem",
    "UnsupportedError",
    "Verdict",
    "accumulators",
    "certify",
    "equivalent",
    "preserved",
    "provers",
]
