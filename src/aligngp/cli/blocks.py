"""Predictions from Parquet to Parquet in blocks: the memory is that of a block, whatever the number of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from aligngp.data.atomic import replacing
from aligngp.data.parquet import find_files, is_dataset, opened
from aligngp.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 65_536
"""Rows of a block, which is a row group of the file that is written."""


def takes(source: str | os.PathLike[str], target: Path) -> bool:
    """Tell whether input and output both are Parquet."""
    return is_dataset(source) and target.suffix.lower() == ".parquet"


def write_in_blocks(
    source: str | os.PathLike[str], target: Path, task: str, predicted: Callable[[pa.Table], pa.Table]
) -> int:
    """Write what is predicted of every block; return the number of rows. The file is complete or not there at all."""
    import pyarrow.parquet as parquet

    rows, writer = 0, None
    with replacing(target) as file:
        try:
            for block in _blocks(source, task):
                try:
                    found = predicted(block)
                except DataError as error:
                    raise DataError(f"{os.fspath(source)}, rows from {rows} on (counted from 0): {error}") from None
                writer = writer or parquet.ParquetWriter(file, found.schema)
                writer.write_table(found.cast(writer.schema))
                rows += block.num_rows
        finally:
            if writer is not None:
                writer.close()
    return rows


def _blocks(source: str | os.PathLike[str], task: str) -> Iterator[pa.Table]:
    """Give the rows of all files in their order, with the columns of the first; where there are none, no row."""
    import pyarrow as pa

    files = find_files(source, task)
    with opened(files[0], task) as file:
        first = file.schema_arrow.remove_metadata()
    some = False
    for name in files:
        with opened(name, task) as file:
            names = file.schema_arrow.names
            if sorted(names) != sorted(first.names):
                raise DataError(f"{name}: its columns {names} are not those of the first file, {first.names}.")
            for batch in file.iter_batches(ROWS, use_threads=False):
                some = True
                yield pa.Table.from_batches([batch]).select(first.names).cast(first)
    if not some:
        yield first.empty_table()
