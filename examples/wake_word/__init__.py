"""
Streaming wake-word models of TensorFlow Lite, as compiled integer code.

`python -m examples.wake_word --help` prints the options.
"""
