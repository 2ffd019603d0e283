"""Jobs whose tasks are Parquet: what is streamed, what goes into memory, what their checksum tells apart."""

import pyarrow as pa
import pytest

import aligngp as agp
from aligngp.job import as_used, read_job
from streams import matrix, table, write

TEXT = """
output = "zeta"
common = "b"
[tasks]
a = { file = "a.parquet", stream = true, shards = 2 }
b = "parts"
c = "parts/*.parquet"
d = "a.parquet"
[mappings]
c = ["x1", "x2"]
"""


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "a.parquet", table(50), 10)
    write(tmp_path / "parts" / "one.parquet", table(20, seed=1))
    write(tmp_path / "parts" / "two.parquet", table(30, seed=2))
    (tmp_path / "job.toml").write_text(TEXT)
    return tmp_path / "job.toml"


def test_files_folders_globs_and_streams(path, tmp_path):
    tasks, _ = read_job(path).read()
    assert isinstance(tasks["a"], agp.Parquet)
    assert (tasks["a"].stream, tasks["a"].shards, tasks["a"].output) == (True, 2, "zeta")
    for name in ("b", "c"):
        assert tasks[name].X.num_rows == 50
        assert matrix(tasks[name].X)[:20].tolist() == matrix(table(20, seed=1)).tolist()
    assert tasks["d"].X.equals(table(50))
    again = tmp_path / "run"
    again.mkdir()
    (again / "job.toml").write_text(as_used(read_job(path), again, "a", "note"))
    assert read_job(again / "job.toml").read()[0]["a"].shards == 2
    assert read_job(again / "job.toml").digest() != ""


def test_the_checksum_tells_other_contents_apart(path, tmp_path):
    first = read_job(path).digest()
    assert first == read_job(path).digest()
    rows = matrix(table(30, seed=2))
    rows[17, 1] += 1e-9
    write(tmp_path / "parts" / "two.parquet", pa.table(dict(zip(("x1", "x2", "zeta"), rows.T, strict=True))))
    assert read_job(path).digest() != first


def test_a_url_is_left_as_it_is(path, tmp_path):
    path.write_text(TEXT.replace('"parts/*.parquet"', '"memory://bucket/x.parquet"'))
    job = read_job(path)
    assert job.tasks["c"].file == "memory://bucket/x.parquet"
    assert '"memory://bucket/x.parquet"' in as_used(job, tmp_path, "a", "note")


def test_only_parquet_is_streamed(path, tmp_path):
    agp.write_table(table(5), tmp_path / "a.csv")
    path.write_text(TEXT.replace('"a.parquet", stream', '"a.csv", stream'))
    with pytest.raises(agp.DataError, match=r"a\.csv: stream and shards are for Parquet"):
        read_job(path).read()


def test_a_column_that_is_missing_is_told_without_reading_the_rows(path, monkeypatch):
    path.write_text(TEXT.replace('output = "zeta"', 'output = "eta"'))
    with pytest.raises(agp.DataError, match="output column 'eta' is not there"):
        read_job(path).read()
