"""Figures hold the numbers of the model, have their labels, and are not empty."""

import builtins

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

import aligngp as agp
from aligngp.findings.alignment import nu_g0
from aligngp.findings.known import coverage_curve, known
from aligngp.findings.relevance import relevance
from estimators import COARSE_X, FINE_X, FINE_Y, NEW, make, moved, tasks
from pictures import from_file, noisy, park

CASE = agp.datasets.park(num_low=20, num_test=30)
X, Y = CASE.tasks["high"]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(ax) -> Axes:
    """The Axes, after they were drawn with all that belongs to them, more than one colour."""
    assert isinstance(ax, Axes)
    ax.figure.canvas.draw()
    assert len(np.unique(np.asarray(ax.figure.canvas.buffer_rgba()).reshape(-1, 4), axis=0)) > 10
    return ax


def line(ax, label):
    """The data of the line of that label."""
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return np.asarray(found.get_xydata())


def test_predictions_over_one_input():
    ax = drawn(park().plot.predictions("high", "x3", at={"x4": 0.5}, level=0.9))
    mean = line(ax, "mean")
    rows = np.tile(X.mean(axis=0), (len(mean), 1))
    rows[:, 3], rows[:, 2] = 0.5, mean[:, 0]
    prediction = park().predict("high", rows)
    assert mean[:, 1] == pytest.approx(prediction.mean)
    band = ax.collections[0].get_paths()[0].vertices
    lower, upper = prediction.interval(0.9)
    assert band[:, 1].min() == pytest.approx(lower.min())
    assert band[:, 1].max() == pytest.approx(upper.max())
    assert np.sort(line(ax, "inputs of training rows")[:, 0]) == pytest.approx(np.sort(X[:, 2]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x3", "y")
    assert "x4 = 0.5" in ax.get_title()
    assert "90% interval" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_predictions_of_a_task_of_one_input_show_its_rows():
    ax = drawn(noisy().plot.predictions("source"))
    case = agp.datasets.noisy(num_source=25)
    assert line(ax, "training rows") == pytest.approx(np.column_stack([case.tasks["source"][0][:, 0],
                                                                       case.tasks["source"][1]]))  # fmt: skip
    assert ax.get_title() == "source"


def test_predictions_over_two_inputs():
    ax = drawn(park().plot.predictions("low", latent=True))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x3", "x4")
    assert line(ax, "training rows") == pytest.approx(CASE.tasks["low"][0])
    filled = ax.collections[0]
    rows = np.stack(np.meshgrid(*[np.linspace(*ends, 41) for ends in (ax.get_xlim(), ax.get_ylim())]), -1)
    mean = park().predict("low", rows.reshape(-1, 2), latent=True).mean
    assert filled.zmin == pytest.approx(mean.min(), rel=1e-6)
    assert filled.zmax == pytest.approx(mean.max(), rel=1e-6)
    assert ax.figure.axes[1].get_ylabel() == "mean of y"


def test_a_model_of_a_file_is_drawn_without_rows(tmp_path):
    gp = from_file(park(), tmp_path)
    drawn(gp.plot.predictions("low"))
    ax = drawn(gp.plot.predictions("high", "x1"))
    assert "inputs of training rows" not in [one.get_label() for one in ax.lines]
    drawn(gp.plot.aligned("high", X))
    with pytest.raises(agp.NotFittedError, match=r"'high'.*no training rows.*data="):
        gp.plot.observed("high")


@pytest.mark.parametrize("rows", [None, CASE.test["high"]])
def test_predicted_against_observed(rows):
    ax = drawn(park().plot.observed("high", rows))
    (bars,) = ax.containers
    y, mean = bars.lines[0].get_xydata().T
    found = known(park(), "high", rows)
    assert y == pytest.approx(found.y)
    assert mean == pytest.approx(found.mean)
    segments = np.array(bars.lines[2][0].get_segments())
    assert segments[:, :, 1] == pytest.approx(np.stack(found.interval(), axis=1))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("observed y", "predicted y")
    assert f"{found.inside} of them within their 95% bars" in ax.get_title()
    assert ("left out" if rows is None else "test rows") in ax.get_title()


def test_the_panels_of_several_models():
    predictions = {"one": park().predict("high", CASE.test["high"][0]), "two": park().predict("high", X[[0] * 30])}
    panels = agp.plots.predicted_against_observed(predictions, CASE.test["high"][1], label="force $", title="Both")
    assert len(panels) == 2
    drawn(panels[0])
    assert panels[1].containers[0].lines[0].get_ydata() == pytest.approx(predictions["two"].mean)
    assert panels[0].get_ylabel() == r"predicted force \$"


def test_aligned_inputs_of_the_paper():
    ax = drawn(park().plot.aligned("high"))
    assert line(ax, "prior mapping") == pytest.approx(X[:, 2:])
    assert line(ax, "posterior mean, 95% bars") == pytest.approx(park().aligned("high", X)[0])
    assert line(ax, "rows of low") == pytest.approx(CASE.tasks["low"][0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x3", "x4")


def test_aligned_inputs_of_one_common_input():
    ax = drawn(moved("bayes").plot.aligned("fine"))
    mean, variance = moved("bayes").aligned("fine", FINE_X)
    found = line(ax, "posterior mean, 95% bars")
    assert found == pytest.approx(np.column_stack([mean[:, 0], FINE_Y]))
    (bars,) = ax.containers
    ends = np.array(bars.lines[2][0].get_segments())[:, :, 0]
    assert ends[:, 1] - ends[:, 0] == pytest.approx(2 * 1.959964 * np.sqrt(variance[:, 0]))
    assert ax.get_ylabel() == "observed y"
    passed = drawn(moved("bayes").plot.aligned("fine", NEW))
    assert line(passed, "prior mapping")[:, 1] == pytest.approx(moved("bayes").predict("fine", NEW).mean)
    assert passed.get_ylabel() == "predicted y"


def test_which_common_inputs_are_drawn():
    ax = drawn(park().plot.aligned("high", columns=["x4"]))
    assert ax.get_xlabel() == "x4"
    with pytest.raises(agp.DataError, match=r"common domain.*no column 'x1'.*'x3'"):
        park().plot.aligned("high", columns=["x1"])
    with pytest.raises(agp.SettingError, match="one or two different inputs"):
        park().plot.aligned("high", columns=["x3", "x3"])


def test_the_residual_of_the_mapping():
    gp = moved("bayes")
    ax = drawn(gp.plot.residual("fine"))
    (bars,) = ax.containers
    x, moved_by = bars.lines[0].get_xydata().T
    mean, _ = gp.aligned("fine", FINE_X)
    assert moved_by == pytest.approx((mean[:, 0] - FINE_X[:, 1]) / COARSE_X.std())
    assert x == pytest.approx((FINE_X[:, 1] - COARSE_X.mean()) / COARSE_X.std())
    against = drawn(gp.plot.residual("fine", NEW, against="x1"))
    assert against.containers[0].lines[0].get_xdata() == pytest.approx(NEW[:, 0])
    assert against.get_xlabel() == "x1"
    two = drawn(park().plot.residual("high", against="x2"))
    ends = np.array([bars.lines[2][0].get_segments() for bars in two.containers])
    for (low, high), values in ((two.get_xlim(), ends[..., 0]), (two.get_ylim(), ends[..., 1])):
        assert low < values.min() < values.max() < high
        assert values.max() - values.min() > 0.7 * (high - low)
    first, second = (bars.lines[0].get_transform().transform([0.5, 0.0]) for bars in two.containers)
    assert second - first == pytest.approx([4 / 72 * two.figure.dpi, 0.0])  # side by side, 4 points
    with pytest.raises(agp.SettingError, match=r"'coarse'.*has no mapping.*'fine'"):
        gp.plot.residual("coarse")


def test_nu_g0_over_fits():
    gps = [moved("bayes", seed=seed) for seed in (3, 4, 5)]
    for ax in (drawn(agp.plots.nu_g0(gps)), drawn(gps[0].plot.nu_g0(*gps[1:]))):
        assert 10 ** ax.lines[-1].get_ydata() == pytest.approx([nu_g0(gp, "fine") for gp in gps])
        assert [label.get_text() for label in ax.get_xticklabels()] == ["fine"]
        assert len(ax.collections) == 1  # the violin
        assert ax.get_title() == "3 fits"
    ax = drawn(gps[0].plot.nu_g0())
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(set(labels)) == len(labels) > 2
    with pytest.raises(agp.DataError, match="no fit"):
        agp.plots.nu_g0([])
    with pytest.raises(agp.DataError, match=r"same tasks.*'fine'.*'high'"):
        agp.plots.nu_g0([gps[0], park()])


def test_the_objective_and_its_terms():
    gp = moved("none")
    ax = drawn(gp.plot.objective())
    assert ax.lines[0].get_ydata() == pytest.approx(gp.history.objective)
    assert ax.lines[0].get_xdata() == pytest.approx(gp.history.iteration)
    beside = ax.figure.axes[1]
    widths = dict(zip([text.get_text() for text in beside.get_yticklabels()],
                      [bar.get_width() for bar in beside.patches], strict=True))  # fmt: skip
    terms = gp.elbo()
    assert widths["total"] == pytest.approx(terms["total"])
    assert widths["\N{MINUS SIGN} latent kl"] == pytest.approx(-terms["latent_kl"])
    assert sum(widths.values()) == pytest.approx(2 * terms["total"])  # what is drawn adds up
    _, own = plt.subplots()
    assert gp.plot.objective(ax=own) is own
    assert len(own.figure.axes) == 1


def test_the_objective_by_term_while_adam_trains():
    gp = make(calibration="bayes", inference="adam", max_iterations=30).fit(tasks())
    ax = drawn(gp.plot.objective())
    lines = {line.get_label(): line.get_ydata() for line in ax.figure.axes[1].lines}
    assert {"expected log likelihood", "alignment penalty", "mapping penalty", "latent kl"} <= set(lines)
    assert sum(lines.values()) == pytest.approx(gp.history.objective)
    assert np.all(lines["latent kl"] <= 0.0)


def test_a_mixture_has_terms_and_no_history_of_an_objective():
    with pytest.raises(agp.SettingError, match=r"no one objective.*gp\.plot\.terms"):
        park().plot.objective()
    ax = drawn(park().plot.terms())
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(list(park().elbo().values()))


def test_calibration():
    ax = drawn(park().plot.calibration("high", CASE.test["high"]))
    pit = known(park(), "high", CASE.test["high"]).pit()
    curve = line(ax, "observed")
    assert curve[:, 1] == pytest.approx(coverage_curve(pit, curve[:, 0]))
    (inset,) = ax.child_axes
    density, _ = np.histogram(pit, bins=len(inset.patches), range=(0, 1), density=True)
    assert [bar.get_height() for bar in inset.patches] == pytest.approx(density)
    assert ax.get_xlabel() == "probability of the interval"


def test_task_correlation():
    ax = drawn(park().plot.correlation())
    assert np.asarray(ax.images[0].get_array()) == pytest.approx(park().task_correlation())
    assert [text.get_text() for text in ax.get_xticklabels()] == ["high", "low"]
    assert ax.texts[1].get_text() == f"{park().task_correlation()[0, 1]:.2f}"


def test_relevance():
    ax = drawn(park().plot.relevance("high"))
    found = relevance(park(), "high")
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([*found.common, *found.own])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["x3", "x4", "x1", "x2", "x3", "x4"]


def test_partial_dependence():
    ax = drawn(park().plot.partial_dependence("high", "x4"))
    average = line(ax, "average over 6 rows")
    rows = X.copy()
    rows[:, 3] = average[-1, 0]
    assert average[-1, 1] == pytest.approx(park().predict("high", rows, latent=True).mean.mean())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x4", "predicted y")


def test_every_figure_goes_into_the_axes_that_are_passed_and_to_a_file(tmp_path):
    figure, panels = plt.subplots(2, 4, figsize=(18, 9), layout="constrained")
    plot, left = park().plot, iter(panels.ravel())
    calls = [
        lambda ax: plot.predictions("high", "x1", ax=ax),
        lambda ax: plot.observed("high", ax=ax),
        lambda ax: plot.aligned("high", ax=ax),
        lambda ax: plot.residual("high", ax=ax),
        lambda ax: plot.calibration("low", ax=ax),
        lambda ax: plot.correlation(ax=ax),
        lambda ax: plot.relevance("high", ax=ax),
        lambda ax: plot.partial_dependence("high", "x2", ax=ax),
    ]
    for call, ax in zip(calls, left, strict=True):
        assert call(ax) is ax
    figure.savefig(tmp_path / "all.png", dpi=40)
    assert (tmp_path / "all.png").stat().st_size > 20_000
    with pytest.raises(agp.SettingError, match="ax: expected one matplotlib Axes, got ndarray"):
        plot.observed("high", ax=panels)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    original = builtins.__import__

    def missing(name, *arguments, **keywords):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(agp.MissingPackageError, match=r'pip install "aligngp\[plot\]"') as caught:
        park().plot.observed("high")
    assert caught.value.name == "matplotlib"
    assert isinstance(caught.value, ModuleNotFoundError)


def test_a_model_that_is_not_fitted_has_no_figures():
    with pytest.raises(agp.NotFittedError, match="not fitted"):
        _ = agp.AlignedGP().plot
