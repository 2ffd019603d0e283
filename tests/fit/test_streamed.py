"""Fits to rows that are streamed: the batches that training sees, the best q(u) over all rows, what is refused."""

import logging
from dataclasses import replace
from unittest import mock

import jax
import numpy as np
import pytest

import aligngp as agp
from aligngp import refits
from aligngp.data import stream as stream_module
from aligngp.data.stream import Batcher
from aligngp.data.tasks import read_tasks
from aligngp.fit.all_rows import best_over_all_rows
from aligngp.fit.collapse import with_best_posterior
from aligngp.fit.feed import Feed, TrainingData, step_batch
from aligngp.fit.natural import NaturalSettings, train_natural
from aligngp.fit.pipeline import _streamed
from streams import matrix, table, write
from training import KEY, assert_same, case, numbers

SETTINGS = {"calibration": "none", "inference": "svi", "num_inducing": 12, "progress": False, "residual": True}


def tasks(folder, shards=1, rows=700, group=90):
    """A small task in memory and a streamed one, and the same with all rows in memory."""
    path = write(folder / "coarse.parquet", table(rows, seed=1), group)
    fine = table(40, seed=2, dimensions=3)
    streamed = {"fine": fine, "coarse": agp.Parquet(path, stream=True, shards=shards)}
    return streamed, {"fine": fine, "coarse": table(rows, seed=1)}


def problem(folder, shards=1, **keywords):
    """The case of rows in memory, and the data of the streamed one."""
    streamed, whole = tasks(folder, shards)
    made = case(tasks={name: agp.Task(one, "zeta") for name, one in whole.items()}, **{"num_inducing": 5, **keywords})
    read = read_tasks(streamed, "zeta")
    streams = tuple(_streamed(made.frame, at, one, "float64") for at, one in enumerate(read))
    return made, TrainingData(made.batches, (None, 64), made.frame.names, streams)


def test_the_frame_is_that_of_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_module, "SAMPLE_ROWS", 50)
    streamed, whole = tasks(tmp_path)
    fits = [agp.AlignedGP("coarse", max_iterations=1, **SETTINGS).fit(one, output="zeta") for one in (streamed, whole)]
    one, other = (fit._distinct()[0] for fit in fits)
    assert one.rows == other.rows == (40, 700)
    for found, expected in zip(
        one.frame.inputs + one.frame.outputs, other.frame.inputs + other.frame.outputs, strict=True
    ):
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-10)
    np.testing.assert_allclose(one.frame.training_outputs, other.frame.training_outputs, rtol=1e-10)


@pytest.mark.parametrize("shards", [1, 3])
def test_steps_see_the_stream_standardised(tmp_path, shards):
    made, data = problem(tmp_path, shards)
    data = replace(data, batch_sizes=(16, 63))
    source = data.streams[1].stream
    batcher = Batcher(source, 1, 9, 63)
    raw = batcher.draw(0, 30)
    batcher.close()
    with Feed(data, 9, 30, 7) as feed, Feed(data, 9, 30, 7) as later:
        done = 0
        while done < 30:
            count, parts = feed.draw(done)
            assert count == min(7, 30 - done)
            for at in range(count):
                fine = step_batch(made.batches[0], parts[0], at, 40 / 16)
                assert fine.y.shape == (16,)
                found = step_batch(None, parts[1], at, 700 / 63)
                values = raw[done + at]
                expected = made.frame.batch(1, values[:, :-1], values[:, -1])
                np.testing.assert_allclose(found.rows.own, expected.rows.own, rtol=1e-12, atol=1e-14)
                np.testing.assert_allclose(found.rows.nominal, expected.rows.nominal, rtol=1e-12, atol=1e-14)
                np.testing.assert_allclose(found.y, expected.y, rtol=1e-12, atol=1e-14)
                assert found.scale == 700 / 63
            done += count
        _, again = later.draw(14)  # from the middle
        _, expected = feed.draw(14)
        jax.tree.map(np.testing.assert_array_equal, again, expected)


def test_training_on_a_stream_is_training_on_its_batches(tmp_path):
    """The same steps as on a table in memory that holds the batches one after the other."""
    made, data = problem(tmp_path, residual=True)
    count, settings = 12, NaturalSettings(iterations=12, learning_rate=1e-2)
    found, history, _ = train_natural(made.start("none"), data, KEY, 3, settings)
    batcher = Batcher(data.streams[1].stream, 1, 3, 64)
    raw = batcher.draw(0, count).reshape(-1, 3)
    batcher.close()
    in_memory = replace(
        data,
        batches=(made.batches[0], made.frame.batch(1, raw[:, :-1], raw[:, -1])),
        streams=(),
        batch_sizes=(None, 64),
    )

    class InOrder:
        drawn = 0

        def __init__(self, *arguments):
            pass

        def draw(self, number):
            first, self.drawn = self.drawn, self.drawn + number
            return None, np.arange(64 * first, 64 * (first + number)).reshape(number, 64)

        def skip(self, number):
            self.drawn += number

    with (
        mock.patch("aligngp.fit.feed.Batches", InOrder),
        mock.patch.object(TrainingData, "scales", (1.0, 700 / 64)),
    ):
        expected, other, _ = train_natural(made.start("none"), in_memory, KEY, 3, settings)
    np.testing.assert_allclose(history.objective, other.objective, rtol=1e-10)
    for path, value in numbers(found).items():
        np.testing.assert_allclose(value, numbers(expected)[path], rtol=1e-6, atol=1e-8, err_msg=path)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("residual", [False, True])
def test_the_best_q_of_u_over_a_stream_is_that_of_all_rows(tmp_path, monkeypatch, residual, shards):
    monkeypatch.setattr(stream_module, "BLOCK_ROWS", 32)
    monkeypatch.setattr("aligngp.fit.all_rows.BLOCK_ROWS", 32)
    made, data = problem(tmp_path, shards, residual=residual)
    model = made.start("none")
    found = best_over_all_rows(model, data)
    assert_same(found, with_best_posterior(model, made.batches), atol=1e-8)


def test_the_terms_of_the_objective_are_those_of_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_module, "SAMPLE_ROWS", 50)
    streamed, whole = tasks(tmp_path)
    gp = agp.AlignedGP("coarse", max_iterations=5, **SETTINGS).fit(streamed, output="zeta")
    terms, expected = gp.elbo(), gp.elbo({name: agp.Task(one, "zeta") for name, one in whole.items()})
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(terms[name], value, rtol=1e-9, err_msg=name)


def test_a_streamed_source_stands_in_the_mixture_by_a_sample(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(stream_module, "SAMPLE_ROWS", 60)
    streamed, _ = tasks(tmp_path)
    gp = agp.AlignedGP("coarse", hyperparameters="map", progress=False)
    with caplog.at_level(logging.INFO, "aligngp"):
        gp.fit(streamed, output="zeta")
    assert "task 'coarse': the mixture of exact GPs learns from a sample of 60 rows" in caplog.text
    assert gp._distinct()[0].rows == (40, 700)
    assert gp.score("fine", table(200, seed=5, dimensions=3))["smse"] < 0.1
    scores = gp.training_scores()
    assert (scores["fine"]["rows"], scores["coarse"]["rows"]) == (40, 60)
    assert gp.transfer_report("fine", rows=20).rows[0].rows == 20


def test_the_transfer_report_compares_fits_to_the_same_sample(tmp_path, monkeypatch):
    """With one fit to all rows of the stream and the others to a sample, a difference would say nothing."""
    monkeypatch.setattr(stream_module, "SAMPLE_ROWS", 60)
    seen = []
    fit_model = refits.fit_model

    def counted(frame, given, *rest):
        seen.append({one.name: one.rows for one in given})
        return fit_model(frame, given, *rest)

    monkeypatch.setattr(refits, "fit_model", counted)
    gp = agp.AlignedGP("coarse", max_iterations=20, **SETTINGS).fit(tasks(tmp_path)[0], output="zeta")
    test = {"fine": table(30, seed=6, dimensions=3)}
    gp.transfer_report("fine", test=test)
    assert {"fine": 40, "coarse": 60} in seen
    assert all(one.get("coarse", 60) == 60 for one in seen)


def test_how_it_is_trained_is_chosen_and_said(tmp_path, caplog):
    streamed, _ = tasks(tmp_path)
    gp = agp.AlignedGP("coarse", calibration="none", num_inducing=5, max_iterations=2, progress=False)
    with caplog.at_level(logging.INFO, "aligngp"):
        gp.fit(streamed, output="zeta")
    assert "inference svi (the rows of 'coarse' are streamed)" in caplog.text
    assert "700 rows in 8 row groups of 1 files are streamed" in caplog.text


@pytest.mark.parametrize(
    "keywords, words",
    [
        ({"inference": "collapsed"}, "inference='collapsed' takes all rows in memory, .* task 'coarse' are streamed"),
        ({"inference": "adam"}, "inference='adam' takes all rows in memory"),
        ({"batch_size": {"coarse": 65}}, "task 'coarse': expected a multiple of its 2 shards, got 65"),
    ],
)
def test_what_needs_all_rows_is_refused(tmp_path, keywords, words):
    streamed, _ = tasks(tmp_path, shards=2)
    with pytest.raises(agp.SettingError, match=words):
        agp.AlignedGP("coarse", **{**SETTINGS, "max_iterations": 2, **keywords}).fit(streamed, output="zeta")


def test_calibrations_that_know_rows_are_refused(tmp_path):
    streamed, _ = tasks(tmp_path)
    swapped = {"coarse": table(40, seed=2), "fine": streamed["coarse"]}
    with pytest.raises(agp.SettingError, match="task 'fine': calibration='free' has parameters for every row"):
        agp.AlignedGP("coarse", calibration="free", progress=False).fit(swapped, output="zeta")
    tabulated = agp.AlignedGP("coarse", mappings={"fine": agp.Tabulated(np.zeros((700, 2)))}, progress=False)
    with pytest.raises(agp.SettingError, match=r"task 'fine': its rows are streamed, and agp\.Tabulated holds"):
        tabulated.fit(swapped, output="zeta")


@pytest.mark.parametrize("kind", ["bayes", "linear"])
def test_calibrated_mappings_are_trained_on_streams_too(tmp_path, kind):
    path = write(tmp_path / "fine.parquet", table(600, seed=3, dimensions=3), 100)
    given = {"fine": agp.Parquet(path, stream=True), "coarse": table(300, seed=4)}
    gp = agp.AlignedGP("coarse", **{**SETTINGS, "calibration": kind, "max_iterations": 200, "batch_size": 64})
    gp.fit(given, output="zeta")
    assert gp.score("fine", table(200, seed=5, dimensions=3))["smse"] < 0.1


def test_predictions_of_a_streamed_fit_are_as_good(tmp_path):
    rows, test = table(3000, seed=1), matrix(table(300, seed=9))
    path = write(tmp_path / "coarse.parquet", rows, 250)
    keywords = {"calibration": "none", "num_inducing": 20, "max_iterations": 600, "progress": False, "batch_size": 128}
    found = []
    for one in (agp.Parquet(path, stream=True, shards=3), rows):
        keywords["batch_size"] = 126
        gp = agp.AlignedGP(inference="svi", **keywords).fit({"coarse": one}, output="zeta")
        found.append(gp.score("coarse", (test[:, :2], test[:, 2]))["rmse"])
    assert found[0] < 0.06 and abs(found[0] - found[1]) < 0.003  # the noise alone is 0.05
