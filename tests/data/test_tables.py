"""Frames of every kind and arrays become the same checked float64 columns."""

import datetime
import re
from decimal import Decimal
from typing import Any

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aligngp.data import tables
from aligngp.data.tables import open_frame, open_series, read_array, read_columns, to_native
from aligngp.errors import DataError

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
kinds = pytest.mark.parametrize("kind", list(FRAMES))


def read(data: Any, names: list[str], task: str = "fine") -> tables.Table:
    frame = open_frame(data, task)
    assert frame is not None
    return read_columns(frame, names, task)


@kinds
def test_columns_are_picked_by_name_in_the_asked_order(kind):
    table = read(FRAMES[kind]({"a": [1, 2], "b": [0.5, -0.5], "text": ["u", "v"], "c": [True, False]}), ["c", "a", "b"])
    assert (table.names, table.kind) == (("c", "a", "b"), kind)
    assert table.values.dtype == np.float64
    np.testing.assert_array_equal(table.values, [[1.0, 1.0, 0.5], [0.0, 2.0, -0.5]])


def test_other_doors_to_a_frame():
    for data, kind in [
        (pl.LazyFrame({"a": [3, 4]}), "polars"),
        (pa.record_batch({"a": [3, 4]}), "pyarrow"),
        (narwhals.from_native(pd.DataFrame({"a": [3, 4]})), "pandas"),
    ]:
        table = read(data, ["a"])
        assert table.kind == kind
        np.testing.assert_array_equal(table.values, [[3.0], [4.0]])


@pytest.mark.parametrize("data", [np.eye(2), [1, 2], ([1], [2]), {"a": [1]}, None, "a", pd.Series([1]), pa.array([1])])
def test_what_is_not_a_frame(data):
    assert open_frame(data, "fine") is None


def test_a_lazy_table_of_a_database_is_refused(monkeypatch):
    monkeypatch.setattr(tables, "FRAME_KINDS", ("pandas",))
    with pytest.raises(DataError, match=r"task 'fine': a lazy polars table came.*Turn it into"):
        open_frame(pl.LazyFrame({"a": [1]}), "fine")


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), pa.table([[1], [2], [3]], names=["a", "b", "a"])],
    ids=["pandas", "pyarrow"],
)
def test_duplicate_column_names(frame):
    with pytest.raises(DataError, match=r"task 'fine'.*duplicate column name.*'a' 2 times"):
        open_frame(frame, "fine")


@pytest.mark.parametrize("columns", [[0, 1], ["a", ""], pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])])
def test_column_names_must_be_strings(columns):
    with pytest.raises(DataError, match="task 'fine': column names must be non-empty strings"):
        open_frame(pd.DataFrame(np.eye(2), columns=columns), "fine")


@kinds
def test_missing_columns_are_named_with_the_closest(kind):
    frame = open_frame(FRAMES[kind]({"Speed": [1.0], "angle": [2.0]}), "fine")
    assert frame is not None
    message = "missing columns 'speed' (did you mean 'Speed'?), 'mass'. The frame has 'Speed', 'angle'. Look!"
    with pytest.raises(DataError, match=re.escape(message)):
        read_columns(frame, ["speed", "angle", "mass"], "fine", " Look!")


PANDAS_ARROW = pd.ArrowDtype(pa.decimal128(5, 2))
EXACT = {
    "pandas Int64": pd.DataFrame({"a": pd.array([1, 2], dtype="Int64")}),
    "pandas Float32": pd.DataFrame({"a": pd.array([1.0, 2.0], dtype="Float32")}),
    "pandas float16": pd.DataFrame({"a": np.array([1, 2], np.float16)}),
    "pandas arrow decimal": pd.DataFrame({"a": pd.array([Decimal(1), Decimal(2)], dtype=PANDAS_ARROW)}),
    "polars UInt8": pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.UInt8)}),
    "polars Int128": pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.Int128)}),
    "polars Decimal": pl.DataFrame({"a": [Decimal("1.00"), Decimal("2.00")]}),
    "pyarrow decimal": pa.table({"a": [Decimal("1.00"), Decimal("2.00")]}),
    "pyarrow float16": pa.table({"a": pa.array(np.array([1, 2], np.float16))}),
}


@pytest.mark.parametrize("frame", EXACT.values(), ids=EXACT.keys())
def test_every_numeric_type_is_read(frame):
    np.testing.assert_array_equal(read(frame, ["a"]).values, [[1.0], [2.0]])


def test_decimals_are_the_floats_that_print_alike():
    np.testing.assert_array_equal(
        read(pl.DataFrame({"a": [Decimal("0.1"), Decimal("-7.25")]}), ["a"]).values[:, 0], [0.1, -7.25]
    )


BEYOND = 2**53 + 1
INEXACT = {
    "pandas": (pd.DataFrame({"id": [1, BEYOND]}), BEYOND),
    "pandas Int64": (pd.DataFrame({"id": pd.array([None, -BEYOND], dtype="Int64")}), -BEYOND),
    "polars UInt64": (pl.DataFrame({"id": pl.Series([2**64 - 1], dtype=pl.UInt64)}), 2**64 - 1),
    "polars Int128": (pl.DataFrame({"id": pl.Series([2**100 + 1], dtype=pl.Int128)}), 2**100 + 1),
    "pyarrow": (pa.table({"id": [BEYOND]}), BEYOND),
    "pyarrow decimal": (pa.table({"id": [Decimal("1.00000000000000000001")]}), "1.00000000000000000001"),
}


@pytest.mark.parametrize(("frame", "number"), INEXACT.values(), ids=INEXACT.keys())
def test_numbers_with_more_digits_than_a_float(frame, number):
    with pytest.raises(DataError, match=f"task 'fine': column 'id' holds {number}, which has more digits"):
        read(frame, ["id"])


def test_large_integers_that_are_floats_are_read():
    numbers = [2**53, -(2**60), 10**16]
    np.testing.assert_array_equal(read(pl.DataFrame({"a": numbers}), ["a"]).values[:, 0], [float(n) for n in numbers])
    with pytest.raises(DataError, match=f"column 'X' holds {BEYOND}"):
        read_array(np.array([[1, BEYOND]]), "fine", "X")


DAY = datetime.date(2020, 1, 1)
NOT_NUMERIC = {
    "pandas text": (pd.DataFrame({"a": ["1"]}), "str|object", "category"),
    "pandas time": (pd.DataFrame({"a": pd.to_datetime(["2020"])}), "datetime64", "seconds"),
    "pandas duration": (pd.DataFrame({"a": pd.to_timedelta([1])}), "timedelta64", "seconds"),
    "pandas category": (pd.DataFrame({"a": pd.Categorical([1])}), "category", "category"),
    "pandas object": (pd.DataFrame({"a": [Decimal(1)]}), "object", "Cast"),
    "pandas complex": (pd.DataFrame({"a": [1j]}), "complex128", "Cast"),
    "polars text": (pl.DataFrame({"a": ["1"]}), "String", "category"),
    "polars enum": (pl.DataFrame({"a": pl.Series(["u"], dtype=pl.Enum(["u"]))}), "Enum", "category"),
    "polars date": (pl.DataFrame({"a": [DAY]}), "Date", "seconds"),
    "polars list": (pl.DataFrame({"a": [[1.0, 2.0]]}), "List", "each element"),
    "polars struct": (pl.DataFrame({"a": [{"b": 1}]}), "Struct", "each element"),
    "pyarrow text": (pa.table({"a": ["1"]}), "string", "category"),
    "pyarrow date": (pa.table({"a": [DAY]}), "date32", "seconds"),
    "pyarrow dictionary": (pa.table({"a": pa.array(["u"]).dictionary_encode()}), "dictionary", "category"),
}


@pytest.mark.parametrize(("frame", "dtype", "advice"), NOT_NUMERIC.values(), ids=NOT_NUMERIC.keys())
def test_columns_that_are_not_numbers(frame, dtype, advice):
    with pytest.raises(DataError, match=rf"task 'fine': column 'a' has dtype ({dtype}).*expected numbers.*{advice}"):
        read(frame, ["a"])


MISSING = {
    "pandas NaN": pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, np.nan, np.inf]}),
    "pandas Int64": pd.DataFrame({"a": [1, 2, 3], "b": pd.array([1, None, None], dtype="Int64")}),
    "pandas boolean": pd.DataFrame({"a": [1, 2, 3], "b": pd.array([True, None, None], dtype="boolean")}),
    "polars null and NaN": pl.DataFrame({"a": [1, 2, 3], "b": [1.0, None, float("nan")]}),
    "polars integers": pl.DataFrame({"a": [1, 2, 3], "b": [2**53, None, None]}),
    "pyarrow null and inf": pa.table({"a": [1, 2, 3], "b": [1.0, None, float("-inf")]}),
    "pyarrow decimal": pa.table({"a": [1, 2, 3], "b": [Decimal(1), None, None]}),
}


@pytest.mark.parametrize("frame", MISSING.values(), ids=MISSING.keys())
def test_missing_and_infinite_values_are_counted(frame):
    message = "task 'fine': column 'b' is missing, NaN or infinite in 2 of 3 rows, first in row 1 (counted"
    with pytest.raises(DataError, match=re.escape(message)):
        read(frame, ["a", "b"])


@kinds
def test_a_column_of_nothing_but_nulls_and_the_other_bad_columns(kind):
    frame = FRAMES[kind]({"a": [None, None], "b": [1.0, 2.0], "c": [1.0, float("nan")]})
    with pytest.raises(DataError, match=r"'a' is missing, NaN or infinite in 2 of 2 rows, first in row 0 .*so is 'c'"):
        read(frame, ["a", "b", "c"])


@kinds
def test_no_rows_are_no_numbers_whatever_the_type(kind):
    table = read(FRAMES[kind]({"a": np.array([], dtype=str), "b": np.array([])}), ["a", "b"])
    np.testing.assert_array_equal(table.values, np.empty((0, 2)))


def test_series_are_recognised():
    series = open_series(pl.Series("a", [1, 2]))
    assert series is not None and series.name == "a"
    assert open_series(np.ones(2)) is None
    assert open_series(pd.DataFrame({"a": [1]})) is None


@pytest.mark.parametrize(("kind", "built"), [*FRAMES.items(), ("array", pa.table)])
def test_frames_are_built_in_the_asked_kind(kind, built):
    frame = to_native({"mean": np.array([1.5, 2.5]), "task": np.array(["u", "v"])}, kind)
    assert isinstance(frame, pa.Table if built is pa.table else built)
    columns = frame.to_pydict() if isinstance(frame, pa.Table) else {name: list(frame[name]) for name in frame.columns}
    assert columns == {"mean": [1.5, 2.5], "task": ["u", "v"]}


def test_frames_that_cannot_be_built():
    with pytest.raises(DataError, match="'excel', expected one of 'array', 'pandas'"):
        to_native({"a": np.ones(1)}, "excel")


def test_a_kind_that_is_not_installed(monkeypatch):
    def absent(*args, **kwargs):
        raise ModuleNotFoundError("No module named 'modin'")

    monkeypatch.setattr(tables.nw, "from_dict", absent)
    with pytest.raises(DataError, match=r"'modin' because it is not installed\. Install it, or use the kind 'array'"):
        to_native({"a": np.ones(1)}, "modin")


def test_long_lists_of_names_are_cut():
    assert tables.listed(["a", "b", "c"], most=2) == "'a', 'b' and 1 more"
    assert tables.listed([]) == "none"


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53), 2**53).map(float),
    st.booleans().map(float),
)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@given(
    data=st.dictionaries(names, st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=4),
    kind=st.sampled_from(list(FRAMES)),
    order=st.randoms(use_true_random=False),
)
def test_a_round_trip_keeps_every_number(data, kind, order):
    frame = to_native({name: np.array(values) for name, values in data.items()}, kind)
    picked = list(data)
    order.shuffle(picked)
    table = read(frame, picked)
    assert (table.names, table.kind) == (tuple(picked), kind)
    np.testing.assert_array_equal(table.values, np.column_stack([data[name] for name in picked]))


@given(
    st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=30),
    st.sampled_from(["polars", "pyarrow"]),
)
def test_bad_rows_are_counted_as_a_loop_counts_them(values, kind):
    bad = [i for i, value in enumerate(values) if value is None or not np.isfinite(value)]
    frame = FRAMES[kind](
        {"a": pa.array(values, type=pa.float64()) if kind == "pyarrow" else pl.Series(values, dtype=pl.Float64)}
    )
    if bad:
        with pytest.raises(DataError, match=rf"in {len(bad)} of {len(values)} rows, first in row {bad[0]} "):
            read(frame, ["a"])
    else:
        np.testing.assert_array_equal(read(frame, ["a"]).values[:, 0], np.array(values))
