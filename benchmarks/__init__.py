"""Speed, memory and accuracy of xdsl-quant, compared with MLIR and other libraries."""

import os

# No measurement may use results cached by another run.
os.environ["XDSL_QUANT_CACHE"] = "off"
