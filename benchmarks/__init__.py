"""Speed, memory and accuracy of xdsl-quant, compared with MLIR and other libraries."""

import os

# Nothing that is measured may come from another run.
os.environ["XDSL_QUANT_CACHE"] = "off"
