#!/usr/bin/env python3
"""
MLIR's `mlir-opt`, as far as tests need it, on the Python bindings of the extra `mlir`.

Reads a module on standard input and prints what MLIR makes of it. A missing MLIR is an
error, and so is a module that MLIR does not accept.
"""

import argparse
import re
import sys
from typing import Any

import mlir.ir  # pyright: ignore[reportMissingImports, reportMissingTypeStubs, reportUnusedImport] untyped
import mlir.passmanager  # pyright: ignore[reportMissingImports, reportMissingTypeStubs] untyped

# The bindings have no type information.
_ir: Any = mlir.ir  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue] untyped
_passmanager: Any = mlir.passmanager  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue] untyped

_SPLIT = "// -----\n"


def _process(text: str, arguments: argparse.Namespace) -> str:
    """The text of a module after the passes."""
    with _ir.Context() as context:
        context.enable_multithreading(False)
        context.allow_unregistered_dialects = arguments.allow_unregistered_dialect
        module = _ir.Module.parse(text)
        if arguments.pass_pipeline:
            pipeline = _passmanager.PassManager.parse(arguments.pass_pipeline)
            pipeline.run(module.operation)
        return module.operation.get_asm(
            print_generic_op_form=arguments.mlir_print_op_generic
        ).rstrip("\n")


def main() -> None:
    """Process each part of the input, which a line `// -----` ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allow-unregistered-dialect", action="store_true")
    parser.add_argument("--mlir-print-op-generic", action="store_true")
    parser.add_argument("--pass-pipeline")
    parser.add_argument("--split-input-file", action="store_true")
    arguments = parser.parse_args()
    text = sys.stdin.read()
    parts = re.split(f"(?m)^{_SPLIT}", text) if arguments.split_input_file else [text]
    try:
        texts = [_process(part, arguments) for part in parts]
    except _ir.MLIRError as e:
        sys.exit(str(e))
    print(f"\n{_SPLIT}".join(texts))


if __name__ == "__main__":
    main()
