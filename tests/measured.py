"""
Run the commands of pages in `docs/measured/`, and write their output into the pages.

`python -m tests.measured docs/measured/digits.md` runs all commands of this page; `--only
WORD` runs the commands that contain a word. A command is a block `console` with its output,
or a block `sh`. The output of a block `sh` is the block `text` or the table after it.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from xdsl_quant.runtime.atomic_files import write_text_atomically

ROOT = Path(__file__).parents[1]

COMMAND = re.compile(
    r"^```console\n\$ (?P<console>.*)\n(?:.*\n)*?```$"
    r"|^```sh\n(?P<sh>.*)\n```\n\n(?:(?P<text>```text)\n(?:.*\n)*?```$|(?:\|.*\n?)+)",
    re.MULTILINE,
)


def output_of(command: str) -> str:
    """Run a command at the root, with the programs of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    output = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return "\n".join(line.rstrip() for line in output.strip().splitlines())


def block(match: re.Match[str]) -> str:
    """Return the Markdown of a command and its new output."""
    if command := match["console"]:
        return f"```console\n$ {command}\n{output_of(command)}\n```"
    output = output_of(match["sh"])
    if match["text"]:
        return f"```sh\n{match['sh']}\n```\n\n```text\n{output}\n```"
    return f"```sh\n{match['sh']}\n```\n\n{output}\n"


def main() -> None:
    """Write the pages of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+", metavar="PAGE")
    parser.add_argument("--only", default="", metavar="WORD")
    arguments = parser.parse_args()
    for page in arguments.pages:

        def updated(match: re.Match[str]) -> str:
            command = match["console"] or match["sh"]
            return block(match) if arguments.only in command else match[0]

        write_text_atomically(page, COMMAND.sub(updated, page.read_text()))


if __name__ == "__main__":
    main()
