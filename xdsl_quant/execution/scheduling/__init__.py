"""
Optimizations of compiled code that do not change its results.

`execution.machine_code` calls the methods of a `FastSchedule` between its passes. These
steps are optional (`compile(..., schedule=False)`), and a failing step is skipped.
"""
