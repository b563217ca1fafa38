"""TOSA frontend: ops that xDSL lacks, conversion of rescales and block-scaled types."""
