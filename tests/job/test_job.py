"""Job files: what they ask for, every mistake with its line, the schema beside them, and the job written back."""

import dataclasses
import json
import re
import tomllib

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

import aligngp as agp
from aligngp.data.files import write_table
from aligngp.job import SCHEMA, as_used, check, read_job
from aligngp.job.write import toml_value
from aligngp.kernels import NAMES
from aligngp.settings import _CHOICES, CALIBRATIONS, Settings
from estimators import unchecked

FULL = """\
# a job
output = { fine = "zeta", coarse = "z" }
common = "coarse"

[tasks]
fine = "fine.csv"
coarse = "coarse.parquet"
third = { file = "sub/third.xlsx", output = "w", inputs = ["b", "a"], noise = 0.1, sheet = "Table" }

[mappings]
fine = ["x3", 1]
third = { affine = { A = [[1, 0], [0.5, 2]], b = [0, -1] } }

[test]
fine = { file = "test.csv", output = "zeta_true" }

[model]
seed = 3
calibration = { fine = "bayes" }
learning_rate = 1e-3
standardize = false
"""
SHORT = 'output = "zeta"\n[tasks]\nfine = "fine.csv"\ncoarse = "coarse.csv"\n'
NO_OUTPUT = SHORT.partition("\n")[2]
schema = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


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

COLUMNS = r'expected a list of columns such as \["x3", "x4"\] \(names, or positions from 0\), "learned"'
MISTAKES = {
    "no task": ("", r"job\.toml: there is no task\. Write \[tasks\]"),
    "no task in tasks": ("\n[tasks]\n", r":2: there is no task\. Write"),
    "tasks are no table": ("tasks = 3", r":1: tasks: expected a table .* got 3"),
    "a task is no file": (SHORT.replace('"fine.csv"', "3"), r":3: tasks\.fine: expected the name of a file .* got 3"),
    "no file": (SHORT.replace('"fine.csv"', "{ noise = 1 }"), r":3: tasks\.fine has no file\. Write fine = { file"),
    "a key of a task": (
        SHORT.replace('"fine.csv"', '{ fil = "a" }'),
        r":3: unknown key 'fil' in tasks\.fine \(did you mean 'file'\?\)\. The accepted keys are 'file', 'output'",
    ),
    "noise": (
        SHORT.replace('"fine.csv"', '{ file = "a.csv", noise = -1 }'),
        r":3: tasks\.fine\.noise: expected a positive number .* got -1",
    ),
    "inputs": (
        SHORT.replace('"fine.csv"', '{ file = "a.csv", inputs = ["a",\n 3] }'),
        r":4: tasks\.fine\.inputs\.1: expected a list of column names, got 3",
    ),
    "a key at the top": (
        'comon = "a"\n' + SHORT,
        r":1: unknown key 'comon' \(did you mean 'common'\?\).*'output', 'co",
    ),
    "a key of the model at the top": ("seed = 1\n" + SHORT, r":1: unknown key 'seed', which stands under \[model\]"),
    "a key of the top in the model": (SHORT + "[model]\nmappings = {}", r":6: .*'mappings' in model, which stands at"),
    "common": ('common = "fin"\n' + SHORT, r":1: common: there is no task 'fin' \(did you mean 'fine'\?\)\. The tasks"),
    "no output": (NO_OUTPUT, r":2: task 'fine' has no output column\. Write output = "),
    "output of another task": ('output = { fin = "a" }\n' + NO_OUTPUT, r":1: output\.fin: there is no task 'fin'"),
    "output is no name": (
        "[output]\nfine = 1979-05-27\n" + NO_OUTPUT,
        r":2: output\.fine: expected .* got 1979-05-27",
    ),
    "a keyword": (SHORT + "[model]\n\nsead = 1", r":7: unknown key 'sead' in model \(did you mean 'seed'\?\).*'seed'"),
    "a keyword's value": (
        SHORT + "[model]\nseed = -1",
        r":6: model: seed: expected a whole number from 0 to 4294967295",
    ),
    "a choice": (SHORT + '[model]\ncalibration = "baies"', r":6: model: calibration: expected one of 'auto', 'none', "),
    "a kernel": (SHORT + '[model]\nkernel = "rbf"', r":6: model: kernel: expected one of 'se', .*got 'rbf'"),
    "a choice of no task": (
        SHORT + '[model]\ncalibration = { fin = "none" }',
        r":6: model\.calibration\.fin: there is no",
    ),
    "rows a step": (SHORT + "[model.batch_size]\nfine = 0", r":5: model: batch_size of task 'fine': expected a whole"),
    "a mapping of no task": (SHORT + '[mappings]\nfime = ["x"]', r":6: mappings\.fime: there is no task 'fime' \(did"),
    "a word for a mapping": (SHORT + '[mappings]\nfine = "x3"', rf':6: mappings\.fine: {COLUMNS}.* got "x3"'),
    "no columns": (SHORT + "[mappings]\nfine = []", rf":6: mappings\.fine: {COLUMNS}.* got \[\]"),
    "a column": (SHORT + "[mappings]\nfine = [\n1.5]", rf":7: mappings\.fine\.0: {COLUMNS}.* got 1\.5"),
    "a kind of mapping": (
        SHORT + "[mappings]\nfine = { afine = 1 }",
        r":6: unknown key 'afine' in mappings\.fine \(did ",
    ),
    "no A": (SHORT + "[mappings]\nfine = { affine = { b = [1] } }", r":6: mappings\.fine\.affine has no A\."),
    "rows of A": (
        SHORT + "[mappings]\nfine = { affine = { A = [[1, 2],\n[3]] } }",
        r":7: mappings\.fine\.affine\.A\.1: expected .*all of the same length, got \[3\]",
    ),
    "numbers of A": (
        SHORT + '[mappings]\nfine = { affine = { A = [[1, 2],\n\n[3, "a"]] } }',
        r":8: mappings\.fine\.affine\.A\.1: expected a list of rows of numbers.* got \[3, \"a\"\]",
    ),
    "length of b": (
        SHORT + "[mappings]\nfine = { affine = { A = [[1, 2], [3, 4]], b = [1] } }",
        r":6: mappings\.fine\.affine\.b: expected 2 numbers, one a row of A, got \[1\]",
    ),
    "a way to learn": (
        SHORT + '[mappings]\nfine = { learned = { init = "pcb" } }',
        r":6: mappings\.fine: Learned\(init=\.\.\.\): expected 'supervised' or 'pca', got 'pcb'",
    ),
    "test of no task": (SHORT + '[test]\nfinee = "a.csv"', r":6: test\.finee: there is no task 'finee' \(did you mean"),
    "a key of test": (SHORT + '[test]\nfine = { file = "a.csv", noise = 1 }', r":6: unknown key 'noise' in test\.fine"),
}


@pytest.mark.parametrize("text, told", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_its_line(job, text, told):
    with pytest.raises(agp.SettingError, match=told) as error:
        read_job(job(text))
    assert "job.toml:" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, told",
    [
        ("a = 1\nb = ", r"job\.toml:2:5: not TOML: Invalid value\."),
        ('a = "b\n', r"job\.toml:1:7: not TOML: .*"),
        ("a = [1,\n", r"job\.toml:2:1: not TOML: "),
        (SHORT + SHORT, r"job\.toml:6:\d+: not TOML: Cannot declare"),
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


# ---- the schema ----------------------------------------------------------------------------------------------------


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema.schema)


def test_the_schema_has_the_keywords_of_the_settings_with_their_defaults():
    model = schema.schema["properties"]["model"]["properties"]
    assert tuple(model) == check.MODEL
    for field in dataclasses.fields(Settings):
        if field.name in model:
            assert model[field.name].get("default") == field.default, field.name


def test_the_schema_has_the_choices_of_the_settings():
    model = schema.schema["properties"]["model"]["properties"]
    choices = {key: accepted for key, accepted in _CHOICES.items() if all(isinstance(one, str) for one in accepted)}
    for key, accepted in {**choices, "kernel": tuple(NAMES), "mapping_kernel": tuple(NAMES)}.items():
        assert tuple(model[key]["enum"]) == accepted, key
    assert [tuple(way["enum"]) for way in model["calibration"]["anyOf"] if "enum" in way] == [CALIBRATIONS]
    assert {key for key, one in model.items() if one.get("type") == "boolean"} == {
        key for key, accepted in _CHOICES.items() if True in accepted
    }


def test_the_schema_has_the_keys_that_are_read():
    properties, definitions = schema.schema["properties"], schema.schema["$defs"]
    assert sorted(properties) == sorted(check.TOP)
    for name, keys in (("task", check.TASK), ("test", check.TEST)):
        assert sorted(definitions[name]["anyOf"][1]["properties"]) == sorted(keys)


VALUES = (True, 0, 1, -1, 7, 0.5, "auto", "none", "se", "gaussian", "float32", "svi", "map", "analytic", "x", [1])


@pytest.mark.parametrize("keyword", check.MODEL)
def test_the_schema_and_the_settings_accept_the_same_values(keyword):
    for value in VALUES:
        try:
            Settings(**{keyword: value})
            accepted = True
        except agp.SettingError:
            accepted = False
        assert schema.is_valid({"tasks": {"a": "a.csv"}, "model": {keyword: value}}) == accepted, value


@pytest.mark.parametrize("text", [FULL, SHORT, SHORT + '[mappings]\nfine = "learned"'])
def test_valid_jobs_pass_the_schema(job, text):
    read_job(job(text))
    schema.validate(tomllib.loads(text))


# What no schema can say: names of tasks, lengths that must agree, an output for every task.
BEYOND = {"common", "no output", "output of another task", "a choice of no task", "a mapping of no task"}
BEYOND |= {"rows of A", "length of b", "test of no task"}


@pytest.mark.parametrize("name", MISTAKES.keys() - BEYOND)
def test_invalid_jobs_do_not_pass_the_schema(name):
    assert not schema.is_valid(tomllib.loads(MISTAKES[name][0]))


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
