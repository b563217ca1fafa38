"""Damaged ONNX files: changes of bytes, and of the fields of messages."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import ModelProto

NUMBERS = (0, 1, 2, 3, -1, 7, 14, 15, 18, 22, 23, 26, 999, 2**31 - 1, -(2**31))
"""Integers that are types, sizes, axes or versions somewhere."""

LARGE_NUMBERS = (2**40, 2**62, 2**63 - 1, -(2**63))

OPS = ("Relu", "Add", "Conv", "If", "Loop", "Reshape", "Concat", "Constant", "Resize")

TEXTS = ("", "x", "y", "w", "ai.onnx", "my", "../w.bin", "/etc/passwd", "-1", "9" * 30)


def _messages(message: Message) -> Iterator[Message]:
    """Yield a message and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for item in value if field.is_repeated else (value,):
                yield from _messages(item)


def _texts(model: Message) -> Sequence[str]:
    """Return all strings of a model: its names and those of its ops."""
    return [
        text
        for message in _messages(model)
        for field, value in message.ListFields()
        if field.type == field.TYPE_STRING
        for text in (value if field.is_repeated else (value,))
    ]


class FieldMutator:
    """Changes of random fields of a model."""

    def __init__(self, random: np.random.Generator):
        self.random = random

    def choice(self, items: Sequence[Any]) -> Any:
        """Return a random item. The types of fields are unknown: hence `Any`."""
        return items[int(self.random.integers(len(items)))]

    def mutate(self, model: ModelProto) -> None:
        """Change one field, in place."""
        message = self.choice([*_messages(model)])
        fields = [field for field, _ in message.ListFields()]
        if not fields or self.random.random() < 0.2:
            fields = [*message.DESCRIPTOR.fields]
        field: FieldDescriptor = self.choice(fields)
        if self.random.random() < 0.15:
            message.ClearField(field.name)
        elif field.is_repeated:
            self._change_items(model, message, field)
        elif field.type == field.TYPE_MESSAGE:
            self._replace(model, getattr(message, field.name))
        else:
            setattr(message, field.name, self._value(model, field))

    def _replace(self, model: ModelProto, message: Message) -> None:
        """Replace a message by another one of its type, or by an empty one."""
        kind = type(message)
        others = [item for item in _messages(model) if type(item) is kind]
        copy = self.choice([*others, kind()]).SerializeToString()
        message.ParseFromString(copy)

    def _change_items(
        self, model: ModelProto, message: Message, field: FieldDescriptor
    ) -> None:
        items = getattr(message, field.name)
        index = int(self.random.integers(len(items) + 1)) - 1
        if index >= 0 and self.random.random() < 0.3:
            del items[index]
        elif field.type == field.TYPE_MESSAGE:
            item = items[index] if index >= 0 else items.add()
            if self.random.random() < 0.4:
                # Twice, or at another position: the order of nodes counts.
                items.add().CopyFrom(item)
                del items[index]
            else:
                self._replace(model, item)
        elif index >= 0:
            items[index] = self._value(model, field)
        else:
            items.extend([self._value(model, field)] * self.choice((1, 2, 1000)))

    def _value(self, model: ModelProto, field: FieldDescriptor) -> Any:
        match field.type:
            case field.TYPE_STRING:
                return self.choice([*_texts(model), *OPS, *TEXTS])
            case field.TYPE_BYTES:
                return self.random.bytes(int(self.choice((0, 1, 4, 8, 1000))))
            case field.TYPE_FLOAT | field.TYPE_DOUBLE:
                return self.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
            case field.TYPE_ENUM if field.enum_type:
                return self.choice([item.number for item in field.enum_type.values])
            case field.TYPE_UINT64:
                return self.choice((0, 1, 255, 2**64 - 1))
            case field.TYPE_INT32:
                return self.choice(NUMBERS)
            case _:
                return self.choice(NUMBERS + LARGE_NUMBERS)


def _with_changed_bytes(content: bytes, random: np.random.Generator) -> bytes:
    new = bytearray(content)
    places = random.integers(len(content), size=8)
    first, last = sorted(map(int, places[:2]))
    match int(random.integers(5)):
        case 0:
            del new[first:]
        case 1:
            new[first] ^= 1 << int(random.integers(8))
        case 2:
            for place in places:
                new[int(place)] = int(random.integers(256))
        case 3:
            del new[first : min(last, first + 20)]
        case _:
            new[first:first] = new[first : min(last, first + 200)]
    return bytes(new)


def mutated(model: ModelProto, random: np.random.Generator) -> bytes:
    """Return a file with one to three changes, most of them of fields."""
    if random.random() < 0.3:
        return _with_changed_bytes(model.SerializeToString(), random)
    new = ModelProto()
    new.CopyFrom(model)
    mutator = FieldMutator(random)
    for _ in range(int(random.integers(1, 4))):
        mutator.mutate(new)
    return new.SerializeToString()
