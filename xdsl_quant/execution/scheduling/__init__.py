"""
What makes compiled code fast and changes no number.

`execution.machine_code` calls the methods of a `Schedule` between the passes of its
lowering, and works without them as well: `compile(..., schedule=False)`.
"""

from .schedule import Schedule

__all__ = ["Schedule"]
