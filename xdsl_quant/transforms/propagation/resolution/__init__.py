"""
Resolve constraints into parameters: the state of values, the work list over kernels,
and the report of the decisions.
"""
