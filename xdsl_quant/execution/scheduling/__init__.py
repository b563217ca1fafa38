"""
Optimizations of compiled code that do not change its results.

`execution.machine_code` calls the methods of a `FastSchedule` between the passes of its
lowering. They are optional: `compile(..., schedule=False)` disables them, and a step
that fails is skipped.
"""
