"""Tasks whose rows stand in Parquet: a file, a folder, a glob or a URL; what their footers tell, and one row group."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from aligngp.data.tables import did_you_mean, listed, read_columns
from aligngp.errors import AligngpError, DataError, MissingPackageError, SettingError

if TYPE_CHECKING:
    import pyarrow.parquet as parquet

STREAMED_ABOVE = 2**28
"""Bytes of a dataset's values in memory (8 a number) above which it is streamed unless told otherwise."""
LARGEST_GROUP = 2**28
"""Most bytes of the values of one row group that are held: what bounds the memory, whatever the number of rows."""
_WHOLE, _PIECES, _PIECE = 2**26, 256, 2**16
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, eq=False)
class Parquet:
    """A task in Parquet: a file, a folder of files, a glob such as ``"runs/*.parquet"``, or a URL that fsspec opens.

    ``output`` names the output column, ``inputs`` pick and order the others (default all). ``stream=None`` reads what
    takes at most 256 MiB into memory; more is streamed in shuffled batches, whatever the number of rows. ``shards``
    parts of the row groups each give their part of every batch, so that as many processes can read one of them each.
    ``mapping`` and ``noise`` are those of :class:`aligngp.Task`.
    """

    path: str | os.PathLike[str]
    output: str | None = None
    inputs: Sequence[str] | None = None
    mapping: Any = None
    noise: float | None = None
    stream: Any = None
    shards: int = 1

    def __post_init__(self) -> None:
        if self.stream not in (True, False, None):
            raise SettingError(f"Parquet(stream=...): expected True, False or None, got {self.stream!r}.")
        if isinstance(self.shards, bool) or not isinstance(self.shards, int) or self.shards < 1:
            raise SettingError(f"Parquet(shards=...): expected a whole number >= 1, got {self.shards!r}.")


@dataclass(frozen=True, eq=False)
class Dataset:
    """The files of a task, the columns that are read of them, and their row groups."""

    task: str
    files: tuple[str, ...]
    columns: tuple[str, ...]
    """Inputs in order, then the output where there is one."""
    groups: np.ndarray
    """File, row group in it and its number of rows, (G, 3); groups without rows are left out."""

    @property
    def rows(self) -> int:
        """Return the number of all rows."""
        return int(self.groups[:, 2].sum())

    @property
    def bytes(self) -> int:
        """Return the bytes of all values as float64."""
        return 8 * self.rows * len(self.columns)

    def read(self, group: int) -> np.ndarray:
        """Return the finite values (rows, columns) of a row group; no more than one column is held twice."""
        file, number, rows = (int(part) for part in self.groups[group])
        values = np.empty((rows, len(self.columns)))
        with opened(self.files[file], self.task) as source, _of(self.files[file], number):
            if number >= source.num_row_groups or source.metadata.row_group(number).num_rows != rows:
                raise DataError("the file was changed while it was read. Do not write to it during a fit.")
            for d, column in enumerate(self.columns):
                table = source.read_row_group(number, columns=[column], use_threads=False)
                if table.num_rows != rows:
                    raise DataError(f"column {column!r} has {table.num_rows} values, its footer says {rows}.")
                values[:, d] = read_columns(nw.from_native(table), [column], self.task).values[:, 0]
        return values

    def fingerprint(self) -> str:
        """Return a checksum of the columns and of every file's name, size and contents.

        Of a file of more than 64 MiB it is the footer, which holds sizes, places and ranges of all column chunks, and
        pieces from all over the file: another table has others, and the whole need not be read.
        """
        digest = hashlib.sha256(repr(self.columns).encode())
        for file in self.files:
            with opened_bytes(file, self.task) as source:
                size = source.seek(0, os.SEEK_END)
                digest.update(f"{Path(file).name} {size}".encode())
                source.seek(max(0, size - 8))
                footer = 8 + int.from_bytes(source.read(8)[:4], "little")
                starts = range(0, size, _PIECE if size <= _WHOLE else max(_PIECE, size // _PIECES))
                for start, length in (*((start, _PIECE) for start in starts), (max(0, size - footer), footer)):
                    source.seek(start)
                    digest.update(source.read(min(length, LARGEST_GROUP)))
        return digest.hexdigest()


def is_dataset(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path stands for Parquet: a URL, a glob, a folder, or a file of that suffix."""
    text = os.fspath(path)
    if is_url(text) or Path(text).is_dir() or text.lower().endswith(".parquet"):
        return True
    return _WILD.search(text) is not None and not Path(text).is_file()


def is_url(path: str | os.PathLike[str]) -> bool:
    """Tell a URL from a path."""
    return _URL.match(os.fspath(path)) is not None


def open_dataset(spec: Parquet, task: str, output: str | None = None) -> Dataset:
    """Return a task's dataset, its files and columns checked by their footers alone."""
    files = find_files(spec.path, task)
    target = spec.output or output
    columns: tuple[str, ...] = ()
    groups = []
    for at, file in enumerate(files):
        with opened(file, task) as source, _of(file):
            names = source.schema_arrow.names
            if at == 0:
                columns = _columns(task, names, spec.inputs, target)
            missing = [name for name in columns if name not in names]
            if missing:
                hint = did_you_mean(missing[0], names)
                raise DataError(
                    f"task {task!r}: missing column {missing[0]!r}{hint}; the file has {listed(names)}. Every file "
                    "needs the columns of the first."
                )
            groups += [(at, number, _group_rows(source, number, columns)) for number in range(source.num_row_groups)]
    found = np.array([group for group in groups if group[2]], dtype=np.int64).reshape(-1, 3)
    if not len(found):
        raise DataError(f"task {task!r}: there is no row in {os.fspath(spec.path)}. Pass at least one.")
    return Dataset(task, tuple(files), columns, found)


def find_files(path: str | os.PathLike[str], task: str) -> list[str]:
    """Return the files that a path stands for, in the order of their names."""
    text = os.fspath(path)
    if is_url(text):
        system, inside = _filesystem(text, task)
        with _reading(text):
            if _WILD.search(inside):
                found = system.glob(inside)
            elif system.isdir(inside):
                found = [name for name in system.find(inside) if name.lower().endswith(".parquet")]
            else:
                found = [inside] if system.exists(inside) else []
        # A name of its own protocol each, so that a file can be opened from its name alone.
        found = [system.unstrip_protocol(name) for name in found]
    elif Path(text).is_dir():
        found = [str(file) for file in Path(text).rglob("*") if file.suffix.lower() == ".parquet" and file.is_file()]
    elif Path(text).is_file():
        found = [text]
    else:
        found = [name for name in glob.glob(text, recursive=True) if Path(name).is_file()]
    if not found:
        what = "this folder has no Parquet file" if Path(text).is_dir() else "there is no such Parquet file"
        raise DataError(f"task {task!r}: {text}: {what}. Check the name and the folder.")
    return sorted(found)


def stored_columns(spec: Parquet, task: str) -> list[str]:
    """The columns of a dataset, by the footer of its first file."""
    with opened(find_files(spec.path, task)[0], task) as file:
        return list(file.schema_arrow.names)


@contextmanager
def opened(file: str, task: str) -> Iterator[parquet.ParquetFile]:
    """Give a Parquet file, read from disk as it is asked for; what Arrow says becomes one clear error."""
    import pyarrow.parquet as parquet

    with opened_bytes(file, task) as source, _reading(file), parquet.ParquetFile(source, pre_buffer=False) as found:
        yield found


@contextmanager
def opened_bytes(file: str, task: str) -> Iterator[IO[bytes]]:
    """Give the bytes of a local file or of a URL."""
    if is_url(file):
        system, inside = _filesystem(file, task)
        with _reading(file):
            remote = system.open(inside, "rb")
        with remote:
            yield remote
        return
    try:
        local = open(file, "rb")
    except OSError as error:
        raise DataError(f"{file}: cannot be opened ({error.strerror}). Check the name and the folder.") from error
    with local:
        yield local


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Turn what other libraries raise into one clear error."""
    try:
        yield
    except (AligngpError, MemoryError, Warning):
        raise
    except Exception as error:
        told = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise DataError(
            f"{file}: cannot be read as a Parquet file ({told}). It may be damaged, or have the suffix of another "
            "format; write it again."
        ) from error


@contextmanager
def _of(file: str, group: int | None = None) -> Iterator[None]:
    """Let an error name the file and the row group, in which rows are counted."""
    try:
        yield
    except DataError as error:
        where = "" if group is None else f", row group {group} (rows are counted in it)"
        raise DataError(f"{file}{where}: {error}") from None


def _columns(task: str, names: Sequence[str], inputs: Sequence[str] | None, output: str | None) -> tuple[str, ...]:
    """Return the input columns and the output of a task."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"task {task!r}: there are several columns of the name {listed(twice)}. Rename them.")
    if output is None:
        raise DataError(f"task {task!r}: which column is the output? Pass output= with one of {listed(names)}.")
    if output not in names:
        raise DataError(
            f"task {task!r}: the output column {output!r} is not there{did_you_mean(output, names)}. The file has "
            f"{listed(names)}. Name one of them."
        )
    if inputs is not None and (isinstance(inputs, str) or not inputs or output in inputs):
        raise DataError(f"task {task!r}: inputs must be a list of columns without the output, got {inputs!r}.")
    others = tuple(name for name in names if name != output and not _is_index(name))
    chosen = others if inputs is None else tuple(inputs)
    if not chosen:
        raise DataError(f"task {task!r}: there is no input column. Pass at least one besides the output.")
    return (*chosen, output)


def _is_index(name: str) -> bool:
    """Tell the index that pandas writes when it has no name."""
    return name.startswith("__index_level_") and name.endswith("__")


def _group_rows(source: parquet.ParquetFile, number: int, columns: Sequence[str]) -> int:
    """Return the rows of a row group; raise where its values would take more memory than a stream may."""
    group = source.metadata.row_group(number)
    held = 8 * group.num_rows * len(columns)
    packed = max((group.column(c).total_uncompressed_size for c in range(group.num_columns)), default=0)
    if held > LARGEST_GROUP or packed > LARGEST_GROUP:
        raise DataError(
            f"row group {number} has {group.num_rows} rows, whose {len(columns)} columns take "
            f"{max(held, packed) / 2**20:.0f} MiB; at most {LARGEST_GROUP >> 20} MiB of one row group are held. Write "
            "the file again with smaller ones, for example "
            "pyarrow.parquet.write_table(table, path, row_group_size=100_000)."
        )
    return group.num_rows


def _filesystem(url: str, task: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URL and the path in it."""
    try:
        import fsspec.core
    except ModuleNotFoundError:
        raise MissingPackageError(
            f"task {task!r}: {url}: URLs are opened by the package fsspec. Install it: pip install 'aligngp[remote]'."
        ) from None
    with _reading(url):
        return fsspec.core.url_to_fs(url)
