"""An example of a dialect with quantized types."""
