"""
Inspection of quantized models, comparison with their float models, times of compiled
models, and checks of hardware targets.
"""
