"""Job files: what they ask for, every mistake with its line, the schema beside them, and the job written back."""

import dataclasses
import re
import tomllib

import numpy as np
import pyarrow as pa
import pytest

import aligngp as agp
from aligngp.data.files import write_table
from aligngp.job import as_used, read_job
from aligngp.job.toml import toml_value
from aligngp.settings import Settings
from estimators import unchecked
from jobs import FULL, MISTAKES, SHORT


@pytest.fixture(autouse=True)
def _as_users_run_it():
    with unchecked():
        yield


@pytest.fixture
def job(tmp_path):
    def made(text: str):
        (tmp_path / "job.toml").write_text(text, encoding="utf-8")
        return tmp_path / "job.toml"

    return made


@pytest.fixture
def tables(tmp_path):
    """The files of FULL."""
    rng = np.random.default_rng(0)
    (tmp_path / "sub").mkdir()
    for name, columns in {
        "fine.csv": ("x1", "x3", "zeta"),
        "coarse.parquet": ("x3", "x1", "z"),
        "sub/third.xlsx": ("a", "note", "b", "w"),
        "test.csv": ("x3", "x1", "zeta_true"),
    }.items():
        write_table(pa.table({column: rng.normal(size=6) for column in columns}), tmp_path / name)
    return tmp_path


def test_everything_that_a_job_can_say(job, tmp_path):
    read = read_job(job(FULL))
    assert read.tasks["fine"].file == tmp_path / "fine.csv"
    assert [source.output for source in read.tasks.values()] == ["zeta", "z", "w"]
    third = read.tasks["third"]
    assert (third.file, third.inputs, third.noise, third.sheet) == (
        tmp_path / "sub/third.xlsx",
        ("b", "a"),
        0.1,
        "Table",
    )
    assert (read.test["fine"].file, read.test["fine"].output) == (tmp_path / "test.csv", "zeta_true")
    keywords = read.keywords
    assert keywords["common"] == "coarse"
    assert keywords["mappings"]["fine"].columns == ("x3", 1)
    np.testing.assert_array_equal(keywords["mappings"]["third"].A, [[1, 0], [0.5, 2]])
    np.testing.assert_array_equal(keywords["mappings"]["third"].b, [0, -1])
    others = {key: value for key, value in keywords.items() if key not in ("common", "mappings")}
    assert others == {"seed": 3, "calibration": {"fine": "bayes"}, "learning_rate": 1e-3, "standardize": False}


def test_the_tables_of_a_job(job, tables):
    tasks, test = read_job(job(FULL)).read()
    assert (tasks["third"].names, tasks["third"].noise, tasks["third"].y) == (("b", "a"), 0.1, "w")
    assert tasks["fine"].X.column_names == ["x1", "x3", "zeta"]
    assert test["fine"].y == "zeta_true"


@pytest.mark.parametrize(
    "written, expected",
    [('"learned"', agp.Learned()), ('{ learned = { init = "pca", strength = 2 } }', agp.Learned("pca", 2.0))],
)
def test_learned_mappings(job, written, expected):
    found = read_job(job(f"{SHORT}[mappings]\nfine = {written}")).mappings["fine"]
    assert (found.init, found.strength) == (expected.init, expected.strength)


def test_the_smallest_job_and_one_written_on_windows(job, tmp_path):
    read = read_job(job('\ufeff[tasks]\r\n"fine one" = { file = "a.csv", output = "y" }\r\n'))
    assert read.tasks["fine one"].output == "y"
    assert read.keywords == {"common": None, "mappings": None}


# ---- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, told", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_its_line(job, text, told):
    with pytest.raises(agp.SettingError, match=told) as error:
        read_job(job(text))
    assert "job.toml:" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, told",
    [
        ("a = 1\nb = ", r"job\.toml:2:5: not TOML: Invalid value\. Text stands in quotes"),
        ("fine = fine.csv", r"job\.toml:1:8: not TOML: .* Text stands in quotes"),
        ('a = "b\n', r"job\.toml:1:7: not TOML: .* A text in quotes ends on the line on which it begins\."),
        ('a = "b', r"job\.toml:1:7: not TOML: .* A text in quotes ends on the line on which it begins\."),
        ("a = [1,\n", r"job\.toml:2:1: not TOML: "),
        ("a = [1, 2\nb = 1", r"job\.toml:2:1: not TOML: .* A list ends with \]\."),
        ("a = 1,5", r"job\.toml:1:6: not TOML: .* numbers have decimal points"),
        ("a b = 1", r"job\.toml:1:3: not TOML: .* Write key = value"),
        ('a = "C:\\data.csv"', r"job\.toml:1:10: not TOML: .* a backslash is written twice; or write / in paths"),
        ("a = 1\na = 2\n", r"job\.toml:2:\d+: not TOML: .* A key stands there twice\."),
        (SHORT + SHORT, r"job\.toml:6:\d+: not TOML: Cannot declare .* Write all of it in one place\."),
    ],
)
def test_what_is_no_toml_is_told_with_line_and_column(job, text, told):
    with pytest.raises(agp.SettingError, match=told):
        read_job(job(text))


def test_a_job_that_cannot_be_read(job, tmp_path):
    with pytest.raises(agp.SettingError, match=r"jop\.toml: there is no such file \(did you mean 'job\.toml'\?\)"):
        job(SHORT)
        read_job(tmp_path / "jop.toml")
    with pytest.raises(agp.SettingError, match=r"this is a folder\. Name the job file in it"):
        read_job(tmp_path)
    (tmp_path / "latin.toml").write_bytes('output = "Länge"'.encode("cp1252"))
    with pytest.raises(agp.SettingError, match=r"latin\.toml: not in UTF-8 \(byte 11\)\. Save it as UTF-8"):
        read_job(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    "name, content, told",
    [
        (
            "fine.csv",
            "x1,x3,zetta\n1,2,3\n",
            r"fine\.csv: task 'fine': .*column 'zeta' is not there \(did you mean 'zett",
        ),
        (
            "fine.csv",
            "x1,x3,zeta\n1,a,3\n",
            r"fine\.csv: task 'fine': column 'x3' .*'a' in row 0 .*first below the column",
        ),
        ("fine.csv", "x1,x3,zeta\n", r"fine\.csv: task 'fine': there is no row"),
        ("test.csv", "x1,zeta_true\n1,2\n", r"test\.csv: task 'fine': missing column 'x3'"),
        ("test.csv", "x1,x3,zeta_true\n1,2,\n", r"test\.csv: task 'fine': column 'zeta_true' is missing"),
    ],
)
def test_what_is_wrong_with_a_table_names_its_file(job, tables, name, content, told):
    (tables / name).write_text(content)
    with pytest.raises(agp.DataError, match=told):
        read_job(job(FULL)).read()


# What a job says of tables that it does not fit: told with the job's line; the parts are replaced in FULL.
DISAGREEMENTS = {
    "an output": ('"z"', '"zz"', r":2: output\.coarse: .*coarse\.parquet: task 'coarse': the output column 'zz'"),
    "an output of its own": ('"w"', '"v"', r":8: tasks\.third\.output: .*xlsx: task 'third': the output column 'v'"),
    "inputs": ('["b", "a"]', '["b", "c"]', r":8: tasks\.third\.inputs: .*third\.xlsx: .*missing column 'c'"),
    "a sheet": ('"Table"', '"Runs"', r":8: tasks\.third\.sheet: .*third\.xlsx: .*'Runs'"),
    "a file": ('"fine.csv"', '"fne.csv"', r":6: tasks\.fine: .*fne\.csv: .*did you mean 'fine\.csv'"),
    "a folder": ('"fine.csv"', '"sub.csv"', r":6: tasks\.fine: .*sub\.csv: this is a folder"),
    "a suffix": ('"fine.csv"', '"fine.txt"', r":6: tasks\.fine: .*fine\.txt: a file with the suffix '\.txt'"),
    "an output of test rows": ('"zeta_true"', '"zeta"', r":15: test\.fine\.output: .*test\.csv: .*column 'zeta'"),
    "a column of a mapping": ('["x3", 1]', '["x3", "x9"]', r":11: mappings\.fine: task 'fine' has no column 'x9'"),
    "too few columns": ('["x3", 1]', '["x3"]', r":11: mappings\.fine: .*mapping to 2 columns .* got 1"),
    "the shape of A": ("[[1, 0], [0.5, 2]]", "[[1], [2]]", r":12: mappings\.third: .*expected Affine with A of shape"),
    "a mapping of the common task": (
        'common = "coarse"',
        'common = "fine"',
        r":11: mappings\.fine: task 'fine' is the common task, so it has no mapping",
    ),
    "a calibration of the common task": (
        'calibration = { fine = "bayes" }',
        'calibration = { coarse = "bayes" }',
        r":19: model\.calibration\.coarse: .*has no mapping to calibrate",
    ),
    "no mapping": ('fine = ["x3", 1]\n', "", None),
    "columns that are missing": (
        "third = { affine = { A = [[1, 0], [0.5, 2]], b = [0, -1] } }\n",
        "",
        r": task 'third' lacks the columns 'x3', 'x1' of the common task 'coarse' \(it has 'b', 'a'\).* Write below "
        r"\[mappings\] third = \[\.\.\.\] with 2 of its columns.*or third = \"learned\"",
    ),
    "a tie": (
        'common = "coarse"\n',
        "",
        r": the tasks 'fine', 'coarse', 'third' all have 2 inputs.* above \[tasks\] .*: common = \"third\"",
    ),
    "a tie of tasks that share nothing": ('common = "coarse"\n', "", None),
}


@pytest.mark.parametrize("old, new, told", DISAGREEMENTS.values(), ids=DISAGREEMENTS.keys())
def test_tables_that_do_not_fit_the_job_are_told_with_its_line(job, tables, old, new, told):
    assert FULL.count(old) == 1
    (tables / "sub.csv").mkdir()
    (tables / "fine.txt").write_text("")
    text = FULL.replace(old, new)
    if told is None:
        text += "shared = false\n" if "common" in old else ""
        assert set(read_job(job(text)).read()[0]) == {"fine", "coarse", "third"}
        return
    with pytest.raises((agp.DataError, agp.SettingError), match=r"job\.toml" + told) as error:
        read_job(job(text)).read()
    assert "\n" not in str(error.value)


# ---- written back --------------------------------------------------------------------------------------------------


def test_a_job_as_used_asks_for_the_same_from_another_folder(job, tables):
    read = read_job(job(FULL))
    folder = tables / "runs" / "one"
    folder.mkdir(parents=True)
    text = as_used(read, folder, "coarse", "A note.")
    (folder / "job.toml").write_text(text, encoding="utf-8")
    again = read_job(folder / "job.toml")
    assert again.digest() == read.digest()
    assert again.tasks["third"].file.resolve() == read.tasks["third"].file.resolve()
    assert text.startswith("# A note.\n")
    assert 'file = "../../fine.csv"' in text
    for field in dataclasses.fields(Settings):
        if field.name not in ("common", "mappings"):
            assert re.search(rf"^(# )?{field.name}( =|: chosen)", text, re.MULTILINE), field.name


def test_a_common_task_that_was_found_is_written_down(job, tmp_path):
    text = as_used(read_job(job(SHORT)), tmp_path, "coarse", "A note.")
    assert tomllib.loads(text)["common"] == "coarse"
    assert "common" not in tomllib.loads(as_used(read_job(job(SHORT)), tmp_path, None, "A note."))


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        3,
        -1.5,
        1e-300,
        1e22,
        "a",
        'q "u" \\ \n\t\x7f ζ 😀',
        [1, [2.5, "a"]],
        [],
        {},
        {"a b": {"c.d": [1]}, "e": 1},
    ],
)
def test_values_come_back(value):
    assert tomllib.loads(f"a = {toml_value(value)}")["a"] == value


# ---- what a checksum tells -----------------------------------------------------------------------------------------


def test_the_checksum_is_that_of_settings_and_contents(job, tables):
    before = read_job(job(FULL)).digest()
    same = (FULL.replace("# a job", ""), FULL + "num_latents = 2\n", FULL + "progress = false\n")
    assert {read_job(job(text)).digest() for text in same} == {before}
    changed = (
        FULL.replace("seed = 3", "seed = 4"),
        FULL.replace("noise = 0.1", "noise = 0.2"),
        FULL.replace("[0, -1]", "[0, 1]"),
        FULL.replace('"test.csv"', '"fine.csv"').replace("zeta_true", "zeta"),
    )
    assert len({before, *(read_job(job(text)).digest() for text in changed)}) == 1 + len(changed)
    (tables / "fine.csv").write_text("x1,x3,zeta\n1,2,3\n")
    assert read_job(job(FULL)).digest() != before
    (tables / "fine.csv").unlink()
    with pytest.raises(agp.DataError, match=r"fine\.csv: there is no such file"):
        read_job(job(FULL)).digest()
