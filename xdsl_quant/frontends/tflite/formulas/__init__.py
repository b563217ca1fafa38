"""
NumPy implementations of TensorFlow Lite's kernels.

Integer kernels compute with `int64` arrays of stored values; their results are
bit-identical to those of the reference kernels.
"""
