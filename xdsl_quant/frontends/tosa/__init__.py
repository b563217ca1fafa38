"""
TOSA frontend: ops that xDSL's dialect lacks, and conversion of rescales and
block-scaled types.
"""
