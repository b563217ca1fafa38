"""
Run a tool in the server: `client.py SOCKET FOLDER TOOL ARGUMENT...`.

A process of its own for the shell; it imports little, as there are a thousand of them.
"""

import array
import json
import os
import socket
import sys

address, folder, *command = sys.argv[1:]
request = {
    "folder": folder,
    "command": command,
    "directory": os.getcwd(),
    "environment": dict(os.environ),
}
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(address)
    descriptors = array.array("i", (0, 1, 2))
    server.sendmsg(
        [json.dumps(request).encode()],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)],
    )
    # Nothing comes if the tool was killed.
    sys.exit((server.recv(1) or b"\1")[0])
