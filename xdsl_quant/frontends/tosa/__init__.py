"""TOSA: ops that xDSL's dialect lacks, rescales and block-scaled types to TOSA and back."""
