"""Text tables as people and programs write them: what stands between cells, decimal commas, encodings, comments."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from aligngp.data.tables import listed
from aligngp.errors import AligngpWarning, DataError

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = ",;\t|"
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_COMMA_NUMBER = re.compile(_NUMBER.pattern.replace(r"\.", ","))
_UNICODE = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def read_delimited(source: Path, separator: str | None = None, content: bytes | None = None) -> pa.Table:
    """Return the table in a text file with a line of column names; commas, semicolons, tabs or bars between cells.

    Where semicolons (tabs, bars) stand between cells, numbers may have decimal commas. ``content`` is the file's, where
    it is at hand already.
    """
    text = _decoded(source, source.read_bytes() if content is None else content)
    if not text.strip():
        raise DataError(f"{source}: the file is empty. Write the table again, with a line of column names.")
    text, told = _without_preamble(text)
    names = text.split("\n", 1)[0]
    separator = separator or told or _separator(names)
    cells = next(csv.reader([names], delimiter=separator))
    if all(_NUMBER.fullmatch(cell.strip()) for cell in cells):
        raise DataError(
            f"{source}: its first line holds the numbers {listed(cells, most=3)}, expected column names. Write them "
            "into a line above."
        )
    table = _parsed(source, text, separator, ".")
    columns = _with_decimal_commas(table)
    if not columns:
        return table
    if separator == ",":
        raise DataError(
            f"{source}: column {columns[0]!r} has decimal commas in a file with commas between cells. Write decimal "
            "points, or put semicolons between cells."
        )
    again = _parsed(source, text, separator, ",")
    points = [
        name
        for name in table.column_names
        if str(table.schema.field(name).type) == "double" and str(again.schema.field(name).type) == "string"
    ]
    if points:
        raise DataError(
            f"{source}: column {columns[0]!r} has decimal commas and column {points[0]!r} decimal points. Write one of "
            "them everywhere."
        )
    return again


def as_delimited(table: pa.Table, separator: str) -> bytes:
    """Return a table as text: a line of column names, quoted only where needed, and a line a row."""
    import pyarrow.csv

    names, rows = io.StringIO(), io.BytesIO()
    csv.writer(names, delimiter=separator, lineterminator="\n").writerow(table.column_names)
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter=separator)
    pyarrow.csv.write_csv(table, rows, options)
    return names.getvalue().encode() + rows.getvalue()


def _decoded(source: Path, content: bytes) -> str:
    """Return a file's text with plain line ends; what is not Unicode is taken for what Excel writes in the West."""
    encoding = next((name for mark, name in _UNICODE.items() if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
        warnings.warn(
            f"{source}: not in UTF-8, read as Windows-1252. Check the column names, or save it as 'CSV UTF-8'.",
            AligngpWarning,
            stacklevel=2,
        )
    if "\0" in text:
        raise DataError(f"{source}: this is not a text file. Check its suffix, or write the table again.")
    return text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")


def _without_preamble(text: str) -> tuple[str, str | None]:
    """Return a text from its column names on, and the separator that Excel's first line ``sep=;`` tells.

    Lines that begin with # are comments; but if numbers follow at once, the last of them has the names (NumPy's way).
    """
    told = re.match(r"sep=(.)\n", text)
    if told:
        text = text[told.end() :]
    comment, start = None, 0
    while text.startswith("#", start):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        comment, start = text[start:end], end + 1
    text = text[start:]
    first = text.split("\n", 1)[0]
    if comment is not None and all(_NUMBER.fullmatch(cell.strip()) for cell in re.split(r"[,;\t|]", first.strip())):
        text = f"{comment.lstrip('#').strip()}\n{text}"
    return text, told[1] if told else None


def _separator(names: str) -> str:
    """Return what stands most often between the cells of a line, a comma where nothing does."""
    unquoted = re.sub(r'"[^"]*"', "", names)
    return max(_SEPARATORS, key=unquoted.count)


def _parsed(source: Path, text: str, separator: str, decimal: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv

    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(text.encode()),
            read_options=pyarrow.csv.ReadOptions(use_threads=False),  # with threads it does not count rows for errors
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values='"' in text),
            convert_options=pyarrow.csv.ConvertOptions(decimal_point=decimal, strings_can_be_null=True),
        )
    except pa.ArrowInvalid as error:
        told = " ".join(str(error).split()).removeprefix("CSV parse error: ")[:200].rstrip(".")
        commas = " Decimal commas need semicolons between cells." if separator == "," else ""
        raise DataError(
            f"{source}: {told}. Every line must have as many cells as the first, with {separator!r} between.{commas}"
        ) from None


def _with_decimal_commas(table: pa.Table) -> list[str]:
    """Return the columns of text that are numbers throughout, some of them with decimal commas."""
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        cells = column.drop_null().to_pylist() if str(column.type) == "string" else []
        if any("," in cell for cell in cells) and all(_COMMA_NUMBER.fullmatch(cell.strip()) for cell in cells):
            found.append(name)
    return found
