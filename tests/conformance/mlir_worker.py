"""
Real MLIR in a process of its own, because broken inputs may abort it.

Run as a script with the name of the package that has the bindings and the CPU seconds that
a request may take, with one request a line on standard input and one answer a line on
standard output, both JSON. It forks a child that answers; when the child dies, the answer
is `{"crashed": reason}` and the next request gets a new child. Forking a process that has
loaded MLIR already takes a millisecond, starting one takes half a second.
"""

import base64
import json
import os
import resource
import signal
import sys
from importlib import import_module
from typing import Any

_package = sys.argv[1]
_cpu_seconds = float(sys.argv[2])

# The bindings have no type information.
_ir: Any = import_module(f"{_package}.ir")
_passmanager: Any = import_module(f"{_package}.passmanager")

_REQUESTS_OF_A_CONTEXT = 256
"""A context never forgets a type, but making one takes as long as 100 requests."""

Request = dict[str, Any]
Response = dict[str, Any]


def _diagnostics(error: Any) -> list[tuple[int, int, str]]:
    return [
        (*_place(diagnostic.location), diagnostic.message)
        for diagnostic in error.error_diagnostics
    ]


def _place(location: Any) -> tuple[int, int]:
    """Line and column; zeros for a location that is not in a file."""
    if hasattr(location, "is_a_file"):
        is_in_file = location.is_a_file()
        return (location.start_line, location.start_col) if is_in_file else (0, 0)
    # Since MLIR 23, each kind of location is a class.
    try:
        location = _ir.FileLineColLoc(location)
    except ValueError:
        return 0, 0
    return location.start_line, location.start_col


def _run(request: Request) -> str:
    """
    The text of a type, or of a module after the passes of a pipeline, or of the module of
    a TensorFlow Lite file; or the file of a module, in Base64.
    """
    if request["kind"] == "type":
        return str(_ir.Type.parse(request["text"]))
    if request["kind"] in ("import", "export"):
        # Also before exporting, as it loads dialects that exporting needs.
        imported = _imported(base64.b64decode(request["file"]))
        if request["kind"] == "import":
            return imported
    module = _ir.Module.parse(request["text"])
    if request["kind"] == "export":
        libraries = f"{_package}._mlir_libs.converter_api_ext"
        exported = import_module(libraries).export_flatbuffer_to_bytes(module.operation)
        return base64.b64encode(exported).decode()
    if request["pipeline"]:
        pipeline = f"builtin.module({request['pipeline']})"
        _passmanager.PassManager.parse(pipeline).run(module.operation)
    return module.operation.get_asm(
        print_generic_op_form=request["generic"], enable_debug_info=request["debug"]
    )


def _imported(content: bytes) -> str:
    libraries = f"{_package}._mlir_libs.model_utils_ext"
    module = import_module(libraries).flatbuffer_to_mlir(content, _ir.Context.current)
    return str(module)


def _new_context() -> Any:
    context = _ir.Context()
    context.enable_multithreading(False)
    if _package == "litert_converter.mlir":
        extension: Any = import_module("litert_converter.converter_api_ext")
        extension.prepare_mlir_context(context)
    return context


def _respond(request: Request) -> Response:
    try:
        # Which of 0.0 and -0.0 a calibrated type has is the one that its context saw first.
        if "calibrated" in request["text"]:
            with _new_context():
                return {"text": _run(request)}
        return {"text": _run(request)}
    except _ir.MLIRError as e:
        return {"errors": _diagnostics(e)}
    except (RuntimeError, ValueError) as e:
        # Of reading and writing files.
        return {"errors": [(0, 0, str(e))]}


def _answer_requests() -> None:
    """Answer until there is no request left."""
    while True:
        with _new_context():
            for _ in range(_REQUESTS_OF_A_CONTEXT):
                if not (line := sys.stdin.readline()):
                    return
                # The signal ends this child, which counts as a crash.
                signal.setitimer(signal.ITIMER_PROF, _cpu_seconds)
                answer = json.dumps(_respond(json.loads(line)))
                signal.setitimer(signal.ITIMER_PROF, 0)
                print(answer, flush=True)


def _serve() -> None:
    """Keep one child that answers requests, until it ends because there are none."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while child := os.fork():
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return
        reason = signal.strsignal(os.WTERMSIG(status))
        print(json.dumps({"crashed": reason}), flush=True)
    _answer_requests()
    os._exit(0)


if __name__ == "__main__":
    _serve()
