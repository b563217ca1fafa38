"""xDSL with this package, as `xdsl-opt` loads it."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

_UNIVERSE = Universe.get_multiverse()


def _context() -> Context:
    context = Context()
    for name, factory in _UNIVERSE.all_dialects.items():
        context.register_dialect(name, factory)
    return context


class XdslModule:
    """A module and the context of its parser."""

    def __init__(self, context: Context, module: ModuleOp):
        self._context = context
        self._module = module

    def verify(self) -> None:
        """Verify all ops."""
        self._module.verify()

    def run(self, pass_: str) -> None:
        """Run a pass."""
        pipeline = PassPipeline.parse_spec(_UNIVERSE.all_passes, pass_)
        pipeline.apply(self._context, self._module)

    def text(self) -> str:
        """Print the module."""
        return str(self._module)


class XdslTool:
    """xDSL."""

    def parse_module(self, text: str) -> XdslModule:
        """Parse a module in a new context."""
        context = _context()
        return XdslModule(context, Parser(context, text).parse_module())

    def parse_type(self, text: str) -> object:
        """Parse a type in a new context."""
        return Parser(_context(), text).parse_type()
