"""Files that are complete under their final name, or not there at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a new file beside the path, which takes its place once the block has ended without an error."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _settle(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _settle(folder: Path) -> None:
    """Have a folder's new name on disk too, where the system can."""
    if os.name == "nt":
        return
    with suppress(OSError):  # not every file system knows what that is
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8."""
    with replacing(path) as file:
        file.write(text.encode())
