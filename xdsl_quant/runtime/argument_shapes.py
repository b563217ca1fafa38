"""Static argument shapes of modules whose ops do not support dynamic sizes."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import error_summary

from .arrays import shape_of
from .entry_function import entry_function
from .loading import IRError
from .plugins import dialects_in, plugins


def has_dynamic_arguments(module: ModuleOp, entry: str | None = None) -> bool:
    """
    Return True if the entry function has arguments of dynamic shape, and the module has
    ops that require static shapes.
    """
    types = entry_function(module, entry).function_type.inputs
    is_dynamic = any(size < 0 for type_ in types for size in shape_of(type_))
    return is_dynamic and not dialects_in(module).isdisjoint(plugins().model_dialects)


def with_argument_shapes(
    module: ModuleOp,
    entry: str | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
) -> ModuleOp:
    """
    Return a copy of a module with static shapes of arguments, and of the values that
    depend on them; the module itself if none is dynamic, or its ops support dynamic sizes.

    Args:
        module: module (not changed).
        entry: function name; by default the only public function, or else `main`.
        shapes: argument shapes; by default those of the types, with 1 for dynamic sizes.

    Raises:
        ValueError: if the function is missing.
        IRError: if an argument type is incompatible with its shape.
    """
    if not has_dynamic_arguments(module, entry):
        return module
    hooks = plugins().model_dialects
    module = module.clone()
    function = entry_function(module, entry)
    if shapes is None:
        types = function.function_type.inputs
        shapes = [[1 if size < 0 else size for size in shape_of(t)] for t in types]
    try:
        for dialect in dialects_in(module) & hooks.keys():
            hooks[dialect]().set_argument_shapes(module, function, shapes)
    except PassFailedException as e:
        raise IRError(error_summary(e)) from None
    return module
