"""
Operations that xDSL with this package and MLIR both support, so that one benchmark
measures both.

A process imports only the tool that it uses: the other would count in its memory.
"""

from typing import Literal, Protocol

ToolName = Literal["xDSL", "MLIR"]

TOOL_NAMES: tuple[ToolName, ToolName] = ("xDSL", "MLIR")


class Module(Protocol):
    """A parsed module."""

    def verify(self) -> None:
        """Verify all ops."""

    def run(self, pass_: str) -> None:
        """Run one pass, given as `name` or `name{option=value}`, without a verifier."""

    def text(self) -> str:
        """Print the module, without a verifier."""
        ...


class Tool(Protocol):
    """A compiler in a fresh process."""

    def parse_module(self, text: str) -> Module:
        """Parse a module in a new context."""
        ...

    def parse_type(self, text: str) -> object:
        """Parse a type in a new context; its `str` is its text."""
        ...


def load_tool(name: ToolName) -> Tool:
    """Import a tool."""
    if name == "xDSL":
        from benchmarks.xdsl_tool import XdslTool

        return XdslTool()
    from benchmarks.mlir_tool import MlirTool

    return MlirTool()
