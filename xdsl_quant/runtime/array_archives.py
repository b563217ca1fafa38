"""Checks and error messages for archives of NumPy arrays (`.npz`)."""

import zlib
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

ARCHIVE_ERRORS = (BadZipFile, zlib.error, EOFError)
"""Errors that reading a member may raise after `check_members` has passed."""

DAMAGED_ARCHIVE = "the archive is damaged or encrypted; write it again with np.savez"

_UNREADABLE_FLAGS = 0x61
"""ZIP flag bits: encryption, patched data, strong encryption."""


def check_members(archive: ZipFile) -> None:
    """
    Check that NumPy can read all members.

    Raises:
        BadZipFile: if a member is encrypted or neither stored nor deflated.
    """
    for member in archive.infolist():
        is_readable = member.compress_type in (ZIP_STORED, ZIP_DEFLATED)
        if member.flag_bits & _UNREADABLE_FLAGS or not is_readable:
            raise BadZipFile(DAMAGED_ARCHIVE)
