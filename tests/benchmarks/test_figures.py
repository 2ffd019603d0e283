"""Figures from rows and from single fits: what is drawn stands where the numbers say, and says what it is."""

import json

import numpy as np
import pytest
from benchmarks.compare import scores
from benchmarks.figures import boxes, fits, single
from matplotlib.colors import to_rgba
from test_reading import made

import aligngp as agp
from benchmarks import figures, rows


def panels(figure):
    return [ax for ax in figure.axes if ax.get_visible()]


def texts(figure):
    return {text.get_text() for ax in panels(figure) for text in (ax.title, ax.xaxis.label, ax.yaxis.label)}


@pytest.fixture(autouse=True)
def _closed():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_boxes_have_every_model_and_the_papers_mean():
    smse, smll = np.array([0.1, 0.2, 0.4, 0.8]), np.array([-2.0, -1.0, 0.0, 50.0])
    found = scores(
        made("disk", "SOGP", smse, smll) + made("disk", "auto", smse / 2, smll) + made("noisy", "auto", smse)
    )
    figure = boxes.boxes(found, {"the disk": "disk", "noisy": "noisy"}, "Cases", ("SOGP", "IMC", "auto"))
    upper, noisy, lower, _ = panels(figure)
    assert [label.get_text() for label in upper.get_yticklabels()] == ["SOGP", "auto"]
    assert [ax.get_title() for ax in (upper, noisy)] == ["the disk", "noisy"]
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("SMSE (lower is better)", "SMLL (lower is better)")
    assert figure.get_suptitle() == "Cases\na dot an instance; a red diamond is the paper's mean"
    dots = {tuple(line.get_xdata()) for line in upper.lines if line.get_marker() == "."}
    assert dots == {tuple(smse), tuple(smse / 2)}
    medians = [line.get_xdata()[0] for line in upper.lines if line.get_linewidth() == 2]
    assert medians == pytest.approx([0.3, 0.15])
    (diamond,) = [line for line in lower.lines if line.get_marker() == "D"]
    assert (diamond.get_xdata()[0], diamond.get_ydata()[0]) == (16.2522, 0)
    assert not [line for line in noisy.lines if line.get_marker() == "D"]
    assert upper.get_xscale() == "log" and lower.get_xscale() == "symlog"
    assert upper.get_ylim()[0] > upper.get_ylim()[1], "the first model stands on top"


def test_figures_of_rows_are_those_that_have_rows():
    found = scores(made("noisy", "auto", [1.0]) + made("sarcos_a_d8", "SOGP", [0.5, 0.25]))
    drawn = figures.from_rows(found, {})
    assert set(drawn) == {"boxes_toys", "study_dimensions"}
    assert [ax.get_title() for ax in panels(drawn["study_dimensions"])[:1]] == ["D2 = 8"]
    assert "nu_g0" in figures.from_rows({}, {("park", "HSVLMC"): np.array([0.1, 0.2, 0.3])})


def test_violins_stand_on_the_learned_variances():
    learned = {
        ("noisy", "HSVLMC"): np.array([1e-6, 1e-3, 1e-1]),
        ("park", "HSVLMC"): np.array([1e-4, 1e-2]),
        ("park", "HSVLMC-l1-KL/ND"): np.array([1.0, 0.1, 0.2]),
    }
    figure = single.violins(learned)
    noisy, park = panels(figure)
    assert (noisy.get_title(), park.get_title()) == ("noisy", "park") and "nu_{g_0}" in noisy.get_ylabel()
    assert [label.get_text() for label in park.get_xticklabels()] == ["HSVLMC", "HSVLMC\nl1-KL/ND"]
    (dots,) = [line for line in noisy.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots.get_ydata(), [-6.0, -3.0, -1.0])
    assert len(park.collections) == 1, "two dots are no violin"
    (line,) = [line for line in noisy.lines if line.get_linestyle() == "--"]
    assert line.get_ydata()[0] == pytest.approx(np.log10(1.5e-3))
    assert noisy.yaxis.get_major_formatter()(-2.0, 0) == "0.01"


NOISY = {
    "model": "HSVLMC", "seed": 3, "target": "high", "common": "low", "x1": [0.0, 1.0, 2.0],
    "curves": {"high": {"mean": [1.0, 2.0, 3.0], "std": [0.5, 0.5, 0.5]}, "low": {"mean": [0.0] * 3, "std": [0.1] * 3}},
    "training": {"high": [[0.5, 1.5], [1.0, 2.0]], "low": [[0.1], [0.0]]}, "test": [[1.0], [2.0]],
    "prior": [0.5, 1.5], "posterior": [0.6, 1.4],
}  # fmt: skip


def test_the_noisy_picture_has_both_tasks_and_both_alignments():
    (ax,) = panels(single.noisy(NOISY))
    assert ax.get_title() == "noisy: HSVLMC, seed 3; crosses are training rows"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "y")
    lines = {(line.get_linestyle(), line.get_xdata()[0]) for line in ax.lines if len(set(line.get_xdata())) == 1}
    assert {(":", 0.6), (":", 1.4), ("-", 0.5), ("-", 1.5)} <= lines
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(3.0 + 1.959964 * 0.5) and band.min() == pytest.approx(1.0 - 1.959964 * 0.5)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(legend) == 5 and "posterior aligned input" in legend and "y2 (source): mean and 95% band" in legend


def test_the_park_picture_has_predictions_above_and_aligned_inputs_below():
    one = {"mean": [1.0, 2.0, 9.0], "std": [1.0, 1.0, 1.0], "prior": [[0.0, 0.5]], "deviation": [[0.1, 0.2]]}
    models = {"HSVLMC-g0": {**one, "posterior": [[0.0, 0.5]]}, "HSVLMC": {**one, "posterior": [[0.25, 0.6]]}}
    kept = {"seed": 0, "columns": ["x3", "x4"], "observed": [1.5, 2.5, 3.0], "source": [[0.3, 0.3]], "models": models}
    figure = single.park(kept)
    upper, moved_upper, lower, moved = panels(figure)
    assert upper.get_title() == "HSVLMC-g0\n67% within their 95% bars" and moved_upper.get_title().startswith(
        "HSVLMC\n"
    )
    assert (upper.get_ylabel(), lower.get_xlabel(), lower.get_ylabel()) == ("predicted y1", "x3", "x4")
    assert (lower.get_title(), moved.get_title()) == ("moved by up to 0", "moved by up to 0.25")
    (circle,) = [line for line in moved.lines if line.get_marker() == "o"]
    assert (circle.get_xdata()[0], circle.get_ydata()[0]) == (0.25, 0.6)
    assert to_rgba(circle.get_markeredgecolor()) == to_rgba(single.RED)
    (triangle,) = [line for line in moved.lines if line.get_marker() == "^"]
    assert (triangle.get_xdata()[0], triangle.get_ydata()[0]) == (0.0, 0.5)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "source rows", "prior mapping", "posterior, 95% bars"
    ]  # fmt: skip


def test_fits_are_made_once_and_are_those_of_the_benchmark(tmp_path, monkeypatch):
    made_of = []
    monkeypatch.setattr(fits, "noisy", lambda seed: made_of.append(seed) or {"x": 1})
    monkeypatch.setattr(fits, "park", lambda seed: {"x": 2})
    path = tmp_path / "fits.json"
    said = []
    kept = fits.kept(path, said.append)
    assert kept["noisy"]["x"] == 1 and kept["park"]["seed"] == 0 and "revision" in kept["park"]
    assert fits.kept(path, said.append) == kept == json.loads(path.read_text()) and made_of == [0] and len(said) == 2
    fits.kept(path, said.append, again=True)
    assert made_of == [0, 0]


def test_what_is_kept_of_the_noisy_case_is_what_the_model_says(monkeypatch):
    real = agp.paper.hsvlmc
    monkeypatch.setitem(fits.settings.__globals__["PAPER"], "HSVLMC", lambda *a, **k: real(*a, **k, max_iterations=3))
    kept = fits.noisy(1)
    case = agp.datasets.noisy(seed=1)
    X, y = case.tasks[case.target]
    gp = real(common=case.common, mappings=case.mappings, num_inducing=30, max_iterations=3, seed=1, progress=False)
    gp.fit({name: agp.Task(*table, names=list(case.names[name])) for name, table in case.tasks.items()})
    point = np.array([[kept["x1"][17], X[:, 1].mean()]])
    assert kept["curves"][case.target]["mean"][17] == pytest.approx(gp.predict(case.target, point).mean[0], rel=2e-3)
    np.testing.assert_allclose(kept["posterior"], gp.aligned(case.target, X)[0][:, 0], rtol=1e-4)
    np.testing.assert_allclose(kept["prior"], X[:, 0], rtol=1e-4)
    np.testing.assert_allclose(kept["training"][case.target], [X[:, 0], y], rtol=1e-4)


def test_all_figures_are_drawn_into_the_folder_beside_the_rows(tmp_path, monkeypatch):
    park = {"mean": [1.0], "std": [1.0], "prior": [[0.0, 0.5]], "posterior": [[0.1, 0.5]], "deviation": [[0.1, 0.1]]}
    kept = {
        "noisy": NOISY,
        "park": {"seed": 0, "columns": ["x3", "x4"], "observed": [1.0, 2.0], "source": [[0.1, 0.2]]}
        | {"models": {"HSVLMC": {**park, "mean": [1.0, 2.0], "std": [0.1, 0.1]}}},
    }
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "fits.json").write_text(json.dumps(kept))
    for row in made("park", "auto", [0.5, 0.25]):
        rows.append(tmp_path / "rows.csv", row)
    files = figures.draw(tmp_path / "rows.csv", lambda text: pytest.fail("a fit was made"))
    assert {file.name for file in files} == {"boxes_toys.png", "nu_g0.png", "noisy.png", "park.png"}
    for file in files:
        assert file.parent == tmp_path / "figures"
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG") and 5_000 < len(content) < 200 * 1024


def test_committed_figures_are_small():
    found = list((rows.RESULTS / "figures").iterdir())
    assert {"park.png", "noisy.png", "nu_g0.png", "boxes_toys.png", "boxes_real.png"} <= {file.name for file in found}
    assert all(file.stat().st_size < 200 * 1024 for file in found)
