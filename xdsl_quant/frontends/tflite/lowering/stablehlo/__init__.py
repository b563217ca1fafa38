"""Lowerings of TensorFlow Lite ops to StableHLO, by kind of op."""
