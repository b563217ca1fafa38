"""
Two networks that read handwritten digits, quantized by the passes of this package.

`python -m examples.digits` prints how many digits each variant of them gets right.
"""
