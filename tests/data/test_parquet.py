"""Which files, columns and row groups a Parquet task has, and what is told of those that cannot be used."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import aligngp as agp
from aligngp.data import parquet as module
from aligngp.data.parquet import find_files, is_dataset, open_dataset
from aligngp.data.streamed import open_stream, whole_table
from aligngp.data.tasks import read_tasks, task_schema
from streams import matrix, table, write


def opened(path, **keywords):
    return open_dataset(agp.Parquet(path, "zeta", **keywords), "coarse")


def test_a_folder_a_glob_and_a_file_are_found(tmp_path):
    rows = table(50)
    names = [write(tmp_path / name, rows) for name in ("b.parquet", "a.parquet", "deep/c.PARQUET")]
    (tmp_path / "notes.txt").write_text("not a table")
    assert find_files(tmp_path, "coarse") == sorted(map(str, names))
    assert find_files(f"{tmp_path}/?.parquet", "coarse") == sorted(map(str, names[:2]))
    assert find_files(names[0], "coarse") == [str(names[0])]
    assert all(is_dataset(one) for one in (tmp_path, f"{tmp_path}/*", names[2], "s3://bucket/x"))
    assert not is_dataset("fine.csv")
    with pytest.raises(agp.DataError, match=r"task 'coarse': .*none\.parquet: there is no such Parquet file"):
        find_files(tmp_path / "none.parquet", "coarse")


def test_row_groups_are_read_in_the_order_of_the_columns(tmp_path):
    rows = table(250)
    write(tmp_path / "a.parquet", rows, 100)
    write(tmp_path / "b.parquet", rows.select(["zeta", "x2", "x1"]), 250)
    dataset = opened(tmp_path, inputs=["x2", "x1"])
    assert dataset.columns == ("x2", "x1", "zeta")
    np.testing.assert_array_equal(dataset.groups, [[0, 0, 100], [0, 1, 100], [0, 2, 50], [1, 0, 250]])
    assert (dataset.rows, dataset.bytes) == (500, 500 * 3 * 8)
    expected = matrix(rows.select(["x2", "x1", "zeta"]))
    np.testing.assert_array_equal(dataset.read(1), expected[100:200])
    np.testing.assert_array_equal(dataset.read(3), expected)


def test_small_files_are_read_and_large_ones_streamed(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", table(40))
    assert open_stream(agp.Parquet(path, "zeta"), "coarse") is None
    (in_memory,) = read_tasks({"coarse": str(path)}, "zeta")
    assert in_memory.stream is None
    np.testing.assert_array_equal(in_memory.X, matrix(table(40))[:, :2])
    monkeypatch.setattr("aligngp.data.streamed.STREAMED_ABOVE", 40 * 3 * 8 - 1)
    (streamed,) = read_tasks({"coarse": path}, "zeta")
    assert streamed.stream is not None and streamed.rows == 40
    assert open_stream(agp.Parquet(path, "zeta", stream=False), "coarse") is None
    assert task_schema("coarse", agp.Parquet(path), "zeta") == streamed.schema


def test_files_in_memory_may_have_columns_of_unlike_numbers(tmp_path):
    write(tmp_path / "a.parquet", pa.table({"x1": [1, 2], "zeta": [0.5, 1.5]}))
    write(tmp_path / "b.parquet", pa.table({"zeta": pa.array([2.5], pa.float32()), "x1": [0.25]}))
    found = whole_table(agp.Parquet(tmp_path, "zeta"), "coarse")
    assert found.to_pydict() == {"x1": [1.0, 2.0, 0.25], "zeta": [0.5, 1.5, 2.5]}


def test_the_fingerprint_is_of_the_contents(tmp_path):
    path = write(tmp_path / "a.parquet", table(40))
    first = opened(path).fingerprint()
    assert first == opened(path).fingerprint()
    changed = table(40).set_column(2, "zeta", pa.array(np.r_[np.zeros(1), matrix(table(40))[1:, 2]]))
    assert opened(write(path, changed)).fingerprint() != first
    assert opened(write(path, table(40)), inputs=["x1"]).fingerprint() != first


@pytest.mark.parametrize(
    "columns, words",
    [
        ({"x1": [1.0, None], "zeta": [1.0, 2.0]}, r"a\.parquet, row group 0 .*column 'x1' is missing, NaN .* row 1 "),
        ({"x1": [1.0, 2.0], "zeta": [1.0, np.inf]}, r"row group 0 .*column 'zeta' .*infinite in 1 of 2 rows"),
        ({"x1": ["a", "b"], "zeta": [1.0, 2.0]}, r"column 'x1' has dtype .*expected numbers"),
        ({"x1": [1.0, 2.0], "z": [1.0, 2.0]}, r"output column 'zeta' is not there"),
        ({"zeta": [1.0, 2.0]}, r"there is no input column"),
    ],
)
def test_columns_that_cannot_be_used_are_named(tmp_path, columns, words):
    path = write(tmp_path / "a.parquet", pa.table(columns))
    with pytest.raises(agp.DataError, match=words):
        opened(path).read(0)


def test_a_later_file_without_a_column_is_named(tmp_path):
    write(tmp_path / "a.parquet", table(10))
    write(tmp_path / "b.parquet", table(10).rename_columns(["x1", "X2", "zeta"]))
    with pytest.raises(agp.DataError, match=r"b\.parquet: task 'coarse': missing column 'x2' \(did you mean 'X2'\?\)"):
        opened(tmp_path)


def test_a_row_group_that_is_too_large_is_refused_by_its_footer(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", table(1000), 1000)
    monkeypatch.setattr(module, "LARGEST_GROUP", 20_000)
    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", lambda *arguments, **more: pytest.fail("read"))
    with pytest.raises(agp.DataError, match=r"row group 0 has 1000 rows, whose 3 columns take .*row_group_size"):
        opened(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"a,b\n1,2\n", b"PAR1" + bytes(range(256)) + b"PAR1"])
def test_what_is_no_parquet_is_one_clear_error(tmp_path, content):
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(agp.DataError, match=r"a\.parquet: cannot be read as a Parquet file"):
        opened(path)


def test_a_truncated_file_is_one_clear_error(tmp_path):
    path = write(tmp_path / "a.parquet", table(1000))
    dataset = opened(path)
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(bytes(damaged))
    with pytest.raises(agp.DataError, match=r"a\.parquet"):
        for group in range(len(dataset.groups)):
            dataset.read(group)


def test_a_file_that_changes_is_noticed(tmp_path):
    path = write(tmp_path / "a.parquet", table(250))
    dataset = opened(path)
    write(path, table(90))
    with pytest.raises(agp.DataError, match=r"row group 2 .*the file was changed while it was read"):
        dataset.read(2)


def test_settings_of_a_parquet_task_are_checked():
    with pytest.raises(agp.SettingError, match=r"stream=\.\.\.\): expected True, False or None, got 'yes'"):
        agp.Parquet("a.parquet", stream="yes")
    with pytest.raises(agp.SettingError, match=r"shards=\.\.\.\): expected a whole number >= 1, got 0"):
        agp.Parquet("a.parquet", shards=0)


def test_urls_are_opened_by_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("one", "two"):
        with memory.open(f"/runs/{name}.parquet", "wb") as file:
            parquet.write_table(table(30, seed=len(name)), file)
    for path in ("memory://runs", "memory://runs/*.parquet"):
        dataset = opened(path)
        assert dataset.rows == 60
        np.testing.assert_array_equal(dataset.read(1), matrix(table(30, seed=3)))
    with pytest.raises(agp.DataError, match="there is no such Parquet file"):
        opened("memory://elsewhere/x.parquet")
