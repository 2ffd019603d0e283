"""Frames and arrays in, checked float64 columns out, and back to a frame.

A *frame* is a pandas, polars, pyarrow, modin or cuDF table (a polars LazyFrame is collected); everything
else is read with `numpy.asarray`. Nothing here imports a frame library: narwhals finds the one that is there.
"""

import decimal
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from aligngp.errors import DataError

ARRAY = "array"
"""The kind of a table that came as an array."""

FRAME_KINDS = ("pandas", "polars", "pyarrow", "modin", "cudf")
"""The kinds of frames that can be read and written."""

_LARGEST_EXACT = 2**53  # every integer up to here is a float64
_ROWS_AT_ONCE = 8192  # that are looked at for NaN


@dataclass(frozen=True, eq=False)
class Table:
    """Named numeric columns: `values` (N, D) float64, a name a column, and the kind of thing they came in."""

    names: tuple[str, ...]
    values: np.ndarray
    kind: str


def open_frame(data: Any, task: str) -> nw.DataFrame[Any] | None:
    """The frame behind `data` with checked column names, or None when `data` is not a frame."""
    try:
        frame = nw.from_native(nw.to_native(data, pass_through=True), pass_through=True)
        if frame is data and hasattr(data, "__arrow_c_stream__") and hasattr(data, "schema"):
            frame = nw.from_arrow(data, backend="pyarrow")  # e.g. a pyarrow RecordBatch
    except DuplicateError as error:
        came = " ".join(str(error).split())
        raise DataError(f"task {task!r}: a duplicate column name. {came}. Rename or drop one of them.") from None
    if isinstance(frame, nw.LazyFrame):
        frame = _collect(frame, task)
    if not isinstance(frame, nw.DataFrame):
        return None
    for name in frame.columns:
        if not isinstance(name, str) or not name:
            raise DataError(
                f"task {task!r}: column names must be non-empty strings, but one is {name!r} "
                f"({type(name).__name__}). Rename it, for example df.columns = [...]."
            )
    return frame


def _collect(frame: nw.LazyFrame[Any], task: str) -> nw.DataFrame[Any]:
    """The rows of a polars LazyFrame; a table in a database is the user's to fetch."""
    kind = frame.implementation.value
    if kind not in FRAME_KINDS:
        raise DataError(
            f"task {task!r}: a lazy {kind} table came, expected rows in memory. "
            "Turn it into a pandas or polars DataFrame or a pyarrow Table first."
        )
    return frame.collect()


def open_series(data: Any) -> nw.Series[Any] | None:
    """The one-column series behind `data`, or None when `data` is not a series."""
    series = nw.from_native(nw.to_native(data, pass_through=True), allow_series=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def did_you_mean(wanted: Any, known: Iterable[str]) -> str:
    """A remark in parentheses that names the known word closest to the wanted one, or nothing."""
    lower = {str(name).lower(): str(name) for name in known}
    close = difflib.get_close_matches(str(wanted).lower(), list(lower), n=1)
    return f" (did you mean {lower[close[0]]!r}?)" if close else ""


def listed(names: Iterable[Any], most: int = 20) -> str:
    """Names in quotes, separated by commas, cut after `most`."""
    all_names = [repr(name) for name in names]
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return (", ".join(all_names[:most]) or "none") + more


def read_columns(frame: nw.DataFrame[Any], names: Sequence[str], task: str, hint: str = "") -> Table:
    """The named columns of a frame as finite numbers (N, D), in the order of `names`; others are not read."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        wanted = ", ".join(repr(name) + did_you_mean(name, frame.columns) for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise DataError(
            f"task {task!r}: missing column{plural} {wanted}. The frame has {listed(frame.columns)}."
            f"{hint or ' Add what is missing, or rename what is there.'}"
        )
    values = np.empty((len(frame), len(names)))
    for d, name in enumerate(names):
        values[:, d] = _series_values(frame[name], task, name)
    check_finite(values, names, task)
    return Table(tuple(names), values, frame.implementation.value)


def read_array(data: Any, task: str, label: str, copy: bool = True) -> tuple[np.ndarray, str]:
    """Numbers of any shape as float64, and the kind they came in; not yet checked for NaN.

    Without ``copy`` a float64 array is returned as it is: rows that are read once need no second place in memory.
    """
    series = open_series(data)
    if series is not None:
        return _series_values(series, task, label), series.implementation.value
    if isinstance(data, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(data)
        # NumPy drops the mask of a masked array without a word; a masked value is a missing one here.
        return np.where(missing, np.nan, _float64(np.asarray(data), task, label)), ARRAY
    try:
        raw = np.asarray(data)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"task {task!r}: {label} is not an array of numbers ({type(data).__name__}: {error}). "
            "Pass rows of equal length."
        ) from None
    return _float64(raw, task, label, copy), ARRAY


def read_vector(data: Any, task: str, label: str) -> np.ndarray:
    """One finite number a row (N,), from an array (N,) or (N, 1), a series, or a frame of one column."""
    frame = open_frame(data, task)
    if frame is not None:
        if len(frame.columns) != 1:
            raise DataError(
                f"task {task!r}: {label} must be one column, but a frame with columns "
                f"{listed(frame.columns)} came. Pass one of its columns."
            )
        data = frame[frame.columns[0]]
    values, _ = read_array(data, task, label)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(
            f"task {task!r}: {label} has shape {values.shape}, expected (n,) or (n, 1). "
            "Pass one output a task; several outputs are several tasks."
        )
    check_finite(values[:, None], [label], task)
    return values


def check_finite(values: np.ndarray, names: Sequence[str], task: str) -> None:
    """Raise DataError when a column of `values` (N, D) holds NaN, an infinity or a missing value."""
    if all(np.isfinite(values[at : at + _ROWS_AT_ONCE]).all() for at in range(0, len(values), _ROWS_AT_ONCE)):
        return
    finite = np.isfinite(values)
    bad = [d for d in range(len(names)) if not finite[:, d].all()]
    rows = np.flatnonzero(~finite[:, bad[0]])
    others = f"; so is {listed(names[d] for d in bad[1:])}" if len(bad) > 1 else ""
    raise DataError(
        f"task {task!r}: column {names[bad[0]]!r} is missing, NaN or infinite in {len(rows)} of "
        f"{len(values)} rows, first in row {rows[0]} (counted from 0){others}. "
        "Drop these rows or fill in their values."
    )


def to_native(columns: Mapping[str, Any], kind: str) -> Any:
    """A DataFrame of that kind with these columns, each (N,); a pyarrow Table when the kind is "array"."""
    backend = "pyarrow" if kind == ARRAY else kind
    if backend not in FRAME_KINDS:
        raise DataError(f"cannot build a DataFrame of kind {kind!r}, expected one of {listed((ARRAY, *FRAME_KINDS))}.")
    try:
        return nw.from_dict({name: np.asarray(c) for name, c in columns.items()}, backend=backend).to_native()
    except ModuleNotFoundError:
        raise DataError(
            f"cannot build a DataFrame of kind {kind!r} because it is not installed. "
            f"Install it, or use the kind {ARRAY!r} for a pyarrow Table."
        ) from None


def _series_values(series: nw.Series[Any], task: str, column: str) -> np.ndarray:
    """A series as float64 (N,), NaN where a value is missing."""
    missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
    values = np.full(len(missing), np.nan)
    if missing.all():  # also a column without rows: it has no values that could be of a wrong type
        return values
    dtype = series.dtype
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        native = series.to_native()
        found = str(getattr(native, "dtype", getattr(native, "type", dtype)))
        raise _not_numeric(task, column, found, _first_text(series) + _frame_advice(dtype))
    present = series.drop_nulls()
    if dtype.is_decimal():
        values[~missing] = _exact_decimals(present.to_list(), task, column)
    elif dtype in (nw.Int128, nw.UInt128):
        values[~missing] = _exact_integers(present.to_list(), task, column)
    else:
        values[~missing] = _float64(present.to_numpy(), task, column)
    return values


def _float64(raw: np.ndarray, task: str, column: str, copy: bool = True) -> np.ndarray:
    """A float64 array of the same shape and the same numbers, a new one where ``copy`` asks for it."""
    kind = raw.dtype.kind
    # JAX's bfloat16 and its like are void types to NumPy, but they cast safely.
    if kind not in "biuf" and not (kind == "V" and np.can_cast(raw.dtype, np.float64)):
        raise _not_numeric(task, column, str(raw.dtype), _ARRAY_ADVICE.get(kind, _ADVICE_OTHER))
    if kind in "iu" and raw.size and raw.dtype.itemsize == 8:
        large = raw[(raw > _LARGEST_EXACT) | (raw < -_LARGEST_EXACT)]
        _exact_integers(large.tolist(), task, column)
    with np.errstate(over="ignore"):  # what a long double holds beyond float64 becomes inf and is reported as such
        return np.array(raw, dtype=np.float64, copy=True if copy else None)


def _exact_integers(numbers: list[int], task: str, column: str) -> list[float]:
    """Python integers as floats that hold the same numbers."""
    floats = [float(number) for number in numbers]
    for number, value in zip(numbers, floats, strict=True):
        if int(value) != number:
            raise _inexact(task, column, number)
    return floats


def _exact_decimals(numbers: list[decimal.Decimal], task: str, column: str) -> list[float]:
    """Decimals as the floats that print as the same decimals."""
    floats = [float(number) for number in numbers]
    for number, value in zip(numbers, floats, strict=True):
        if decimal.Decimal(repr(value)) != number:
            raise _inexact(task, column, number)
    return floats


def _inexact(task: str, column: str, number: Any) -> DataError:
    """The error for a number with more digits than a float64."""
    return DataError(
        f"task {task!r}: column {column!r} holds {number}, which has more digits than a float64. "
        "Subtract an offset, or cast the column to float64 yourself if the rounding does not matter."
    )


def _not_numeric(task: str, column: str, found: str, advice: str) -> DataError:
    """The error for a column that does not hold numbers."""
    return DataError(
        f"task {task!r}: column {column!r} has dtype {found}, expected numbers (integers, floats or booleans). {advice}"
    )


_ADVICE_TEXT = "Encode it as numbers, for example a 0/1 column a category, or leave it out."
_ADVICE_TIME = "Turn it into a number, for example seconds since the first row, or leave it out."
_ADVICE_NESTED = "Make a numeric column of each element, or leave it out."
_ADVICE_OTHER = "Cast it to float64 or leave it out."
_ARRAY_ADVICE = {**dict.fromkeys("UST", _ADVICE_TEXT), **dict.fromkeys("Mm", _ADVICE_TIME)}


def _first_text(series: nw.Series[Any]) -> str:
    """Say which cell of a column of text is the first that is no number: often one cell spoils a column."""
    if series.dtype != nw.String:
        return ""
    for row, cell in enumerate(series.to_list()):
        if cell is not None:
            try:
                float(cell)
            except ValueError:
                return f"It holds {cell[:40]!r} in row {row} (counted from 0). "
    return ""


def _frame_advice(dtype: Any) -> str:
    """What to do about a frame's column of this narwhals dtype."""
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return _ADVICE_TEXT
    if dtype.is_temporal():
        return _ADVICE_TIME
    return _ADVICE_NESTED if dtype.is_nested() else _ADVICE_OTHER
