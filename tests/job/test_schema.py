"""The schema of job files says what is read: the same keys, defaults, choices and values."""

import dataclasses
import json
import tomllib

import jsonschema
import pytest

import aligngp as agp
from aligngp.job import SCHEMA, check, read_job
from aligngp.kernels import NAMES
from aligngp.settings import _CHOICES, CALIBRATIONS, Settings
from estimators import unchecked
from jobs import FULL, MISTAKES, SHORT

schema = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


@pytest.fixture(autouse=True)
def _as_users_run_it():
    with unchecked():
        yield


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
def test_valid_jobs_pass_the_schema(tmp_path, text):
    (tmp_path / "job.toml").write_text(text)
    read_job(tmp_path / "job.toml")
    schema.validate(tomllib.loads(text))


# What no schema can say: names of tasks, lengths that must agree, an output for every task.
BEYOND = {"common", "no output", "output of another task", "a choice of no task", "a mapping of no task"}
BEYOND |= {"rows of A", "length of b", "test of no task"}


@pytest.mark.parametrize("name", sorted(MISTAKES.keys() - BEYOND))
def test_invalid_jobs_do_not_pass_the_schema(name):
    assert not schema.is_valid(tomllib.loads(MISTAKES[name][0]))
