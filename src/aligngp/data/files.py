"""Files in and out: CSV, Parquet, Feather, Excel and NPZ as pyarrow Tables. Nothing is ever unpickled.

What is read is a table with distinct, non-empty column names; whether its columns hold numbers is checked where they
are used (see :mod:`aligngp.data.tables`).
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from aligngp.data import excel
from aligngp.data.atomic import replacing
from aligngp.data.delimited import as_delimited, read_delimited
from aligngp.data.sizes import check_archive, check_arrays, check_fits
from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {
    ".csv": "a CSV file",
    ".tsv": "a file of tab-separated values",
    ".parquet": "a Parquet file",
    ".feather": "a Feather file",
    ".arrow": "an Arrow file",
    ".xlsx": "an Excel workbook",
    ".npz": "a NumPy archive",
}
"""Suffixes that are read and written, and what such a file is."""


def read_table(path: str | os.PathLike[str], sheet: str | None = None) -> pa.Table:
    """Return the table in a file, by its suffix; ``sheet`` picks one of an Excel workbook, default its first.

    A NumPy archive holds an array (N,) a column, or ``X`` (N, D) and ``y`` (N,), whose columns become x1..xD and y.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, aligngp as agp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     agp.write_table(pa.table({"x": [1, 2], "zeta": [0.5, 0.7]}), f"{folder}/fine.csv")
    ...     agp.read_table(f"{folder}/fine.csv").to_pydict()
    {'x': [1, 2], 'zeta': [0.5, 0.7]}
    """
    source = Path(path)
    if source.is_dir():
        raise DataError(f"{source}: this is a folder. Name a file in it.")
    suffix = check_suffix(source)
    _check_there(source)
    if sheet is not None and suffix != ".xlsx":
        raise DataError(f"{source}: sheet={sheet!r} is for Excel workbooks, and this is {SUFFIXES[suffix]}. Remove it.")
    with _reading(source, suffix):
        return _checked(_read(source, suffix, sheet), source)


def parse_csv(content: bytes, name: str) -> pa.Table:
    """Return the table of a CSV file that is at hand as bytes; ``name`` is what errors call it."""
    with _reading(Path(name), ".csv"):
        return _checked(read_delimited(Path(name), content=content), Path(name))


def write_table(frame: Any, path: str | os.PathLike[str]) -> None:
    """Write a pandas, polars or pyarrow table by the path's suffix: complete under its final name, or not at all."""
    target = Path(path)
    check_target(target)
    try:
        table = nw.from_native(frame, eager_only=True).to_arrow()
        with replacing(target) as file:
            _write(table, file, target)
    except (DataError, OSError, MemoryError):
        raise
    except Exception as error:  # other libraries raise what they like
        raise DataError(
            f"{target}: this table cannot be written as {SUFFIXES[target.suffix.lower()]} ({_told(error)})."
        ) from error


def check_suffix(path: Path) -> str:
    """Return the suffix of a file that can be read and written, in lower case, or raise."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        advice = " Save it as .xlsx in Excel." if suffix == ".xls" else ""
        came = f"the suffix {suffix!r}{did_you_mean(suffix, SUFFIXES)}" if suffix else "no suffix"
        raise DataError(f"{path}: a file with {came} cannot be read or written; use one of {listed(SUFFIXES)}.{advice}")
    return suffix


def check_target(path: Path) -> None:
    """Raise where no table can be written under a name."""
    if check_suffix(path) == ".xlsx":
        excel.check_installed(path)
    if not path.parent.is_dir():
        raise DataError(f"{path}: cannot be written, the folder {path.parent} does not exist. Make it first.")
    if path.is_dir():
        raise DataError(f"{path}: cannot be written, this is a folder. Name a file.")


def missing_file(path: Path) -> str:
    """Return the sentence about a file that is not there, with the closest name in its folder."""
    if not path.parent.is_dir():
        return f"{path}: there is no such file, not even the folder {path.parent}."
    near = did_you_mean(path.name, sorted(file.name for file in path.parent.iterdir() if file.is_file()))
    return f"{path}: there is no such file{near}."


@contextmanager
def _reading(source: Path, suffix: str) -> Iterator[None]:
    """Turn whatever the parsers of other libraries raise into one clear error."""
    try:
        yield
    except (DataError, PermissionError, MemoryError, Warning):
        raise
    except Exception as error:
        raise DataError(
            f"{source}: cannot be read as {SUFFIXES[suffix]} ({_told(error)}). It may be damaged, or have the "
            "suffix of another format; write it again."
        ) from error


def _check_there(source: Path) -> None:
    if not source.exists():
        raise DataError(f"{missing_file(source)} Check the name and the folder.")
    if source.stat().st_size == 0:
        raise DataError(f"{source}: the file is empty. Write the table again.")


def _read(source: Path, suffix: str, sheet: str | None) -> pa.Table:
    check_fits(source, source.stat().st_size)
    if suffix in (".csv", ".tsv"):
        return read_delimited(source, "\t" if suffix == ".tsv" else None)
    if suffix == ".parquet":
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(source) as file:  # and not read_table, which reads folder names as columns
            check_fits(source, 8 * file.metadata.num_rows * file.metadata.num_columns)
            return file.read()
    if suffix == ".xlsx":
        if zipfile.is_zipfile(source):
            check_archive(source)
        return excel.read_sheet(source, sheet)
    return _read_npz(source) if suffix == ".npz" else _read_arrow(source)


def _read_arrow(source: Path) -> pa.Table:
    """Return a table in Arrow's own format (Feather is the same), written as a file or as a stream."""
    import pyarrow as pa

    with pa.OSFile(str(source), "rb") as file:
        try:
            return pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            return pa.ipc.open_stream(file).read_all()


def _read_npz(source: Path) -> pa.Table:
    import pyarrow as pa

    if not zipfile.is_zipfile(source):  # else np.load would try what it may not do, and advise to allow it
        raise ValueError("not a zip file")
    check_archive(source)
    check_arrays(source)
    columns: dict[str, np.ndarray] = {}
    with np.load(source, allow_pickle=False) as archive:
        for name in archive.files:
            try:
                columns[name] = archive[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                raise DataError(
                    f"{source}: array {name!r} holds Python objects, which are not read because they can run code. "
                    "Save numbers."
                ) from None
    if set(columns) in ({"X", "y"}, {"X"}):
        columns = _pair(source, columns)
    for name, values in columns.items():
        if values.ndim != 1:
            raise DataError(
                f"{source}: array {name!r} has shape {values.shape}, expected (n,): an array a column, or 'X' of shape "
                "(n, d) and 'y' of shape (n,) and nothing else."
            )
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise DataError(f"{source}: its arrays have different numbers of rows ({told}). Save one value a row in each.")
    # Copied in the machine's byte order, which is the only one that Arrow knows.
    return pa.table({name: values.astype(values.dtype.newbyteorder("=")) for name, values in columns.items()})


def _pair(source: Path, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns x1..xD, y of a matrix X and a vector y."""
    X = columns["X"][:, None] if columns["X"].ndim == 1 else columns["X"]
    if X.ndim != 2:
        raise DataError(f"{source}: array 'X' has shape {X.shape}, expected (n,) or (n, number of inputs).")
    named = {f"x{d + 1}": X[:, d] for d in range(X.shape[1])}
    if "y" in columns:
        y = columns["y"]
        named["y"] = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    return named


def _checked(table: pa.Table, source: Path) -> pa.Table:
    """Return a table without what is no column, its names trimmed; raise where one is missing or stands twice."""
    names = [name.strip() for name in table.column_names]
    # What follows a last separator, and the index that pandas writes when it has no name.
    extra = [
        at
        for at, name in enumerate(names)
        if (not name and table.column(at).null_count == table.num_rows) or _is_index(name)
    ]
    table = table.rename_columns(names).select([at for at in range(len(names)) if at not in extra])
    unnamed = [at for at, name in enumerate(names) if not name and at not in extra]
    if unnamed:
        raise DataError(
            f"{source}: column {unnamed[0] + 1} has no name. Name it or delete it (pandas writes its index as such a "
            "column: to_csv(..., index=False))."
        )
    twice = [name for name, times in Counter(table.column_names).items() if times > 1]
    if twice:
        raise DataError(f"{source}: there are several columns of the name {listed(twice)}. Name every one differently.")
    if not table.num_columns:
        raise DataError(f"{source}: there is no column. Write the table again.")
    return table


def _is_index(name: str) -> bool:
    return name.startswith("__index_level_") and name.endswith("__")


def _write(table: pa.Table, file: IO[bytes], target: Path) -> None:
    suffix = target.suffix.lower()
    if suffix in (".csv", ".tsv"):
        file.write(as_delimited(table, "\t" if suffix == ".tsv" else ","))
    elif suffix == ".parquet":
        import pyarrow.parquet as parquet

        parquet.write_table(table, file)
    elif suffix == ".xlsx":
        excel.write_sheet(table, file, target)
    elif suffix == ".npz":
        _write_npz(table, file, target)
    else:
        import pyarrow as pa

        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)


def _write_npz(table: pa.Table, file: IO[bytes], target: Path) -> None:
    """Write an array a column; by hand, because np.savez cannot have a column that is called 'file'."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        for name in table.column_names:
            values = table.column(name).to_numpy()
            if values.dtype.kind == "O":
                cells = table.column(name).to_pylist()
                if not all(isinstance(cell, str) for cell in cells):
                    raise DataError(
                        f"{target}: column {name!r} ({table.column(name).type}) is neither numbers nor text without "
                        "gaps, which is what a NumPy archive holds. Use another suffix, or leave the column out."
                    )
                values = np.array(cells, dtype=str)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as one:
                np.lib.format.write_array(one, values, allow_pickle=False)


def _told(error: BaseException) -> str:
    """Return what another library says, in one line."""
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
