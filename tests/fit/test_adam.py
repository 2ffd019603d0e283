"""The training loop: what it computes, that nothing outside of it changes the result, and how it ends."""

import hashlib
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from aligngp.data.batches import Batches
from aligngp.errors import AligngpWarning
from aligngp.fit import adam
from aligngp.fit.adam import AdamSettings, History, ended, stalled, train
from aligngp.mappings.contract import Rows
from aligngp.objective.elbo import TERMS, TaskBatch, elbo
from aligngp.parameters import join, resolve, split
from training import KEY, QUICK, assert_same, case, numbers

SMALL = case()
PLAIN = SMALL.start("none")
BATCHED = SMALL.data(None, 4)
"""Batches of 4 of the 9 coarse rows: the objective is random, though no aligned input is."""


def by_hand(model, batches, sizes, seed, settings):
    """Steps of optax.adam in a Python loop: the final model and the bounds in front of every step."""
    trainable, rest = split(model)
    counts = [batch.y.shape[0] for batch in batches]
    source = Batches(counts, sizes, seed)
    optimiser = optax.adam(settings.learning_rate)
    memory, bounds = optimiser.init(trainable), []

    @jax.jit
    def gradient(trainable, chosen, key):
        def negative(trainable):
            model = resolve(join(trainable, rest))
            return -elbo(model, chosen, key, num_samples=settings.num_samples, expectation=settings.expectation).total

        return jax.value_and_grad(negative)(trainable)

    for iteration in range(settings.iterations):
        chosen = []
        for rows, batch, count in zip(source.draw(1), batches, counts, strict=True):
            index = np.arange(count) if rows is None else rows[0]
            part = Rows(batch.rows.own[index], batch.rows.nominal[index], batch.rows.index[index])
            chosen.append(TaskBatch(part, batch.y[index], jnp.asarray(count / index.size)))
        value, slopes = gradient(trainable, chosen, jax.random.fold_in(KEY, iteration))
        updates, memory = optimiser.update(slopes, memory)
        trainable = optax.apply_updates(trainable, updates)
        bounds.append(-float(value))
    return join(trainable, rest), np.array(bounds)


@pytest.mark.parametrize("problem, kind, sizes", [(case(1), "none", (None,)), (SMALL, "bayes", (3, 4))])
def test_the_loop_takes_the_steps_of_optax(problem, kind, sizes):
    model = problem.start(kind)
    found, history = train(model, problem.data(*sizes), KEY, 5, QUICK)
    expected, bounds = by_hand(model, problem.batches, sizes, 5, QUICK)
    assert_same(found, expected, atol=1e-12)
    np.testing.assert_allclose(history.objective, bounds, rtol=1e-12)
    np.testing.assert_allclose(history.terms.sum(axis=1), history.objective, rtol=1e-14)
    moved = [np.max(np.abs(value - numbers(model)[path])) for path, value in numbers(found).items()]
    assert min(moved) > 1e-3


@pytest.mark.parametrize("room, seconds", [(7, 10.0), (200, 0.0)])
def test_where_chunks_end_changes_nothing(monkeypatch, room, seconds):
    settings = replace(QUICK, iterations=23)
    expected, history = train(PLAIN, BATCHED, KEY, 1, settings)
    monkeypatch.setattr(adam, "_CHUNK", room)
    monkeypatch.setattr(adam, "_SECONDS_A_CHUNK", seconds)
    ends = []
    found, other = train(PLAIN, BATCHED, KEY, 1, settings, lambda done, total, objective: ends.append(done))
    assert_same(found, expected)
    np.testing.assert_array_equal(other.objective, history.objective)
    assert ends == {7: [1, 3, 7, 14, 21, 23], 200: [1, *range(3, 24)]}[room]


def test_chunks_grow_while_they_are_quick_and_shrink_when_they_are_not(monkeypatch):
    now, ends = [0.0], []
    durations = iter([60.0, 0.1, 0.1, 0.1, 0.9, 0.9, 0.1, 0.1, 0.1])

    def advance(state, rest, batches, chunk, count, key, settings):
        now[0] += next(durations)
        return replace(state, iteration=state.iteration + count), jnp.zeros((200, 5))

    monkeypatch.setattr(adam, "_advance", advance)
    monkeypatch.setattr(adam.time, "perf_counter", lambda: now[0])
    settings = replace(QUICK, iterations=67)
    _, history = train(PLAIN, SMALL.data(), KEY, 0, settings, lambda done, total, objective: ends.append(done))
    # 1 (compiles), 2, 4, 8, 16 (slow), 8 (slow), 4, 8, 16
    assert ends == [1, 3, 7, 15, 31, 39, 43, 51, 67]
    np.testing.assert_allclose(history.seconds[[0, 2, 6, -1]], [60.0, 60.1, 60.2, now[0]])


def test_only_the_first_chunk_compiles(monkeypatch):
    traces, loss_function = [], adam.loss_function
    monkeypatch.setattr(adam, "loss_function", lambda *given: traces.append(1) or loss_function(*given))
    settings = replace(QUICK, learning_rate=0.0123)
    train(PLAIN, SMALL.data(), KEY, 0, settings)
    assert len(traces) == 1
    train(PLAIN, SMALL.data(), KEY, 4, replace(settings, iterations=9, patience=3))
    assert len(traces) == 1


def digest(model) -> str:
    return hashlib.sha256(b"".join(value.tobytes() for value in numbers(model).values())).hexdigest()


def test_a_seed_gives_one_result_in_every_process():
    before = digest(PLAIN)
    first, history = train(PLAIN, BATCHED, KEY, 2, QUICK)
    assert digest(PLAIN) == before != digest(first)
    again, repeated = train(PLAIN, BATCHED, KEY, 2, QUICK)
    assert digest(again) == digest(first)
    np.testing.assert_array_equal(repeated.objective, history.objective)
    other, _ = train(PLAIN, BATCHED, KEY, 3, QUICK)
    assert digest(other) != digest(first)
    script = (
        "import jax; jax.config.update('jax_enable_x64', True)\n"
        "from test_adam import BATCHED, KEY, PLAIN, QUICK, digest, train\n"
        "print(digest(train(PLAIN, BATCHED, KEY, 2, QUICK)[0]))"
    )
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {[str(here), str(here.parent)]!r}\n{script}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest(first)


def test_the_random_key_moves_the_draws():
    model, data = SMALL.start("bayes"), SMALL.data(3, 4)
    histories = [train(model, data, key, 5, QUICK)[1].objective for key in (KEY, jax.random.key(4))]
    assert np.all(histories[0][1:] != histories[1][1:])


@pytest.mark.parametrize("iterations", [1, 2, 17])
def test_the_history_has_every_iteration_once(iterations):
    seen = []
    settings = replace(QUICK, iterations=iterations)
    _, history = train(PLAIN, SMALL.data(), KEY, 0, settings, lambda *report: seen.append(report))
    np.testing.assert_array_equal(history.iteration, np.arange(1, iterations + 1))
    assert history.objective.shape == history.seconds.shape == (iterations,)
    assert np.all(np.diff(history.seconds) > 0) and history.seconds[0] > 0
    start = adam.bound(PLAIN, SMALL.batches, KEY, settings)
    assert history.objective[0] == pytest.approx(float(start.total), rel=1e-12)
    signed = [np.sum(getattr(start, name)) * (1 if name == "expected_log_likelihood" else -1) for name in TERMS]
    np.testing.assert_allclose(history.terms[0], signed, rtol=1e-11)
    assert [(done, total) for done, total, _ in seen][-1] == (iterations, iterations)
    assert all(objective == history.objective[done - 1] for done, _, objective in seen)


def test_no_iterations_leave_the_model_alone():
    found, history = train(PLAIN, SMALL.data(), KEY, 0, replace(QUICK, iterations=0))
    assert_same(found, PLAIN)
    assert history.objective.size == history.iteration.size == history.seconds.size == 0


# Early stopping.


@pytest.mark.parametrize(
    "values, patience, expected",
    [
        ([1, 2, 3, 4], None, False),
        ([1, 2, 3, 4], 2, False),
        ([3, 4, 1, 2], 2, True),
        ([1, 4, 2, 3], 2, True),  # as good is no better
        ([9, 9, 1, 4, 2, 3], 2, True),  # only the last two stretches count
        ([3, 4, 1], 2, False),  # not a multiple of the patience
        ([3, 1], 2, False),  # nothing to compare with
        ([2, 1], 1, True),
    ],
)
def test_the_rule_of_patience(values, patience, expected):
    values = np.array(values, float)
    assert stalled([values[:1], values[1:]], patience) is expected
    history = History(np.arange(values.size), values, values)
    assert ended(history, AdamSettings(iterations=100, patience=patience)) is expected
    assert ended(history, AdamSettings(iterations=values.size, patience=patience))


def test_patience_stops_where_its_rule_says():
    settings = replace(QUICK, iterations=300)
    _, long = train(PLAIN, BATCHED, KEY, 0, settings)
    assert long.objective.size == 300  # off by default
    means = long.objective.reshape(-1, 10).mean(axis=1)
    end = 10 * (2 + int(np.flatnonzero(means[1:] <= means[:-1])[0]))
    assert 20 < end < 300
    found, short = train(PLAIN, BATCHED, KEY, 0, replace(settings, patience=10))
    np.testing.assert_array_equal(short.objective, long.objective[:end])
    expected, _ = train(PLAIN, BATCHED, KEY, 0, replace(settings, iterations=end))
    assert_same(found, expected)


def test_patience_ends_a_converged_training_early():
    converged, _ = train(PLAIN, SMALL.data(), KEY, 0, replace(QUICK, iterations=5000))
    settings = replace(QUICK, iterations=5000, patience=100)
    _, history = train(converged, SMALL.data(), KEY, 0, settings)
    assert history.objective.size < 2500
    assert ended(history, settings)


# Ctrl-C.


def test_ctrl_c_returns_the_best_model_so_far(monkeypatch):
    monkeypatch.setattr(adam, "_SECONDS_A_CHUNK", 0.0)
    settings = replace(QUICK, iterations=1000)
    ends = []

    def interrupt(done, total, objective):
        ends.append(done)
        if done >= 31:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(AligngpWarning, match="interrupted after 31 of 1000 iterations"):
        found, history = train(PLAIN, BATCHED, KEY, 7, settings, interrupt)
    assert ends == [1, *range(3, 32)]
    assert history.objective.size == 31
    assert not ended(history, settings)
    means = [history.objective[a:b].mean() for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    best = ends[int(np.argmax(means))]
    assert best < 31  # else the last model would do as well
    expected, _ = train(PLAIN, BATCHED, KEY, 7, replace(settings, iterations=best))
    assert_same(found, expected)


def test_ctrl_c_before_the_first_value_goes_through(monkeypatch):
    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(adam, "_advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(PLAIN, SMALL.data(), KEY, 0, QUICK)


def test_take_picks_rows_and_leaves_a_whole_task_alone():
    batch = SMALL.batches[1]
    assert adam.take(batch, None, 7.0) is batch
    some = adam.take(batch, np.array([4, 1]), 4.5)
    np.testing.assert_array_equal(some.y, batch.y[[4, 1]])
    np.testing.assert_array_equal(some.rows.own, batch.rows.own[[4, 1]])
    np.testing.assert_array_equal(some.rows.index, [4, 1])
    assert some.scale == 4.5
