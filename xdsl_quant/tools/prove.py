"""The command `xdsl-quant prove`: claims about casts, for all inputs."""

import argparse
import sys
from collections.abc import Sequence

from xdsl_quant.diagnostics import counted
from xdsl_quant.runtime.loading import IRError

from .commands import parse_arguments
from .failures import Failure, exit_code, naming_failures


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_prove_claims, parse_arguments("prove", args))


def _prove_claims(options: argparse.Namespace) -> None:
    if options.against is not None:
        _certify(options)
        return
    for name in ("samples", "radius", "tries", "json"):
        if getattr(options, name) is not None:
            raise Failure(
                f"{options.module}: error: option --{name} has no effect without "
                "--against; name the float model"
            )
    with naming_failures(options.module, ImportError):
        # Needs the extra `prove`.
        from xdsl_quant.proving import UnsupportedError

        from .prove_claims import claims

    errors = (UnsupportedError, IRError, ValueError, ImportError)
    open_count = 0
    with naming_failures(options.module, *errors):
        for title, theorems in claims(options):
            print(title)
            for theorem in theorems:
                print(f"  {theorem}", flush=True)
                open_count += theorem.verdict != "proved"
    if open_count:
        raise Failure(
            f"{options.module}: error: {counted(open_count, 'claim')} not proved"
        )


def _certify(options: argparse.Namespace) -> None:
    with naming_failures(options.module, ImportError):
        from .prove_certificates import print_certificate

    print_certificate(options)


if __name__ == "__main__":
    sys.exit(main())
