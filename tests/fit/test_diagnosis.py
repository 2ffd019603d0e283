"""What a training that cannot go on says: which term, which task, which iteration, what to try."""

import re
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import paramax
import pytest

from aligngp.data.batches import Batches
from aligngp.errors import TrainingError
from aligngp.fit.adam import TrainingData, train
from aligngp.mappings.contract import AbstractMapping, Point, no_penalty
from aligngp.typing import Array
from training import KEY, QUICK, case

SMALL = case()
BAYES = SMALL.start("bayes")
FINE_TERMS = {f"{term} of task 'fine'" for term in ("expected_log_likelihood", "alignment_penalty", "mapping_penalty")}


class Kinked(paramax.AbstractUnwrappable[Array]):
    """``value + sqrt(raw^2)``: at zero it has a value, but its derivative by JAX is NaN."""

    value: Array
    raw: Array

    def unwrap(self) -> Array:
        return self.value + jnp.sqrt(self.raw**2)


def kinked(model, where):
    """The model with one parameter that has a value and no gradient; the value itself is not trained."""

    def kink(parameter):
        value = paramax.non_trainable(paramax.unwrap(parameter))
        return Kinked(value, jnp.zeros(paramax.unwrap(parameter).shape))

    return eqx.tree_at(where, model, replace_fn=kink)


def complaint(model, data=None, **settings) -> str:
    """The message of the error that training ends with."""
    data = SMALL.data(3, 4) if data is None else data
    with pytest.raises(TrainingError) as caught:
        train(model, data, KEY, 0, replace(QUICK, **settings))
    assert "Try a smaller learning_rate (now " in str(caught.value)
    return str(caught.value)


def terms_in(message: str) -> set[str]:
    return set(re.findall(r"\w+ of task '\w+'|latent_kl(?: of latent GP \d)?", message.split(" Try ")[0]))


def parameters_in(message: str) -> list[str]:
    found = re.search(r"Parameters concerned: (.*?)\. Try", message)
    return found[1].split(", ") if found else []


def nan_at(where):
    return eqx.tree_at(where, BAYES, replace_fn=lambda leaf: leaf.at[(0,) * leaf.ndim].set(jnp.nan))


@pytest.mark.parametrize(
    "where, terms, parameter",
    [
        (
            lambda m: m.likelihoods[0].variance.raw,
            {"expected_log_likelihood of task 'fine'"},
            "likelihoods[0].variance.raw",
        ),
        (lambda m: m.mappings[0].gp.mean, FINE_TERMS, "mappings[0].gp.mean"),
        (
            lambda m: m.latents[1].mean,
            {f"expected_log_likelihood of task '{name}'" for name in ("fine", "coarse")} | {"latent_kl of latent GP 2"},
            "latents[1].mean",
        ),
    ],
    ids=["noise", "mapping", "latent"],
)
def test_a_nan_in_a_parameter_is_traced_to_its_terms(where, terms, parameter):
    message = complaint(nan_at(where))
    assert "The objective became NaN or infinite at iteration 1:" in message
    assert " is nan" in message
    assert terms_in(message) == terms
    assert parameters_in(message) == [parameter]


def test_a_bad_row_is_found_in_the_batch_that_has_it():
    bad = Batches([6, 9], (None, 2), 0).draw(4)[1][3, 0]  # no row comes twice in the first four batches
    y = np.asarray(SMALL.batches[1].y).copy()
    y[bad] = np.inf
    batches = (SMALL.batches[0], replace(SMALL.batches[1], y=y))
    message = complaint(SMALL.start("none"), TrainingData(batches, (None, 2), SMALL.frame.names))
    assert "The objective became NaN or infinite at iteration 4:" in message
    assert "expected_log_likelihood of task 'coarse' is -inf" in message
    assert terms_in(message) == {"expected_log_likelihood of task 'coarse'"}
    assert parameters_in(message) == []


def test_a_learning_rate_that_is_too_large_is_named():
    alone = case(1)
    message = complaint(alone.start(), alone.data(), learning_rate=1e6)
    assert re.match(r"The objective became NaN or infinite at iteration [2-9]:", message)
    assert terms_in(message) == {"expected_log_likelihood of task 'coarse'"}
    assert "learning_rate (now 1e+06)" in message
    for remedy in ("lengthscales", "initial_noise", "num_inducing", "extreme values in the data"):
        assert remedy in message


def test_a_broken_gradient_is_traced_to_its_terms():
    # One iteration: the value is fine, and no later one would show that the update was not.
    model = kinked(SMALL.start("none"), lambda m: m.latents[1].scale)
    message = complaint(model, SMALL.data(None, 4), iterations=1)
    assert "The gradient of the objective stopped being finite at iteration 1:" in message
    assert terms_in(message) == {f"expected_log_likelihood of task '{t}'" for t in ("fine", "coarse")} | {"latent_kl"}
    assert parameters_in(message) == ["latents[1].scale.raw"]


class Cone(AbstractMapping):
    """``g0(x) + |w x_1|``: at a row with x_1 = 0 it has a value, but its derivative by JAX is NaN."""

    weight: Array

    def posterior(self, rows):
        return self.predictive(rows), no_penalty(rows)

    def predictive(self, rows):
        return Point(rows.nominal + jnp.sqrt((self.weight * rows.own[:, :1]) ** 2))

    def global_penalty(self):
        return jnp.zeros(())

    def draw(self, rows, key, number):
        raise AssertionError("training draws by the law")


def test_a_gradient_that_breaks_later_is_found_in_the_batch_that_breaks_it():
    bad = Batches([6, 9], (2, None), 0).draw(3)[0][2, 1]
    model = eqx.tree_at(lambda m: m.mappings[0], SMALL.start("none"), Cone(jnp.asarray(0.3)))
    fine = SMALL.batches[0]
    own = np.asarray(fine.rows.own).copy()
    own[bad, 0] = 0.0
    batches = (eqx.tree_at(lambda b: b.rows.own, fine, own), SMALL.batches[1])
    message = complaint(model, TrainingData(batches, (2, None), SMALL.frame.names))
    assert "The gradient of the objective stopped being finite at iteration 3:" in message
    assert terms_in(message) == {"expected_log_likelihood of task 'fine'"}
    assert parameters_in(message) == ["mappings[0].weight"]
