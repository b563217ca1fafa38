"""Archives of NumPy arrays that NumPy does not write."""

from pathlib import Path

_FLAGS, _METHOD = 8, 10
"""Offsets in the entry of a member in the directory at the end of an archive."""


def changed_archive(path: Path, damage: str) -> None:
    """
    Change the first member of an archive in place.

    Args:
        path: an archive with one member or more.
        damage: `encrypted`, `method` for an unknown compression method, `deflate` for a
            compressed stream that is damaged, or `checksum`.
    """
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\1\2")
    match damage:
        case "encrypted":
            content[directory + _FLAGS] |= 1
        case "method":
            content[directory + _METHOD] = 99
        case "deflate":
            start = directory // 2
            content[start : start + 16] = b"\xff" * 16
        case "checksum":
            content[directory + 16] ^= 1
        case _:
            raise ValueError(damage)
    path.write_bytes(content)
