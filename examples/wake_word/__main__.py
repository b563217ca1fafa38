"""The command `python -m examples.wake_word`."""

import sys

from .demo import main

sys.exit(main())
