"""
Runs `xdsl-opt`, `xdsl-run` and `filecheck` for clients and keeps what xDSL's printed.

All modules of xDSL are imported once, then each call gets a process by `os.fork`: xDSL's
suite calls its tools a thousand times, and most of such a call is imports.
"""

import hashlib
import importlib.metadata
import io
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, cast

from filecheck.main import main as filecheck
from xdsl.dialects import get_all_dialects
from xdsl.tools import xdsl_opt, xdsl_run
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

PLUGIN = "xdsl_quant"
"""The name of the entry point."""

TOOLS: Mapping[str, Callable[[], object]] = {
    "filecheck": filecheck,
    "xdsl-opt": xdsl_opt.main,
    "xdsl-run": xdsl_run.main,
}

MAX_REQUEST = 1 << 17


def hide_plugin() -> None:
    """Let `Universe.get_multiverse` find all plugins but this one, which stays there."""
    entry_points = cast(
        Callable[..., Sequence[importlib.metadata.EntryPoint]],
        importlib.metadata.entry_points,
    )

    def other_entry_points(**selection: Any) -> Sequence[importlib.metadata.EntryPoint]:
        return [e for e in entry_points(**selection) if e.name != PLUGIN]

    setattr(importlib.metadata, "entry_points", other_entry_points)


def serve(address: str, *, plugin: bool) -> None:
    """Answer clients until the process is terminated."""
    if not plugin:
        hide_plugin()
    Universe.get_multiverse()
    for factory in (*get_all_dialects().values(), *get_all_passes().values()):
        try:
            factory()
        except ImportError:
            # A package that xDSL itself can do without.
            pass
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen(64)
        # The system cleans up after children.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            connection, _ = server.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                os._exit(_answer(connection))
            connection.close()


def _answer(connection: socket.socket) -> int:
    """Run what a client asks for, in the client's place."""
    message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    request = json.loads(message)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    status, out, err = _call(request["command"])
    if request["command"][0] != "filecheck":
        _keep(Path(request["folder"]), request["command"], status, out, err)
    try:
        print(out, end="", flush=True)
        print(err, end="", file=sys.stderr, flush=True)
    except BrokenPipeError:
        # A check that has failed does not read on.
        pass
    connection.send(bytes([status & 0xFF]))
    return 0


def _call(command: Sequence[str]) -> tuple[int, str, str]:
    """The exit status of a tool and what it printed; of a traceback, only the error."""
    main = TOOLS[command[0]]
    sys.argv = [*command]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            result = main()
        except SystemExit as exit_:
            result = exit_.code
        except Exception as error:
            result = 1
            sys.stderr.writelines(traceback.format_exception_only(error))
    status = result if isinstance(result, int) else int(bool(result))
    return status, out.getvalue(), err.getvalue()


def _keep(
    folder: Path, command: Sequence[str], status: int, out: str, err: str
) -> None:
    """Write what a call printed to a file that both runs name alike."""
    temporary = str(folder).removesuffix(".calls")
    call = " ".join(command).replace(temporary, "%t")
    digest = hashlib.sha256(call.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    # Equal calls of one test are numbered.
    number = len([*folder.glob(f"{digest}-*")])
    record = {"command": call, "status": status, "stdout": out, "stderr": err}
    (folder / f"{digest}-{number}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    serve(sys.argv[1], plugin=sys.argv[2] == "on")
