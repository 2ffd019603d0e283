"""The accuracy benchmark's runner and tables, with stand-ins for models; the BoTorch worker where it is installed."""

import csv
import sys
from typing import ClassVar

import numpy as np
import pytest
from benchmarks.cases.files import DataMissingError
from benchmarks.cases.instance import Instance
from benchmarks.peers import environment
from instances import small
from scipy.stats import wilcoxon

import aligngp as agp
from aligngp import metrics
from benchmarks import accuracy, accuracy_table, compare


class Constant:
    """A model that predicts each task's training mean with variance 4, and remembers how it was made."""

    made: ClassVar[list] = []

    def __init__(self, common=None, **settings):
        self.common, self.settings, self.tasks = common, settings, {}

    def fit(self, tasks):
        self.tasks = tasks
        Constant.made.append(self)

    def score(self, task, data):
        y = self.tasks[task].y
        return metrics.scores(data[1], np.full(len(data[1]), y.mean()), np.full(len(data[1]), 4.0), y.mean(), y.var())


@pytest.fixture
def stand_in(monkeypatch):
    """The small case, and Constant in place of every model of this package."""
    Constant.made.clear()
    monkeypatch.setattr(accuracy, "PAPER", dict.fromkeys(accuracy.PAPER, Constant))
    monkeypatch.setattr(agp, "AlignedGP", Constant)
    monkeypatch.setattr(accuracy, "CASES", {"small": small})
    monkeypatch.setattr(accuracy_table, "CASES", {"small": small})


def measured(model, seed=0, iterations=None):
    return accuracy.measure(accuracy.Worker(), "small", model, seed, iterations)


# ---- what is fitted and scored ------------------------------------------------------------------------------------


def test_a_row_has_the_scores_of_the_target(stand_in):
    row = measured("HSVLMC", seed=2, iterations=11)
    case = small(2)
    y, new = case.tasks["fine"][1], case.test["fine"][1]
    assert float(row["smse"]) == pytest.approx(np.mean((new - y.mean()) ** 2) / y.var(), rel=1e-5)
    assert float(row["rmse_over_test_sd"]) == pytest.approx(
        np.sqrt(np.mean((new - y.mean()) ** 2)) / new.std(), rel=1e-5
    )
    crps = metrics.crps(new, np.full(5, y.mean()), np.full(5, 4.0))
    assert float(row["crps_over_test_sd"]) == pytest.approx(crps / new.std(), rel=1e-5)
    assert (row["case"], row["model"], row["seed"], row["iterations"], row["note"]) == ("small", "HSVLMC", 2, 11, "")


def test_scores_of_two_targets_are_averaged(stand_in, monkeypatch):
    monkeypatch.setattr(accuracy, "CASES", {"small": lambda seed: small(seed, ("fine", "coarse"))})
    row = measured("HSVLMC-g0")
    case = small(0)
    each = [np.mean((case.test[t][1] - case.tasks[t][1].mean()) ** 2) / case.tasks[t][1].var() for t in case.tasks]
    assert float(row["smse"]) == pytest.approx(np.mean(each), rel=1e-5)
    assert len(Constant.made) == 1 and set(Constant.made[0].tasks) == {"fine", "coarse"}
    measured("SOGP")
    assert [set(gp.tasks) for gp in Constant.made[1:]] == [{"fine"}, {"coarse"}]


def test_each_model_gets_its_settings(stand_in):
    for model in ("IMC", "auto", "auto, no mapping", "exact GP"):
        measured(model, seed=5)
    paper, auto, learned, exact = Constant.made
    plain = {"seed": 5, "progress": False}
    assert paper.settings == {**plain, "num_inducing": 7, "mappings": {"fine": ["b"]}}
    assert auto.settings == {**plain, "mappings": {"fine": ["b"]}}
    assert isinstance(learned.settings["mappings"]["fine"], agp.Learned)
    assert (paper.common, auto.common, learned.common) == ("coarse",) * 3
    assert exact.settings == plain and exact.common is None and set(exact.tasks) == {"fine"}
    assert list(auto.tasks["fine"].names) == ["a", "b"]
    measured("auto", iterations=3)
    assert Constant.made[-1].settings["max_iterations"] == 3


def test_a_fit_that_fails_is_a_row_too(stand_in, monkeypatch):
    def fails(self, tasks):
        raise agp.errors.TrainingError("the objective is NaN.")

    monkeypatch.setattr(Constant, "fit", fails)
    row = measured("HSVLMC")
    assert (row["smse"], row["seconds"], row["note"]) == ("", "", "failed: TrainingError: the objective is NaN.")


def test_the_runner_fits_real_models(monkeypatch):
    monkeypatch.setattr(accuracy, "CASES", {"small": small})
    row = measured("SOGP", iterations=2)
    gp = agp.paper.sogp(num_inducing=7, max_iterations=2, seed=0, progress=False)
    case = small(0)
    expected = gp.fit({"fine": case.tasks["fine"]}).score("fine", case.test["fine"])
    for key in accuracy.SCORES:
        assert float(row[key]) == pytest.approx(expected[key], rel=1e-5)


# ---- what is to be measured ---------------------------------------------------------------------------------------


def test_what_is_wanted(stand_in, monkeypatch, capsys):
    def missing(seed):
        raise DataMissingError("there: expected a file.")

    def apart(seed):
        case = small(seed)
        return Instance(**{**vars(case), "names": {"fine": ("a", "c"), "coarse": ("b",)}})

    monkeypatch.setattr(accuracy, "CASES", {"small": small, "missing": missing, "apart": apart})
    found = accuracy.wanted(["small", "missing", "apart"], ["SOGP", "BoTorch imputation"], 2, None)
    assert [(row["case"], row["model"], row["seed"]) for row in found] == [
        *(("small", model, seed) for model in ("SOGP", "BoTorch imputation") for seed in (0, 1)),
        ("apart", "SOGP", 0),
        ("apart", "SOGP", 1),
    ]
    assert "left out: there: expected a file." in capsys.readouterr().out


def test_a_run_goes_on_where_it_stopped_and_measures_again_when_asked(stand_in, monkeypatch, tmp_path):
    path = tmp_path / "accuracy.csv"

    def main(*options):
        models = ["--models", "SOGP", "auto"]
        monkeypatch.setattr(sys, "argv", ["accuracy", "--cases", "small", *models, "--out", str(path), *options])
        accuracy.main()
        with path.open(newline="") as file:
            return [(row["model"], row["seed"]) for row in csv.DictReader(file)]

    assert main("--repeats", "1") == [("SOGP", "0"), ("auto", "0")]
    assert main("--repeats", "2") == [("SOGP", "0"), ("auto", "0"), ("SOGP", "1"), ("auto", "1")]
    assert len(Constant.made) == 4
    assert sorted(main("--repeats", "1", "--again")) == [("SOGP", "0"), ("SOGP", "1"), ("auto", "0"), ("auto", "1")]
    assert len(Constant.made) == 6
    assert "## small" in path.with_suffix(".md").read_text()


# ---- tables -------------------------------------------------------------------------------------------------------


def written(model, smse, smll, **more):
    plain = {"case": "small", "iterations": "", "note": "", "coverage95": "0.9", "seconds": "2", "cpu_seconds": "1.5"}
    plain |= {"rmse_over_test_sd": "0.5", "crps_over_test_sd": "0.25", **more}
    return [
        {**plain, "model": model, "seed": str(seed), "smse": str(a), "smll": str(b)}
        for seed, (a, b) in enumerate(zip(smse, smll, strict=True))
    ]


def test_the_table_has_mean_deviation_and_median(stand_in):
    text = accuracy_table.tables(written("HSVLMC", (1.0, 2.0, 6.0), (-1.0, -2.0, 0.0)))
    assert f"| HSVLMC | 3 | 3.000 ± {np.std([1, 2, 6]):.3f} | 2.000 | -1.00 ± 0.82 | -1.00 | 0.500 | 0.250 |" in text
    assert "| 90% | 2.0 | 1.5 |" in text and "A small case." in text


def test_failed_fits_are_counted_and_limits_named(stand_in):
    rows = written("HSVLMC", (1.0, 3.0), (0.0, 0.0), iterations="50")
    rows += [{**row, "seed": "2", "smse": "", "smll": "", "note": "failed: NaN"} for row in rows[:1]]
    text = accuracy_table.tables(rows)
    assert "| HSVLMC, 50 iterations | 2 (1 failed) | 2.000 ± 1.000 |" in text
    assert "- HSVLMC: failed: NaN" in text


def test_the_papers_numbers_stand_beside_ours(monkeypatch):
    monkeypatch.setattr(accuracy_table, "CASES", {"sarcos_a": small})
    text = accuracy_table.tables(written("HSVLMC", (1.0,), (0.0,), case="sarcos_a"))
    assert "| 0.058 ± 0.013 | -1.27 ± 0.21 |" in text


def test_paired_tests_are_seed_by_seed(stand_in):
    stream = np.random.default_rng(0)
    ours, theirs = stream.uniform(size=(2, 8)), stream.uniform(size=(2, 8)) + 0.2
    rows = written("auto", *ours) + written("IMC", *theirs)[::-1] + written("SOGP", *ours[:, :3] + 1.0)
    text = accuracy_table.tables(rows)
    cells = ["IMC", "8"]
    for a, b in zip(ours, theirs, strict=True):
        difference = a - b
        cells += [f"{(difference < 0).sum()}", f"{np.median(difference):+.3f}", f"{wilcoxon(a, b)[1]:.3f}"]
    assert "| " + " | ".join(cells) + " |" in text
    assert "| SOGP | 3 | 3 | -1.000 |  | 3 | -1.000 |  |" in text


def test_equal_scores_have_p_one():
    assert compare.Pair(np.zeros(10)).p == 1.0
    assert compare.Pair(np.arange(1.0, 11.0)).p == pytest.approx(2 / 2**10)


# ---- BoTorch ------------------------------------------------------------------------------------------------------


def test_a_worker_that_cannot_fit_is_a_failed_row(stand_in, monkeypatch):
    def ask(self, command):
        raise ArithmeticError("NotPSDError: not positive definite")

    monkeypatch.setattr(accuracy.Worker, "ask", ask)
    assert measured("BoTorch imputation")["note"] == "failed: ArithmeticError: NotPSDError: not positive definite"


def test_what_the_worker_is_told_and_what_becomes_of_its_answer(stand_in, monkeypatch):
    told = {}

    def ask(self, command):
        with np.load(command["file"]) as file:
            told.update(command, **{name: file[name] for name in file.files})
        return {"mean": [3.0] * 5, "variance": [2.0] * 5, "seconds": 1.5, "cpu_seconds": 1.25}

    monkeypatch.setattr(accuracy.Worker, "ask", ask)
    monkeypatch.setattr(accuracy, "BOTORCH_SOURCE_ROWS", 3)
    row = measured("BoTorch heterogeneous", seed=1)
    case = small(1)
    assert (told["model"], told["features"], told["seed"]) == ("heterogeneous", [[0, 1], [1]], 1)
    np.testing.assert_array_equal(told["X0"], case.tasks["fine"][0])
    np.testing.assert_array_equal(told["X_test"], case.test["fine"][0])
    kept = {(float(x), float(y)) for x, y in zip(told["X1"][:, 0], told["y1"], strict=True)}
    assert len(kept) == 3 and kept < {(float(x[0]), float(y)) for x, y in zip(*case.tasks["coarse"], strict=True)}
    assert (row["note"], row["seconds"], row["cpu_seconds"]) == ("coarse: 3 of 4 rows", "1.5", "1.25")
    expected = metrics.nlpd(case.test["fine"][1], np.full(5, 3.0), np.full(5, 2.0))
    assert float(row["nlpd"]) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def worker():
    if not environment.is_current("torch"):
        pytest.skip("BoTorch is not installed: python benchmarks/peers/environment.py torch")
    worker = accuracy.Worker()
    yield worker
    worker.close()


@pytest.mark.parametrize("model", list(accuracy.BOTORCH.values()))
def test_botorch_learns_a_shared_function_in_the_datas_units(worker, tmp_path, model):
    stream = np.random.default_rng(0)
    X, Z = stream.uniform(size=(5, 2)), stream.uniform(size=(25, 1))
    new = np.column_stack([stream.uniform(size=20), np.linspace(0.1, 0.9, 20)])

    def fitted(output_unit, input_unit):
        def truth(b):
            return output_unit * (np.sin(5.0 * b) - 7.0)

        def placed(rows):
            return input_unit * (40.0 + 3.0 * rows)

        file = tmp_path / "instance.npz"
        arrays = {"X0": placed(X), "y0": truth(X[:, 1]), "X1": placed(Z), "y1": truth(Z[:, 0])}
        np.savez(file, X_test=placed(new), **arrays)
        reply = worker.ask({"model": model, "file": str(file), "features": [[0, 1], [1]], "seed": 0, "iterations": 60})
        return np.array(reply["mean"]), np.array(reply["variance"]), truth(new[:, 1])

    mean, variance, truth = fitted(1.0, 1.0)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.35 * truth.std()
    assert variance.min() > 0.0
    # other units change nothing but the units; powers of two, so that not even rounding differs
    far_mean, far_variance, _ = fitted(128.0, 4.0)
    np.testing.assert_allclose(far_mean / 128.0, mean, rtol=1e-9)
    np.testing.assert_allclose(far_variance / 128.0**2, variance, rtol=1e-9)


def test_botorch_says_what_is_wrong(worker):
    with pytest.raises(ArithmeticError, match="model must be one of heterogeneous, imputation; it is 'other'"):
        worker.ask({"model": "other", "file": "", "features": [[0]], "seed": 0})


# ---- variants of the paper's models -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, base, own",
    [
        ("HSVLMC-KL/ND", "hsvlmc", {"mapping_kl_weight": 1.0 / 3.0}),  # 3 rows, one common column
        ("HSVLMC-KL0", "hsvlmc", {"mapping_kl_weight": 0.0}),
        ("HSVLMC-l1", "hsvlmc", {"initial_mapping_lengthscale": 1.0}),
        ("HSVLMC-l1-KL/ND", "hsvlmc", {"initial_mapping_lengthscale": 1.0, "mapping_kl_weight": 1.0 / 3.0}),
        ("HSVLMC-EM-l1", "hsvlmc_em", {"initial_mapping_lengthscale": 1.0}),
    ],
)
def test_variants_change_what_their_names_say(model, base, own):
    keywords, make = accuracy.settings(small(0), model, 4, None)
    plain, _ = accuracy.settings(small(0), {"hsvlmc": "HSVLMC", "hsvlmc_em": "HSVLMC-EM"}[base], 4, None)
    assert make is getattr(agp.paper, base)
    assert keywords == {**plain, **own}


@pytest.mark.filterwarnings("ignore::aligngp.errors.AligngpWarning")  # three rows
def test_rows_of_the_papers_models_say_what_was_learned(monkeypatch):
    monkeypatch.setattr(accuracy, "CASES", {"small": small})
    row = measured("HSVLMC-l1-KL/ND", seed=1, iterations=3)
    case = small(1)
    gp = agp.paper.hsvlmc(
        **{"common": "coarse", "mappings": case.mappings, "num_inducing": 7, "max_iterations": 3, "seed": 1},
        **{"progress": False, "mapping_kl_weight": 1.0 / 3.0, "initial_mapping_lengthscale": 1.0},
    )
    gp.fit({name: agp.Task(*table, names=list(case.names[name])) for name, table in case.tasks.items()})
    assert row["steps"] == 3
    assert float(row["nu_g0"]) == pytest.approx(agp.parameters.resolve(gp.model).mappings[0].prior_variance, rel=1e-5)
    assert measured("SOGP", iterations=2)["nu_g0"] == "" and measured("auto")["steps"] == ""
