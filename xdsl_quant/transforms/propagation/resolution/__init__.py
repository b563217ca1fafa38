"""
How constraints become parameters: the states of values, the work list over kernels, and
the report of what was decided.
"""
