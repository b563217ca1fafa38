#!/usr/bin/env python3
"""
Run `xdsl-opt` and `filecheck` in forks of one process that has imported them.

Most of the time of a lit test is the start of Python and the import of xDSL. The server
gets the arguments, the working directory and the three standard streams of each command,
and sends its exit code.

    python command_server.py SOCKET
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from io import StringIO
from tempfile import NamedTemporaryFile

import filecheck.main
from xdsl.tools import xdsl_opt

COMMANDS: Mapping[str, Callable[[], object]] = {
    "filecheck": filecheck.main.main,
    "xdsl-opt": xdsl_opt.main,
}


def _exit_code(main: Callable[[], object], arguments: list[str]) -> int:
    sys.argv = arguments
    try:
        code = main()
    except SystemExit as e:
        code = e.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    # As at the end of a process.
    except BaseException as e:
        sys.excepthook(type(e), e, e.__traceback__)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = 1
    return code if isinstance(code, int) else int(code is not None)


def _serve(connection: socket.socket) -> None:
    """Run the command of a connection in a process of its own."""
    message, streams, *_ = socket.recv_fds(connection, 1 << 20, 3)
    if os.fork() == 0:
        request = json.loads(message)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        # The objects of the server may be of files, which have a position.
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = open(
            2,
            "w",
            buffering=1,
            encoding="utf-8",
            errors="backslashreplace",
            closefd=False,
        )
        os.chdir(request["directory"])
        arguments = request["arguments"]
        code = _exit_code(COMMANDS[arguments[0]], arguments)
        connection.send(bytes([code & 255]))
        os._exit(0)
    for stream in streams:
        os.close(stream)
    connection.close()


def _import_commands() -> None:
    """Run `xdsl-opt` once, which imports dialects and passes where it needs them."""
    with NamedTemporaryFile("w", suffix=".mlir") as file, redirect_stdout(StringIO()):
        file.write("func.func private @f(tensor<4x!quant.uniform<i8:f32, 0.5>>)")
        file.flush()
        _exit_code(xdsl_opt.main, ["xdsl-opt", file.name, "-p", "canonicalize"])


def main() -> None:
    """Serve until the end of standard input."""
    # Ended commands need no wait.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    lifetime = os.dup(0)
    with socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
        server.bind(sys.argv[1])
        server.listen(64)
        _import_commands()
        print("ready", flush=True)
        for source in (server.fileno(), lifetime):
            ready.register(source, selectors.EVENT_READ)
        while True:
            events = [key.fd for key, _ in ready.select()]
            if lifetime in events:
                return
            _serve(server.accept()[0])


if __name__ == "__main__":
    main()
