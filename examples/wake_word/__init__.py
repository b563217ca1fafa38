"""
The quantized tensors of a wake-word model, dequantized and quantized by compiled code.

`python -m examples.wake_word --help` says how to run it.
"""
