"""How ops of TensorFlow Lite become ops of StableHLO, by kind of op."""
