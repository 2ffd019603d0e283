"""The report: what stands in it, that nothing a user named is taken for HTML, and how the file is written."""

import builtins
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import plotly.graph_objects as go
import pytest

import aligngp as agp
from aligngp import report
from aligngp.findings.known import known
from aligngp.report import reproduce, words
from aligngp.report.content import collect
from aligngp.report.markup import as_json, number, tag
from aligngp.report.page import POLICY, html
from estimators import moved, tasks
from pictures import from_file, noisy, park

CASE = agp.datasets.park(num_low=20, num_test=30)
EVIL = '<script>alert("1")</script> & $x'


class Reader(HTMLParser):
    """Text of a page, its cells row by row, its figures, and whether every element is closed."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.figures: list[list[dict]] = []
        self.scripts: list[str] = []
        self.ids: list[str] = []
        self._data = False
        self.feed(page)
        self.close()

    def handle_starttag(self, name, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        if name in ("meta", "link"):
            return
        self.open.append(name)
        self._data = found.get("type") == "application/json"
        if name == "tr":
            self.rows.append([])
        elif name in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            if self._data:
                self.figures.append(json.loads(text))
            else:
                self.scripts.append(text)
        elif inside in ("td", "th"):
            self.rows[-1][-1] += text
        if inside not in ("script", "style"):
            self.words.append(text)

    @property
    def text(self) -> str:
        """All that a reader sees."""
        return " ".join(" ".join(self.words).split())


def read(gp, test=None, transfer=True) -> Reader:
    """The page of a model, without plotly.js."""
    found = Reader(html(collect(gp, test, transfer), "/* plotly.js */"))
    assert found.open == []
    return found


@pytest.fixture(scope="module")
def page():
    return read(park(), {"high": CASE.test["high"]})


def test_the_scores_are_those_of_the_model(page):
    tested, left_out = park().score("high", CASE.test["high"]), known(park(), "high").scores()
    for rows, scores in (("30 test", tested), ("6 training, left out", left_out)):
        cells = [number(scores[name]) for name in ("smse", "smll", "rmse", "nlpd", "crps")]
        assert ["high", rows, *cells, f"{scores['coverage95']:.0%}"] in page.rows
    assert f"typical error (RMSE) of {number(tested['rmse'])}" in page.text


def test_transfer_is_that_of_the_transfer_report(page):
    found = park().transfer_report()
    for sentence in found.sentences:
        assert sentence in page.text
    entry = found.rows[0]
    values = [
        number(getattr(entry, f"{name}_{side}")) for name in ("smse", "nlpd", "crps") for side in ("with", "without")
    ]
    verdict = entry.verdict.removeprefix("makes ")
    assert ["high", "low", verdict, "6 left out", *values] in page.rows


def test_of_many_sources_what_they_do_together_comes_first():
    rng = np.random.default_rng(0)
    rows = {name: rng.uniform(size=(size, 1)) for name, size in (("a", 8), ("b", 9), ("c", 10))}
    data = {name: (X, np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))) for name, X in rows.items()}
    content = collect(agp.AlignedGP("c", progress=False).fit(data), None, True)
    said = [sentence for sentence in words.found(content) if "CRPS" in sentence]
    harmful = [entry.sentence for entry in content.transfer.rows if entry.verdict == "hurts"]
    assert said == [entry.sentence for entry in content.transfer.together] + harmful
    assert len(content.transfer.sentences) == 9


def test_a_mapping_that_hardly_moves():
    found = collect(park(), None, False).alignments["high"]
    assert "was calibrated" in words.mapping(found)
    assert "left the mapping of 'high' where it was" in words.mapping(replace(found, mean=found.prior + 1e-5))


def test_the_data_and_the_model_are_described(page):
    X, y = CASE.tasks["high"]
    assert "26 training rows of 2 tasks, aligned in the input domain of 'low' (x3, x4)." in page.text
    (row,) = [row for row in page.rows if row[:2] == ["high", "mapped by x3, x4"]]
    assert row[2:6] == ["y", "6", number(y.mean()), number(y.std())]
    assert ["high", "x2", number(X[:, 1].min()), number(X[:, 1].mean()), number(X[:, 1].max())] in page.rows
    for form, weight in park().model.weights(0).items():
        assert [form, f"{weight:.0%}"] in [row[:2] for row in page.rows]
    for warning in park().warnings(park().transfer_report()):
        assert warning in page.text


def test_how_to_reproduce(page):
    assert "common='low'," in page.text
    assert "mappings={'high': ['x3', 'x4']}," in page.text
    assert "'high': ..., # 6 rows of x1, x2, x3, x4" in page.text
    assert ["aligngp", agp.__version__] in page.rows
    assert [row for row in page.rows if row[0] == "high" and re.fullmatch("[0-9a-f]{16}", row[-1])]


def test_the_code_of_a_report_fits_the_same_model():
    gp = agp.AlignedGP("low", mappings={"high": agp.Columns("x3", "x4")}, seed=5, kernel="matern52", progress=False)
    rows = {name: agp.Task(*CASE.tasks[name], names=CASE.names[name]) for name in CASE.tasks}
    text = reproduce.code(collect(gp.fit(rows), None, False))
    # What a user has to fill in are the tables.
    filled = re.sub(r"tasks = \{.*?\n\}\n", "", text, flags=re.DOTALL).replace("gp.fit(tasks)", "gp = gp.fit(tasks)")
    scope: dict = {"tasks": rows}
    exec(filled, scope)
    assert (
        scope["gp"].predict("high", CASE.test["high"][0]).mean.tolist()
        == gp.predict("high", CASE.test["high"][0]).mean.tolist()
    )


def test_settings_are_written_as_python():
    def align(X):
        return X[:, [0]]

    assert reproduce._written({"a": align, "b": lambda X: X}) == "{'a': align, 'b': ...}"
    assert reproduce._written(agp.Affine([[1.0, 2.0]], [0.5])) == "agp.Affine([[1.0, 2.0]], [0.5])"
    assert reproduce._written(agp.Learned()) == "agp.Learned(init='supervised', strength=1)"
    assert reproduce._written(agp.Columns("x1", 2)) == "agp.Columns('x1', 2)"
    assert reproduce._written(agp.Tabulated([[1.0]])) == "agp.Tabulated(...)  # 1 rows"
    assert reproduce._written(agp.kernels.Matern52()) == "...  # Matern52"


def test_every_figure_is_one_of_plotly(page):
    assert len(page.figures) == 15
    for variants in page.figures:
        for variant in variants:
            go.Figure({key: variant[key] for key in ("data", "layout")})  # raises where Plotly knows no such property


def test_figures_hold_the_numbers_of_the_model(page):
    traces = [trace for variants in page.figures for variant in variants for trace in variant["data"]]
    prediction = park().predict("high", CASE.test["high"][0])
    (found,) = [t for t in traces if t.get("x") == [float(f"{y:.6g}") for y in CASE.test["high"][1]]]
    assert found["y"] == pytest.approx(prediction.mean, rel=1e-5)
    assert found["error_y"]["array"] == pytest.approx(1.959964 * prediction.std, rel=1e-5)
    (posterior,) = [t for t in traces if t.get("name") == "posterior mean, 95% bars"]
    assert np.column_stack([posterior["x"], posterior["y"]]) == pytest.approx(
        park().aligned("high", CASE.tasks["high"][0])[0], rel=1e-5
    )
    (heat,) = [t for t in traces if t["type"] == "heatmap"]
    assert np.array(heat["z"]) == pytest.approx(park().task_correlation(), rel=1e-5)


def test_names_are_text_wherever_they_stand():
    X, coarse = np.random.default_rng(0).uniform(size=(8, 2)), np.random.default_rng(1).uniform(size=(12, 1))
    data = {
        EVIL: agp.Task(X, np.sin(3 * X[:, 1]), names=["<b>", EVIL]),
        "<i>": agp.Task(coarse, np.sin(3 * coarse[:, 0]), names=[EVIL]),
    }
    gp = agp.AlignedGP("<i>", progress=False).fit(data)
    source = html(collect(gp, None, True), "")
    found = Reader(source)
    assert f"Model of {EVIL}, <i>" in found.text
    assert "<script>alert" not in source
    assert len(found.scripts) == 1  # the page's own; that of Plotly is empty here
    assert EVIL in [row[1] for row in found.rows if len(row) > 1]
    labels = json.dumps([[variant["layout"] for variant in variants] for variants in found.figures])
    assert "&lt;b&gt;" in labels  # Plotly reads elements in labels
    assert "<b>" not in labels
    names = [variant["name"] for variants in found.figures for variant in variants if "name" in variant]
    assert EVIL in names  # the page's script writes them as text


def test_a_sparse_model(page):
    found = read(moved("bayes"), {"fine": tasks()["fine"]}, transfer=False)
    scores = moved("bayes").score("fine", tasks()["fine"])
    assert ["fine", "8 test", number(scores["smse"])] in [row[:3] for row in found.rows]
    assert "transfer=False" in found.text
    assert "The mapping of 'fine' was calibrated" in found.text
    objective = [t["y"] for f in found.figures for v in f for t in v["data"] if t.get("name") == "objective"]
    assert objective[0] == pytest.approx(moved("bayes").history.objective, rel=1e-5)
    assert "transfer" in found.ids  # the correlation of the tasks
    assert "scores" in found.ids


def test_one_common_input_and_a_task_that_is_used_as_given():
    found = read(moved("none"), transfer=False)
    assert "The mapping of 'fine' is used as given: nothing was moved." in found.text
    assert "scores" not in found.ids
    again = read(noisy(), transfer=False)
    labels = [v["layout"]["yaxis"]["title"]["text"] for f in again.figures for v in f]
    assert "observed output" in labels


def test_a_model_of_a_file_says_what_is_left_out(tmp_path):
    found = read(from_file(park(), tmp_path), {"high": CASE.test["high"]})
    assert "holds no training rows. Left out are the scores of left-out rows" in found.text
    assert ["high", "30 test"] in [row[:2] for row in found.rows]
    assert "mapping" not in found.ids
    assert {"found", "scores", "calibration", "inputs", "model", "reproduce"} <= set(found.ids)


def test_tasks_that_share_nothing():
    found = read(moved("none", shared=False, common=None, mappings=None), {"fine": tasks()["fine"]}, transfer=False)
    assert "20 training rows of 2 tasks; nothing is shared between them (shared=False)." in found.text
    assert {row[0] for row in found.rows if "on its own inputs" in row} == {"fine", "coarse"}
    assert {"transfer", "mapping"} & set(found.ids) == set()


def test_one_task_alone():
    gp = agp.AlignedGP(progress=False).fit({"one": tasks()["fine"]})
    found = read(gp)
    assert "8 training rows of 1 task: a Gaussian process of its own." in found.text
    assert {"transfer", "mapping"} & set(found.ids) == set()


def test_the_page_forbids_requests_and_makes_none(tmp_path):
    path = report.write(noisy(), tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    assert f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">' in text
    assert text.count("plotly.js v") == 1
    own = Reader(text)
    assert own.open == []
    assert len(own.scripts) == 2
    assert not re.search(r'(?:src|href)="(?!#|data:)', text.replace(own.scripts[0], ""))
    assert path.stat().st_size < 8e6
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_not_overwritten_unless_told_to(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(agp.DataError, match=r"report.html: there is a file already.*force=True"):
        report.write(noisy(), path)
    assert path.read_text() == "mine"
    assert report.write(noisy(), str(path), force=True) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(agp.DataError, match=r"the folder .*nowhere does not exist"):
        report.write(noisy(), tmp_path / "nowhere" / "report.html")
    with pytest.raises(agp.DataError, match="this is a folder"):
        report.write(noisy(), tmp_path)


def test_a_page_that_cannot_be_finished_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aligngp.data.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        report.write(noisy(), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_without_plotly_the_extra_is_named(tmp_path, monkeypatch):
    original = builtins.__import__

    def missing(name, *arguments, **keywords):
        if name.split(".")[0] == "plotly":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(agp.MissingPackageError, match=r'pip install "aligngp\[report\]"'):
        report.write(noisy(), tmp_path / "report.html")


def test_what_was_passed_wrongly(tmp_path):
    with pytest.raises(agp.NotFittedError, match="not fitted"):
        report.write(agp.AlignedGP(), tmp_path / "report.html")
    with pytest.raises(agp.DataError, match="there is no task 'hihg'"):
        report.write(park(), tmp_path / "report.html", test={"hihg": CASE.test["high"]})


def test_markup_escapes_text_and_attributes():
    assert tag("a", "<&", tag("b", '"'), href='"x"') == '<a href="&quot;x&quot;">&lt;&amp;<b>&quot;</b></a>'
    assert (
        as_json({"a": np.array([1.0, np.nan, 1 / 3]), "b": "</script>"})
        == '{"a":[1.0,null,0.333333],"b":"\\u003c/script>"}'
    )
