"""Reading and checking of `.onnx` files, and the elements of their tensors."""
