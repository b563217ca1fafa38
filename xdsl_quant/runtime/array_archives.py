"""Archives of NumPy arrays (`.npz`) that cannot be read."""

import zlib
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

ARCHIVE_ERRORS = (BadZipFile, zlib.error, EOFError)
"""Errors of reading a member of an archive that has passed `check_members`."""

DAMAGED_ARCHIVE = "the archive is damaged or encrypted; write it again with np.savez"

_UNREADABLE_FLAGS = 0x61
"""Bits of encryption, patched data and strong encryption in the flags of a member."""


def check_members(archive: ZipFile) -> None:
    """
    Check that members are stored like those that NumPy writes.

    Raises:
        BadZipFile: if a member is encrypted or has another compression method.
    """
    for member in archive.infolist():
        is_readable = member.compress_type in (ZIP_STORED, ZIP_DEFLATED)
        if member.flag_bits & _UNREADABLE_FLAGS or not is_readable:
            raise BadZipFile(DAMAGED_ARCHIVE)
