"""
Wake-word models of TensorFlow Lite, streaming, as compiled integer code.

`python -m examples.wake_word --help` says how to run it.
"""
