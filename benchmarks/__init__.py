"""Speed and memory of xdsl-quant, beside MLIR. One script for each question."""

import os

# Nothing that is measured may come from another run.
os.environ["XDSL_QUANT_CACHE"] = "off"
