"""
Two networks that classify handwritten digits, quantized with passes.

`python -m examples.digits` prints the accuracy of each quantized variant.
"""
