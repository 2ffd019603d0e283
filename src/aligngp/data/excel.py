"""Excel workbooks: one sheet, its first row holding the column names. Needs openpyxl (the extra ``excel``)."""

from __future__ import annotations

import importlib.util
import math
import warnings
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 1_048_576
"""Rows that a sheet can have, its column names included."""


def check_installed(path: Path) -> None:
    """Raise where openpyxl is not installed."""
    if importlib.util.find_spec("openpyxl") is None:
        raise DataError(f"{path}: Excel workbooks need openpyxl. Install it: pip install 'aligngp[excel]'.")


def read_sheet(source: Path, sheet: str | None) -> pa.Table:
    """Return a sheet (default the first) as a table; formulas are the values that Excel last computed."""
    check_installed(source)
    from openpyxl import load_workbook

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of charts and such, which are not read
        book = load_workbook(source, read_only=True, data_only=True)
        try:
            rows = [list(row) for row in _pick(source, book, sheet).iter_rows(values_only=True)]
        finally:
            book.close()
    rows = [row for row in rows if any(cell is not None for cell in row)]
    if not rows:
        raise DataError(f"{source}: the sheet is empty. Write the column names into its first row and the table below.")
    width = max(len(row) for row in rows)
    names, *cells = [row + [None] * (width - len(row)) for row in rows]
    return _table(["" if name is None else str(name) for name in names], list(map(list, zip(*cells, strict=True))))


def write_sheet(table: pa.Table, file: IO[bytes], target: Path) -> None:
    """Write a table as the only sheet of a workbook: 16 digits of a number, an empty cell for NaN and infinity."""
    from openpyxl import Workbook

    if table.num_rows >= _MOST_ROWS:
        raise DataError(
            f"{target}: {table.num_rows} rows are more than a sheet of Excel can have. Write .csv or .parquet."
        )
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Table")
    sheet.append(table.column_names)
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        sheet.append([None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row])
    book.save(file)


def _pick(source: Path, book: Any, sheet: str | None) -> Any:
    # Not book.worksheets: that has no place for charts on sheets of their own.
    sheets = {one.title: one for one in book.worksheets}
    if not sheets:
        raise DataError(f"{source}: there is no sheet with cells in it.")
    if sheet is None:
        return next(iter(sheets.values()))
    if sheet not in sheets:
        raise DataError(
            f"{source}: there is no sheet {sheet!r}{did_you_mean(sheet, sheets)}. The sheets are {listed(sheets)}."
        )
    return sheets[sheet]


def _table(names: list[str], columns: list[list[Any]]) -> pa.Table:
    """Return a table from names and cells; a column of mixed kinds becomes text, for the reader to be told of it."""
    import pyarrow as pa

    arrays = []
    for cells in columns or [[] for _ in names]:
        try:
            arrays.append(pa.array(cells))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            arrays.append(pa.array([None if cell is None else str(cell) for cell in cells]))
    return pa.table(arrays, names=names)
