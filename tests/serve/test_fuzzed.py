"""Schemathesis asks what no one would: every answer is one that the description promises, and none is a failure."""

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

HOST = {"Host": "127.0.0.1:8321"}
LEFT_OUT = ["positive_data_acceptance"]
"""Data that fit the description may still make no sense to this model: an input that it does not have is a 422."""
PATHS = {"/api/model": "GET", "/api/predict": "POST", "/api/slice": "POST", "/api/surface": "POST", "/api/csv": "POST"}
TAKES = set(PATHS) - {"/api/model"}
KINDS = ("as described", "not as described", "with known names")
CASES = [(path, kind) for path in PATHS for kind in KINDS if path in TAKES or kind == KINDS[0]]
INPUTS = {"high": ("x1", "x2", "x3", "x4"), "low": ("x3", "x4")}


def with_known_names(case) -> None:
    """Give a request the inputs of its task, its values where it has some."""
    if isinstance(case.body, dict):
        names = INPUTS[case.body["task"]]
        if "rows" in case.body:
            values = [value for row in case.body["rows"] for value in row.values()] or [0.5]
            rows = range(len(case.body["rows"]))
            case.body["rows"] = [{name: values[(at + i) % len(values)] for i, name in enumerate(names)} for at in rows]
        else:
            case.body["at"] = dict.fromkeys(names, 0.25)
        case.body |= {key: value for key, value in (("input", names[0]), ("inputs", names[:2])) if key in case.body}
    elif isinstance(case.body, str):
        case.body = "x1,x2,x3,x4\n0.1,0.2,0.3,0.4\n"


@pytest.fixture(scope="module")
def described(app):
    load_all_checks()
    return schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HOST)


@pytest.mark.parametrize("path, kind", CASES)
def test_every_answer_is_as_promised(described, path, kind):
    mode = GenerationMode.NEGATIVE if kind == "not as described" else GenerationMode.POSITIVE
    statuses = Counter()

    @settings(
        max_examples=10,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=described[path][PATHS[path]].as_strategy(generation_mode=mode))
    def check(case):
        if kind == "with known names":
            with_known_names(case)
        answer = case.call_and_validate(headers=HOST, excluded_checks=CHECKS.get_by_names(LEFT_OUT))
        statuses[answer.status_code] += 1

    check()
    assert not [status for status in statuses if status >= 500]
    assert 200 in statuses or kind != "with known names"


def test_the_paths_are_all(described):
    found = [result.ok() for result in described.get_all_operations()]
    assert {one.path: one.method.upper() for one in found} == PATHS
