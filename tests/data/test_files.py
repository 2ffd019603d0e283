"""Tables in files: every kind there and back with every value, and a sentence for whatever is wrong with one."""

import os
import sys

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aligngp as agp
from aligngp.data.files import SUFFIXES, check_target, read_table, write_table

COLUMNS = {
    "x 1": [1, -2, 3],
    "ζ": [0.1, 1 / 3, -1e-300],
    "file": ["a", 'b "q", c', "d;e"],
    "good": [True, False, True],
}
TABLE = pa.table(COLUMNS)
suffixes = pytest.mark.parametrize("suffix", SUFFIXES)


@suffixes
@pytest.mark.parametrize("made", [pa.table, pd.DataFrame, pl.DataFrame])
def test_every_kind_there_and_back(tmp_path, suffix, made):
    write_table(made(COLUMNS), tmp_path / f"t{suffix}")
    table = read_table(tmp_path / f"t{suffix}")
    assert table.to_pydict() == COLUMNS
    kinds = [str(table.schema.field(name).type) for name in ("x 1", "ζ", "good")]
    assert kinds == ["int64", "double", "bool"]
    assert os.listdir(tmp_path) == [f"t{suffix}"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_every_float_comes_back_bit_for_bit(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("floats")
    for suffix in SUFFIXES.keys() - {".xlsx"}:
        write_table(pa.table({"a": values}), folder / f"t{suffix}")
        found = read_table(folder / f"t{suffix}").column("a").to_pylist()
        np.testing.assert_array_equal(np.array(found, float), values)


def test_excel_keeps_sixteen_digits(tmp_path):
    values = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
    write_table(pa.table({"a": values}), tmp_path / "t.xlsx")
    np.testing.assert_allclose(read_table(tmp_path / "t.xlsx").column("a").to_numpy(), values, rtol=1e-15)


@suffixes
def test_no_rows_there_and_back(tmp_path, suffix):
    write_table(pa.table({"a": pa.array([], pa.float64()), "b": pa.array([], pa.float64())}), tmp_path / f"t{suffix}")
    assert read_table(tmp_path / f"t{suffix}").to_pydict() == {"a": [], "b": []}


@pytest.mark.parametrize("suffix", [".CSV", ".Parquet", ".XLSX"])
def test_suffixes_in_capitals(tmp_path, suffix):
    write_table(TABLE, tmp_path / f"t{suffix}")
    assert read_table(tmp_path / f"t{suffix}").to_pydict() == COLUMNS


@suffixes
def test_missing_values_come_back_as_missing_or_nan(tmp_path, suffix):
    write_table(pa.table({"a": [1.5, None, 2.5], "b": [1.0, 2.0, 3.0]}), tmp_path / f"t{suffix}")
    first, second, third = read_table(tmp_path / f"t{suffix}").column("a").to_pylist()
    assert (first, third) == (1.5, 2.5)
    assert second is None or np.isnan(second)
    with pytest.raises(agp.DataError, match="task 'fine': column 'a' is missing, NaN or infinite in 1 of 3 rows"):
        agp.AlignedGP().fit({"fine": read_table(tmp_path / f"t{suffix}")}, output="b")


@suffixes
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"t{suffix}"
    write_table(TABLE, path)
    before = path.read_bytes()

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        write_table(pa.table({"a": [1]}), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


# ---- what is wrong with a file -------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_and_the_closest_name(tmp_path):
    (tmp_path / "fine.csv").write_text("a\n1\n")
    with pytest.raises(agp.DataError, match=r"fien\.csv: there is no such file \(did you mean 'fine\.csv'\?\)"):
        read_table(tmp_path / "fien.csv")
    with pytest.raises(agp.DataError, match=r"there is no such file, not even the folder .*nowhere"):
        read_table(tmp_path / "nowhere" / "fine.csv")
    with pytest.raises(agp.DataError, match=r"this is a folder\. Name a file in it"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    "name, told",
    [
        ("t.cvs", r"the suffix '\.cvs' \(did you mean '\.csv'\?\)"),
        ("t.xls", r"the suffix '\.xls' .* Save it as \.xlsx in Excel"),
        ("t", "no suffix"),
    ],
)
def test_an_unknown_suffix(tmp_path, name, told):
    with pytest.raises(agp.DataError, match=rf"{told}.*") as error:
        read_table(tmp_path / name)
    assert "use one of '.csv', '.tsv', '.parquet', '.feather', '.arrow', '.xlsx', '.npz'" in str(error.value)
    with pytest.raises(agp.DataError, match=told):
        write_table(TABLE, tmp_path / name)


@suffixes
def test_an_empty_file(tmp_path, suffix):
    (tmp_path / f"t{suffix}").touch()
    with pytest.raises(agp.DataError, match=r"the file is empty"):
        read_table(tmp_path / f"t{suffix}")


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".xlsx", ".npz"])
@pytest.mark.parametrize("content", ["another format", "cut"])
def test_a_broken_file(tmp_path, suffix, content):
    path = tmp_path / f"t{suffix}"
    write_table(TABLE, path)
    path.write_bytes(b"ARROW1 or another format, who knows" if content == "another format" else path.read_bytes()[:150])
    with pytest.raises(agp.DataError, match=rf"t\{suffix}: cannot be read as an? .*may be damaged") as error:
        read_table(path)
    assert "\n" not in str(error.value)
    assert "pickle" not in str(error.value)


def test_a_target_that_cannot_be(tmp_path):
    with pytest.raises(agp.DataError, match=r"the folder .*nowhere does not exist. Make it first"):
        check_target(tmp_path / "nowhere" / "t.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(agp.DataError, match=r"folder\.csv: cannot be written, this is a folder"):
        check_target(tmp_path / "folder.csv")


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".xlsx"])
def test_a_table_that_the_format_cannot_hold(tmp_path, suffix):
    nested = pa.table({"a": [[1.0, 2.0], [3.0]]})
    with pytest.raises(agp.DataError, match=rf"t\{suffix}: "):
        write_table(nested, tmp_path / f"t{suffix}")
    assert os.listdir(tmp_path) == []


def test_what_is_no_table_is_not_written(tmp_path):
    with pytest.raises(agp.DataError, match=r"t\.csv: this table cannot be written as a CSV file \(.*dict"):
        write_table({"a": [1]}, tmp_path / "t.csv")


def test_a_column_of_text_names_the_first_cell_that_is_none(tmp_path):
    (tmp_path / "t.csv").write_text("x,zeta\n1,2\n2.5,3\n#DIV/0!,4\n")
    with pytest.raises(agp.DataError, match=r"task 'fine': column 'x' .*expected numbers.*holds '#DIV/0!' in row 2 "):
        agp.AlignedGP().fit({"fine": read_table(tmp_path / "t.csv")}, output="zeta")


# ---- what the formats have of their own ----------------------------------------------------------------------------


def test_parquet_is_read_without_the_folders_names_and_pandas_index(tmp_path):
    folder = tmp_path / "case=3"
    folder.mkdir()
    pd.DataFrame({"a": [1.0, 2.0]}, index=[7, 3]).to_parquet(folder / "t.parquet")
    assert "__index_level_0__" in pyarrow.parquet.ParquetFile(folder / "t.parquet").schema_arrow.names
    assert read_table(folder / "t.parquet").to_pydict() == {"a": [1.0, 2.0]}


def test_files_of_pandas_and_polars(tmp_path):
    pl.DataFrame(COLUMNS).write_ipc(tmp_path / "t.feather")
    pl.DataFrame(COLUMNS).write_ipc_stream(tmp_path / "t.arrow")
    pd.DataFrame(COLUMNS).to_excel(tmp_path / "t.xlsx", index=False)
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "t.csv", index=False)
    for suffix in (".feather", ".arrow", ".xlsx", ".csv"):
        assert read_table(tmp_path / f"t{suffix}").to_pydict() == COLUMNS


def test_a_matrix_and_a_vector(tmp_path):
    X, y = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 3.0])
    expected = {"x1": [0.0, 2.0, 4.0], "x2": [1.0, 3.0, 5.0]}
    np.savez(tmp_path / "a.npz", X=X, y=y)
    np.savez_compressed(tmp_path / "b.npz", X=X, y=y[:, None])
    np.savez(tmp_path / "c.npz", X=X)
    np.savez(tmp_path / "d.npz", X=X[:, 0], y=y)
    assert read_table(tmp_path / "a.npz").to_pydict() == {**expected, "y": [1.0, 2.0, 3.0]}
    assert read_table(tmp_path / "b.npz").to_pydict() == {**expected, "y": [1.0, 2.0, 3.0]}
    assert read_table(tmp_path / "c.npz").to_pydict() == expected
    assert read_table(tmp_path / "d.npz").to_pydict() == {"x1": [0.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]}


def test_arrays_of_any_byte_order(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.array([1.5, 2.5], ">f8"), b=np.array([1, 2], ">i4"), c=np.array(["u", "v"]))
    assert read_table(tmp_path / "t.npz").to_pydict() == {"a": [1.5, 2.5], "b": [1, 2], "c": ["u", "v"]}


@pytest.mark.parametrize(
    "arrays, told",
    [
        ({"a": np.array([{}])}, "array 'a' holds Python objects, which are not read"),
        ({"a": np.eye(2), "b": np.ones(2)}, r"array 'a' has shape \(2, 2\), expected \(n,\)"),
        ({"X": np.eye(2), "y": np.eye(2)}, r"array 'y' has shape \(2, 2\)"),
        ({"X": np.ones((1, 2, 3))}, r"array 'X' has shape \(1, 2, 3\), expected \(n,\) or"),
        ({"X": np.eye(2), "y": np.ones(3)}, "different numbers of rows .*'x2' 2, 'y' 3"),
        ({"a": np.float64(1.0)}, r"array 'a' has shape \(\)"),
        ({}, "there is no column"),
    ],
)
def test_arrays_that_are_no_table(tmp_path, arrays, told):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(agp.DataError, match=told):
        read_table(tmp_path / "t.npz")


@pytest.fixture
def book(tmp_path):
    def made(*rows, **others):
        book = openpyxl.Workbook()
        sheet = book.active
        assert sheet is not None
        sheet.title = "Runs"
        for row in rows:
            sheet.append(row)
        for title, own in others.items():
            other = book.create_sheet(title)
            for row in own:
                other.append(row)
        book.save(tmp_path / "t.xlsx")
        return tmp_path / "t.xlsx"

    return made


def test_the_first_sheet_or_a_named_one(book):
    path = book(["x", "zeta"], [1, 2.5], [None, None], [3, 4], Other=[["a"], [7]])
    assert read_table(path).to_pydict() == {"x": [1, 3], "zeta": [2.5, 4.0]}
    assert read_table(path, sheet="Other").to_pydict() == {"a": [7]}
    with pytest.raises(agp.DataError, match=r"no sheet 'runs' \(did you mean 'Runs'\?\). The sheets are 'Runs', 'Oth"):
        read_table(path, sheet="runs")


def test_cells_of_an_error_and_text_are_told_of(book):
    path = book(["x", "zeta"], [1, 2.5], ["#DIV/0!", 4])
    assert read_table(path).to_pydict() == {"x": ["1", "#DIV/0!"], "zeta": [2.5, 4.0]}
    with pytest.raises(agp.DataError, match=r"column 'x' .*holds '#DIV/0!' in row 1 "):
        agp.AlignedGP().fit({"fine": read_table(path)}, output="zeta")


@pytest.mark.parametrize(
    "rows, told",
    [
        ([], "the sheet is empty"),
        ([["x", None, "y"], [1, 2, 3]], "column 2 has no name"),
        ([["x", "x "], [1, 2]], "several columns of the name 'x'"),
    ],
)
def test_sheets_that_are_no_table(book, rows, told):
    with pytest.raises(agp.DataError, match=told):
        read_table(book(*rows))


def test_a_sheet_of_a_file_that_has_none(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(agp.DataError, match="sheet='Runs' is for Excel workbooks, and this is a CSV file"):
        read_table(tmp_path / "t.csv", sheet="Runs")


def test_excel_without_openpyxl(tmp_path, monkeypatch):
    write_table(TABLE, tmp_path / "t.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    advice = r"Excel workbooks need openpyxl. Install it: pip install 'aligngp\[excel\]'"
    for use in (lambda: read_table(tmp_path / "t.xlsx"), lambda: write_table(TABLE, tmp_path / "u.xlsx")):
        with pytest.raises(agp.DataError, match=advice):
            use()


def test_more_rows_than_a_sheet_has(tmp_path):
    with pytest.raises(agp.DataError, match="1048576 rows are more than a sheet of Excel can have"):
        write_table(pa.table({"a": np.zeros(1_048_576)}), tmp_path / "t.xlsx")
    assert os.listdir(tmp_path) == []
