"""A node of an ONNX graph, with typed access to its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx

from xdsl_quant.unsupported import Unsupported

_AttributeType = onnx.AttributeProto.AttributeType


@dataclass(frozen=True, eq=False)
class Node:
    """A node, and the opset version that defines its attributes and inputs."""

    proto: onnx.NodeProto
    version: int

    @property
    def op_type(self) -> str:
        """Name of the op, after its domain unless that is ONNX's own."""
        domain = self.proto.domain
        is_standard = domain in ("", "ai.onnx")
        return self.proto.op_type if is_standard else f"{domain}.{self.proto.op_type}"

    @property
    def result_names(self) -> Sequence[str]:
        """Names of the results; an absent optional result has an empty name."""
        return self.proto.output

    @cached_property
    def attributes(self) -> Mapping[str, onnx.AttributeProto]:
        """Attributes in the file, without defaults, by name."""
        return {attribute.name: attribute for attribute in self.proto.attribute}

    def _attribute(
        self, name: str, kind: onnx.AttributeProto.AttributeType
    ) -> onnx.AttributeProto | None:
        attribute = self.attributes.get(name)
        if attribute is not None and attribute.type != kind:
            raise Unsupported(
                f"attribute '{name}' has type {_AttributeType.Name(attribute.type)}; "
                f"expected {_AttributeType.Name(kind)}"
            )
        return attribute

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute; an attribute of another type is `Unsupported`."""
        found = self._attribute(name, onnx.AttributeProto.INT)
        return default if found is None else found.i

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return an integer attribute as a truth value."""
        return bool(self.integer(name, int(default)))

    def integers(self, name: str, default: Sequence[int] = ()) -> Sequence[int]:
        """Return an attribute with a list of integers."""
        found = self._attribute(name, onnx.AttributeProto.INTS)
        return default if found is None else [*found.ints]

    def number(self, name: str, default: float) -> float:
        """Return a float attribute."""
        found = self._attribute(name, onnx.AttributeProto.FLOAT)
        return default if found is None else found.f

    def numbers(self, name: str, default: Sequence[float] = ()) -> Sequence[float]:
        """Return an attribute with a list of floats."""
        found = self._attribute(name, onnx.AttributeProto.FLOATS)
        return default if found is None else [*found.floats]

    def text(self, name: str, default: str) -> str:
        """Return a string attribute."""
        found = self._attribute(name, onnx.AttributeProto.STRING)
        return default if found is None else found.s.decode(errors="replace")

    def texts(self, name: str) -> Sequence[str]:
        """Return an attribute with a list of strings."""
        found = self._attribute(name, onnx.AttributeProto.STRINGS)
        texts = () if found is None else found.strings
        return [text.decode(errors="replace") for text in texts]

    def tensor(self, name: str) -> onnx.TensorProto | None:
        """Return a tensor attribute; `None` if it is absent."""
        found = self._attribute(name, onnx.AttributeProto.TENSOR)
        return None if found is None else found.t

    def graph(self, name: str) -> onnx.GraphProto:
        """Return a graph attribute; an absent one is `Unsupported`."""
        if (found := self._attribute(name, onnx.AttributeProto.GRAPH)) is None:
            raise Unsupported(f"attribute '{name}' is missing; expected a graph")
        return found.g
