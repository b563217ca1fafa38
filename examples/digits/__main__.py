"""The command `python -m examples.digits`."""

from .demo import main

main()
