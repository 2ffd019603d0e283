"""``aligngp predict`` from Parquet to Parquet: the rows of all files in blocks, the same as all at once."""

import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from aligngp.cli import blocks
from aligngp.data.files import read_table, write_table


@pytest.fixture
def rows(started, monkeypatch):
    """The new rows of the finished run as a table, and blocks that are smaller than it."""
    monkeypatch.setattr(blocks, "ROWS", 7)
    table = read_table("new.csv")
    return pa.concat_tables([table] * 4).append_column("note", pa.array([f"row {at}" for at in range(4 * len(table))]))


def test_blocks_are_the_same_as_all_rows_at_once(run, rows):
    parquet.write_table(rows, "new.parquet", row_group_size=10)
    write_table(rows, "new.csv")
    assert run("predict", "job-run", "--task", "fine", "-i", "new.parquet", "-o", "out.parquet").code == 0
    assert run("predict", "job-run", "--task", "fine", "-i", "new.csv", "-o", "out.csv").code == 0
    found, expected = read_table("out.parquet"), read_table("out.csv")
    assert found.column_names == expected.column_names == [*rows.column_names, "mean", "std", "lower", "upper"]
    assert found["note"].to_pylist() == rows["note"].to_pylist()
    for name in ("mean", "std", "lower", "upper"):
        np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(), rtol=1e-10, atol=1e-12)
    with parquet.ParquetFile("out.parquet") as file:
        assert file.num_row_groups > 1
        assert max(file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)) <= 7


def test_a_folder_is_predicted_in_the_order_of_its_names(run, rows):
    os.mkdir("parts")
    parquet.write_table(rows.slice(0, 9), "parts/b.parquet")
    parquet.write_table(rows.slice(9).select([*rows.column_names[::-1]]), "parts/c.parquet")
    parquet.write_table(rows.slice(0, 0), "parts/a.parquet")
    done = run("predict", "job-run", "--task", "fine", "-i", "parts", "-o", "out.parquet")
    assert (done.code, f"({len(rows)} rows;" in done.out) == (0, True)
    assert read_table("out.parquet").select(rows.column_names).equals(rows)


def test_no_row_gives_no_row(run, rows):
    parquet.write_table(rows.slice(0, 0), "new.parquet")
    assert run("predict", "job-run", "--task", "fine", "-i", "new.parquet", "-o", "out.parquet").code == 0
    assert (len(read_table("out.parquet")), "mean" in read_table("out.parquet").column_names) == (0, True)


def test_an_error_in_a_later_block_leaves_no_file(run, rows):
    values = rows.column(0).to_pylist()
    values[15] = None
    broken = rows.set_column(0, rows.column_names[0], pa.array(values, pa.float64()))
    parquet.write_table(broken, "new.parquet")
    done = run("predict", "job-run", "--task", "fine", "-i", "new.parquet", "-o", "out.parquet")
    assert done.code == 1
    assert "new.parquet, rows from 14 on (counted from 0): task 'fine': column" in done.err
    assert "first in row 1" in done.err
    assert not [name for name in os.listdir() if "out.parquet" in name]


@pytest.mark.parametrize(
    "name, words",
    [("nothing.parquet", "there is no such Parquet file"), ("parts", "its columns .* are not those of the first file")],
)
def test_what_cannot_be_read_is_told(run, rows, name, words):
    os.mkdir("parts")
    parquet.write_table(rows, "parts/a.parquet")
    parquet.write_table(rows.drop(["note"]), "parts/b.parquet")
    done = run("predict", "job-run", "--task", "fine", "-i", name, "-o", "out.parquet")
    assert done.code == 1
    assert re.search(words, done.err)
