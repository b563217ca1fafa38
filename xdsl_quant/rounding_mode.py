"""
The names of the rounding modes: a pass option, an argument of a NumPy function and an
argument of the compiler have the same ones with the same meaning.
"""

from typing import Literal

RoundingMode = Literal["truncate", "nearest-even", "nearest-away"]
"""How an expressed value between two stored ones is rounded."""

ScaleRounding = Literal["single", "double"]
"""How the product of an integer with a multiplier is rounded when it is shifted."""
