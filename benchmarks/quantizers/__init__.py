"""Models that are quantized by several quantizers, with the same samples."""
