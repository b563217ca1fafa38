"""Error messages for pass options that do not parse."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterListType
from xdsl.utils.hints import isa, type_repr

from xdsl_quant.diagnostics import quoted

_WORDS = {
    bool: "true or false",
    int: "an integer",
    str: "a string, in double quotes unless it is a single word",
}


def options_error_message(pass_type: type[ModulePass], spec: ArgSpec) -> str | None:
    """Return a message about the first invalid option; `None` if all are valid."""
    types = get_type_hints(pass_type)
    options = {_option(f.name): types[f.name] for f in fields(pass_type) if f.init}
    given = {_option(name): values for name, values in spec.parameters.items()}
    for name, values in given.items():
        if name not in options:
            known = quoted(options)
            listed = f"available: {known}" if known else "the pass has none"
            return f"unknown option '{name}'; {listed}"
        if not _fits_type(values, options[name]):
            return f"{name} must be {_allowed_values(options[name])}, {_not_values(values)}"
    for name in map(_option, pass_type.required_fields()):
        if name not in given:
            return f"missing option '{name}'"
    return None


def _option(name: str) -> str:
    return name.replace("_", "-")


def _fits_type(values: ParameterListType, type_: Any) -> bool:
    if not values and NoneType in get_args(type_):
        return True
    return isa(values, type_) or (len(values) == 1 and isa(values[0], type_))


def _allowed_values(type_: Any) -> str:
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Literal:
        *others, last = (f"'{value}'" for value in arguments)
        return f"{', '.join(others)} or {last}" if others else last
    if origin in (Union, UnionType):
        return " or ".join(_allowed_values(t) for t in arguments if t is not NoneType)
    if origin is tuple:
        return f"a list separated by commas, each item {_allowed_values(arguments[0])}"
    return _WORDS.get(type_) or type_repr(type_)


def _not_values(values: ParameterListType) -> str:
    if not values:
        return "but has no value"
    texts = (str(v).lower() if isinstance(v, bool) else str(v) for v in values)
    return f"not '{','.join(texts)}'"
