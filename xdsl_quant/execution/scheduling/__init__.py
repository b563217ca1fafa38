"""
What makes compiled code fast and changes no number.

`execution.machine_code` calls the methods of a `FastSchedule` between the passes of its
lowering, and works without them as well: `compile(..., schedule=False)`. A step that fails
is left out.
"""
