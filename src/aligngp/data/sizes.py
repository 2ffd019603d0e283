"""What a file says of its size, looked at before any memory is taken for it."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from aligngp.errors import DataError

UNPACKED = 20
"""Most bytes that a byte of a compressed archive may become: numbers and text seldom reach a tenth of that ..."""
ALWAYS = 2**26
"""... but any archive may become so many."""
_SHARE = 0.5


def memory() -> int:
    """Return the bytes of this machine's memory, or 8 GiB where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**33


def check_fits(path: Path | str, held: int) -> None:
    """Raise where a table would take more than half of the memory."""
    most = int(_SHARE * memory())
    if held > most:
        raise DataError(
            f"{path}: it would take {held / 2**30:.1f} GiB in memory, more than half of the {memory() / 2**30:.1f} GiB "
            "there are. Pass fewer rows, or Parquet that is streamed: agp.Parquet(path, stream=True)."
        )


def check_archive(path: Path) -> None:
    """Raise where a zip file (Excel, NumPy) says that it becomes far larger than such files do."""
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(one.file_size for one in archive.infolist())
    if unpacked > max(ALWAYS, UNPACKED * path.stat().st_size):
        raise DataError(
            f"{path}: {path.stat().st_size} bytes become {unpacked}, which no honest table does. Save it again, as CSV "
            "or Parquet."
        )
    check_fits(path, unpacked)


def check_arrays(path: Path) -> None:
    """Raise where an array of a NumPy archive says that it has another size than its file."""
    with zipfile.ZipFile(path) as archive:
        for one in archive.infolist():
            if not one.filename.endswith(".npy"):
                continue
            with archive.open(one) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
                size = int(np.prod([int(part) for part in shape], dtype=object)) * dtype.itemsize
                if not dtype.hasobject and size != one.file_size - file.tell():
                    name = one.filename.removesuffix(".npy")
                    there = one.file_size - file.tell()
                    raise DataError(
                        f"{path}: array {name!r} says that it has {size} bytes, and there are {there}. Save it again."
                    )
