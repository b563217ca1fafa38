"""
The integer kernels of TensorFlow Lite in NumPy.

Each function computes the integers that the reference kernels compute, from stored values
as integers of 64 bits. What only moves stored values needs no kernel.
"""
