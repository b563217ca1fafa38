"""How ops of TensorFlow Lite become ops of TOSA, by kind of op."""
