"""
NumPy implementations of TensorFlow Lite's integer kernels.

Results are bit-identical to the reference kernels. Stored values are arrays of `int64`.
Data movement ops need no kernel.
"""
