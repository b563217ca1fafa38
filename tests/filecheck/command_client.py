#!/usr/bin/env python3
"""
Let the server run a command: `python -IS command_client.py SOCKET xdsl-opt ...`.

Only few modules are imported, as this starts for each command.
"""

import json
import os
import socket
import sys

_, path, *arguments = sys.argv
request = json.dumps({"directory": os.getcwd(), "arguments": arguments}).encode()
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    socket.send_fds(connection, [request], [0, 1, 2])
    answer = connection.recv(1)
# A command that ends its process sends nothing.
sys.exit(answer[0] if answer else 70)
