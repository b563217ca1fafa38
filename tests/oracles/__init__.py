"""Random models of one op, compared with the reference kernels of TensorFlow Lite."""
