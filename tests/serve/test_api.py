"""The API gives what the estimator gives, and says in one sentence why it does not."""

import json
import time

import numpy as np
import pytest

import aligngp as agp
from aligngp.data.files import read_table
from aligngp.serve import create_app
from pictures import from_file, park

NAMES = ["x1", "x2", "x3", "x4"]
ROWS = np.array([[0.1, 0.2, 0.4, 0.5], [0.9, 0.5, 0.6, 0.7]])
HIGH = [dict(zip(NAMES, row, strict=True)) for row in ROWS.tolist()]


def test_what_the_model_is(ask):
    found = ask("GET", "/api/model").json()
    assert (found["aligngp"], found["common"]) == (agp.__version__, "low")
    high, low = found["tasks"]
    assert (high["name"], high["rows"], high["domain"], high["output"]) == ("high", 6, "low", "y")
    assert [one["name"] for one in high["inputs"]] == NAMES
    X = park()._training[0].X
    np.testing.assert_array_equal([one["lower"] for one in high["inputs"]], X.min(axis=0))
    np.testing.assert_array_equal([one["upper"] for one in high["inputs"]], X.max(axis=0))
    np.testing.assert_allclose([one["middle"] for one in high["inputs"]], X.mean(axis=0), rtol=1e-14)
    assert low["domain"] == "low"
    assert "common='low'" in found["settings"]


def test_predictions_are_those_of_the_estimator(ask):
    found = ask("POST", "/api/predict", json={"task": "high", "rows": HIGH}).json()
    pred, (mean, variance) = park().predict("high", ROWS), park().aligned("high", ROWS)
    for name, values in zip(("mean", "std", "lower", "upper"), (pred.mean, pred.std, *pred.interval()), strict=True):
        np.testing.assert_array_equal(found[name], values)
    assert found["aligned"]["names"] == ["x3", "x4"]
    np.testing.assert_array_equal(found["aligned"]["mean"], mean)
    np.testing.assert_array_equal(found["aligned"]["sd"], np.sqrt(variance))
    assert found["warnings"] == []


def test_without_noise_and_with_another_interval(ask):
    body = {"task": "low", "rows": [{"x4": 0.2, "x3": 0.3}], "latent": True, "interval": 0.5}
    found = ask("POST", "/api/predict", json=body).json()
    pred = park().predict("low", [[0.3, 0.2]], latent=True)
    assert (found["mean"], found["std"]) == (pred.mean.tolist(), pred.std.tolist())
    assert found["upper"] == pred.interval(0.5)[1].tolist()
    assert found["aligned"] == {"names": ["x3", "x4"], "mean": [[0.3, 0.2]], "sd": [[0.0, 0.0]]}


def test_rows_far_outside_are_warned_of(ask):
    found = ask("POST", "/api/predict", json={"task": "high", "rows": [{**HIGH[0], "x2": 9.0}]}).json()
    assert len(found["warnings"]) == 1
    assert "1 of 1 rows to predict lie far outside its training rows, mostly in 'x2'" in found["warnings"][0]


def test_a_slice(ask):
    found = ask("POST", "/api/slice", json={"task": "high", "at": {"x1": 0.9}, "input": "x3", "points": 5}).json()
    X = park()._training[0].X
    rows = np.tile([0.9, *X.mean(axis=0)[1:]], (5, 1))
    rows[:, 2] = np.linspace(X[:, 2].min(), X[:, 2].max(), 5)
    pred = park().predict("high", rows)
    np.testing.assert_allclose(found["values"], rows[:, 2], rtol=1e-15)
    np.testing.assert_allclose(found["mean"], pred.mean, rtol=1e-12)
    np.testing.assert_allclose(found["upper"], pred.interval()[1], rtol=1e-12)


def test_a_surface(ask):
    body = {"task": "high", "at": {"x4": 0.3}, "inputs": ["x3", "x1"], "points": 3}
    found = ask("POST", "/api/surface", json=body).json()
    for i, x3 in enumerate(found["values"][0]):
        for j, x1 in enumerate(found["values"][1]):
            pred = park().predict("high", [[x1, park()._training[0].X[:, 1].mean(), x3, 0.3]])
            np.testing.assert_allclose(
                [found["mean"][i][j], found["std"][i][j]], [pred.mean[0], pred.std[0]], rtol=1e-9
            )


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table(ask, tmp_path, separator):
    lines = [["name", "x4", "x3"], ["é", "0.25", "0.5"], ["b", "0.75", "0.1"]]
    content = "\n".join(separator.join(line) for line in lines).encode()
    answer = ask("POST", "/api/csv?task=low", content=content, headers={"content-type": "text/csv; charset=utf-8"})
    assert answer.headers["content-type"].startswith("text/csv")
    (tmp_path / "a.csv").write_bytes(answer.content)
    found = read_table(tmp_path / "a.csv")
    assert found.column_names == ["name", "x4", "x3", "mean", "std", "lower", "upper"]
    assert found.column("name").to_pylist() == ["é", "b"]
    pred = park().predict("low", [[0.5, 0.25], [0.1, 0.75]])
    np.testing.assert_allclose(found.column("mean").to_numpy(), pred.mean, rtol=1e-14)
    np.testing.assert_allclose(found.column("lower").to_numpy(), pred.interval()[0], rtol=1e-14)
    assert "x-warnings" not in answer.headers


def test_warnings_of_a_table_stand_in_a_header(ask):
    content = b"x3,x4\n0.5,0.5\n0.5,77\n"
    answer = ask("POST", "/api/csv?task=low", content=content, headers={"content-type": "text/csv"})
    (told,) = json.loads(answer.headers["x-warnings"])
    assert "1 of 2 rows to predict lie far outside" in told


def test_a_model_of_a_file_knows_ranges_and_means(ask, tmp_path):
    app = create_app(from_file(park(), tmp_path))
    (high, _) = ask("GET", "/api/model", app=app).json()["tasks"]
    X = park()._training[0].X
    for key, values in (("lower", X.min(axis=0)), ("upper", X.max(axis=0)), ("middle", X.mean(axis=0))):
        np.testing.assert_allclose([one[key] for one in high["inputs"]], values)
    found = ask("POST", "/api/predict", app=app, json={"task": "high", "rows": HIGH}).json()
    np.testing.assert_allclose(found["mean"], park().predict("high", ROWS).mean, rtol=1e-12)


def test_tasks_that_share_nothing_and_inputs_that_never_change(ask):
    x = np.linspace(0.0, 1.0, 8)
    tasks = {"a": np.stack([x, np.full(8, 3.0)], axis=1), "b": x[:, None]}
    with pytest.warns(agp.AligngpWarning, match="constant|same value"):
        gp = agp.AlignedGP(shared=False, progress=False).fit({name: (X, np.sin(x)) for name, X in tasks.items()})
    app = create_app(gp)
    found = ask("GET", "/api/model", app=app).json()
    assert found["common"] is None
    assert [one["domain"] for one in found["tasks"]] == ["a", "b"]
    assert found["tasks"][0]["inputs"][1] == {"name": "x2", "lower": 2.5, "upper": 3.5, "middle": 3.0}


BAD = {
    "an unknown task": (
        "predict",
        {"task": "hihg", "rows": HIGH},
        r"there is no task 'hihg' \(did you mean 'high'\?\)",
    ),
    "an unknown input": ("predict", {"task": "high", "rows": [{**HIGH[0], "x5": 1}]}, r"there is no column 'x5'"),
    "a missing input": ("predict", {"task": "low", "rows": [{"x3": 1, "x4": 2}, {"x3": 1}]}, r"row 1 .* lacks 'x4'"),
    "no row": ("predict", {"task": "high", "rows": []}, r"^rows: List should have at least 1 item"),
    "text for a number": ("predict", {"task": "low", "rows": [{"x3": "1", "x4": 2}]}, r"^rows\.0\.x3: .* valid number"),
    "true for a number": (
        "predict",
        {"task": "low", "rows": [{"x3": True, "x4": 2}]},
        r"^rows\.0\.x3: .* valid number",
    ),
    "far beyond": (
        "predict",
        {"task": "low", "rows": [{"x3": 1e308, "x4": -1e308}]},
        r"row 0 .* is not a finite number",
    ),
    "an unknown key": ("predict", {"task": "low", "rows": HIGH, "seed": 1}, r"^seed: Extra inputs are not permitted"),
    "no probability": (
        "predict",
        {"task": "low", "rows": HIGH, "interval": 1},
        r"^interval: Input should be less than",
    ),
    "points": ("slice", {"task": "low", "input": "x3", "points": 201}, r"^points: .* less than or equal to 200"),
    "more points": ("surface", {"task": "low", "inputs": ["x3", "x4"], "points": 41}, r"^points: .* equal to 40"),
    "an input of another task": ("slice", {"task": "low", "input": "x1"}, r"there is no column 'x1'"),
    "held by a wrong name": ("slice", {"task": "low", "input": "x3", "at": {"y": 1}}, r"there is no column 'y'"),
    "one input twice": ("surface", {"task": "low", "inputs": ["x3", "x3"]}, r"names 'x3' twice"),
    "three inputs": ("surface", {"task": "high", "inputs": ["x1", "x2", "x3"]}, r"^inputs: .* at most 2 items"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_one_sentence(ask, case):
    path, body, told = BAD[case]
    answer = ask("POST", f"/api/{path}", json=body)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    said = answer.json()["error"]
    assert "\n" not in said
    with pytest.raises(ValueError, match=told):
        raise ValueError(said)


@pytest.mark.parametrize(
    "content, status, told",
    [
        (b"{", 422, "The body is not JSON"),
        (b"", 422, "Field required"),
        (b'{"task": "low", "rows": [{"x3": NaN, "x4": 1}]}', 422, "rows.0.x3: Input should be a finite number."),
        (b'{"task": "low", "rows": [{"x3": 1e999, "x4": 1}]}', 422, "rows.0.x3: Input should be a finite number."),
        (b'{"task": "low", "rows": [{"x3": 1' + b"0" * 400 + b', "x4": 1}]}', 422, "rows.0.x3: "),
        (b'{"task": "low", "rows": [{"\\ud800": 1}]}', 422, "there is no column"),
        (b"[" * 100_000, 400, "The body cannot be read as JSON."),
        (b"\xff", 400, "The body cannot be read as JSON."),
    ],
)
def test_bodies_that_are_no_request(ask, content, status, told):
    answer = ask("POST", "/api/predict", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert told in answer.json()["error"]


@pytest.mark.parametrize(
    "content, told",
    [
        (b"", "upload.csv: the file is empty"),
        (b"a\0b", "upload.csv: this is not a text file"),
        (b"x3\n1\n", "task 'low': missing column"),
        (b"x3,x4\n1,a\n", "column 'x4'"),
        (b"x3,x4\n1,2,3\n", "upload.csv: "),
        (b"x3,x4\n1,\n", "column 'x4'"),
        (b"x3,x4,mean\n1,2,3\n", "column 'mean' has the name of a column of the predictions"),
        (b"," * 2000 + b"\n", "more than 1000 columns"),
        (b"x3,x4\n" + b"1,2\n" * 101_001, "more than 100000 lines"),
        (b"x3,x4\n" + b"1,2\n" * 100_001, "100001 rows, expected at most 100000"),
    ],
)
def test_tables_that_cannot_be_predicted(ask, content, told):
    answer = ask("POST", "/api/csv?task=low", content=content, headers={"content-type": "text/csv"})
    assert answer.status_code == 422
    assert told in answer.json()["error"]


@pytest.mark.parametrize(
    "content",
    [
        b"#" * 90 + b"\n" + (b"#" + b"c" * 90 + b"\n") * 100_000,
        b"1" * 9_000_000 + b"x,x4\n1,2\n",
        b"#c\nx3" + b" " * 9_000_000 + b"x4\n1\n",
        b"x3,x4\n1," + b'"' + b"1" * 4_000_000 + b",a" + b'"\n',
        b'"' * 9_000_001 + b"\n1\n",
    ],
)
def test_tables_that_were_made_to_keep_it_busy(ask, content):
    start = time.monotonic()
    answer = ask("POST", "/api/csv?task=low", content=content, headers={"content-type": "text/csv"})
    assert (answer.status_code, list(answer.json())) == (422, ["error"])
    assert len(answer.text) < 2000
    assert time.monotonic() - start < 20


def test_a_table_must_say_that_it_is_one(ask):
    answer = ask("POST", "/api/csv?task=low", content=b"x3,x4\n1,2\n", headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["error"].split(".")[0]) == (415, "Content-Type: expected text/csv")


def test_the_description_names_the_tasks_and_the_limits(ask):
    found = ask("GET", "/api/openapi.json").json()
    properties = found["components"]["schemas"]["Asked"]["properties"]
    assert properties["task"]["enum"] == ["high", "low"]
    assert (properties["rows"]["minItems"], properties["rows"]["maxItems"]) == (1, 100_000)
    assert found["components"]["schemas"]["Asked"]["additionalProperties"] is False
    assert sorted(found["paths"]) == ["/api/csv", "/api/model", "/api/predict", "/api/slice", "/api/surface"]


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(agp.NotFittedError, match="not fitted yet"):
        create_app(agp.AlignedGP())
