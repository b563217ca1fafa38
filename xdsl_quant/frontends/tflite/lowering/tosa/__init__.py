"""Lowerings of TensorFlow Lite ops to TOSA, by kind of op."""
