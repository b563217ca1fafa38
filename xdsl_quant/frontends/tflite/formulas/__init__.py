"""
NumPy implementations of TensorFlow Lite's kernels.

Integer results, computed from stored values as `int64` arrays, are bit-identical to the
reference kernels. Data movement ops need no kernel.
"""
