"""Terms, predictions and gradients of the bound against GPflow (benchmarks/peers/gpflow_oracle.py)."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.gp.sparse import SparseGP
from aligngp.kernels import SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.mappings.contract import Rows
from aligngp.mappings.fixed import Nominal
from aligngp.mappings.gaussian import ResidualGP
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch, elbo
from problems import KEY, STATIONARY, quick

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "gpflow_elbo.json").read_text(encoding="utf-8"))
PROBLEMS = {problem["name"]: problem for problem in REFERENCE["problems"]}
KNOWN = [name for name in PROBLEMS if name != "hsvlmc_se"]
JITTER = REFERENCE["relative_jitter"]
PARAMETERS = ("mixing", "lengthscales", "noise", "Z", "q_mu", "q_sqrt")
# A jitter of 1e-8 leaves K a condition of up to 1e8, and so both sides eight digits of sixteen in the worst case;
# a gradient is compared on the scale of its largest entry.
RELATIVE = 1e-8


def parameters(given):
    """The parameters that GPflow's gradients are for."""
    return {name: jnp.asarray(given[name]) for name in PARAMETERS if name in given}


def model_of(values, kernel, variance):
    """Our model of GPflow's LMC; `values` as :func:`parameters` gives them."""
    latents = tuple(
        SparseGP(
            STATIONARY[kernel][0](lengthscales, jnp.asarray(variance, float)),
            values["Z"][q],
            values["q_mu"][:, q : q + 1],
            values["q_sqrt"][q : q + 1],
            JITTER,
        )
        for q, lengthscales in enumerate(values["lengthscales"])
    )
    tasks = values["mixing"].shape[0]
    likelihoods = tuple(Gaussian(values["noise"][t]) for t in range(tasks))
    return Model((Nominal(),) * tasks, latents, values["mixing"], likelihoods)


def batch(aligned, y, scale=1.0):
    """A task whose aligned inputs are known."""
    aligned = jnp.asarray(aligned)
    return TaskBatch(Rows(aligned, aligned, jnp.arange(aligned.shape[0])), jnp.asarray(y), scale)


def close(found, expected):
    """Equal on the scale of the largest entry."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=RELATIVE, atol=RELATIVE * np.abs(expected).max())


def same_gradients(found, expected):
    for name, values in expected.items():
        # GPflow packs the lower triangle; ours has zeros above the diagonal that are free to move.
        ours = jnp.tril(found[name]) if name == "q_sqrt" else found[name]
        close(ours, values)


@pytest.fixture(scope="module", params=KNOWN)
def known(request):
    """A problem with known aligned inputs: GPflow's values, our terms, predictions and gradients."""
    given = PROBLEMS[request.param]

    @quick
    def compute(values):
        def total(values):
            model = model_of(values, given["kernel"], given["variance"])
            terms = elbo(model, [batch(*pair) for pair in zip(given["aligned"], given["y"], strict=True)], KEY)
            predicted = [
                model.mix(task, *model.latent_marginals(jnp.asarray(rows), model.factors()))
                for task, rows in enumerate(given["new"])
            ]
            return terms.total, (terms, predicted)

        return jax.grad(total, has_aux=True)(values)

    gradients, (terms, predicted) = compute(parameters(given))
    return given["values"], terms, predicted, gradients


def test_terms_on_known_aligned_inputs(known):
    expected, terms, _, _ = known
    close(terms.expected_log_likelihood, expected["expected_log_likelihood"])
    close(terms.latent_kl.sum(), expected["latent_kl"])
    close(terms.total, expected["elbo"])


def test_predictions_on_known_aligned_inputs(known):
    expected, _, predicted, _ = known
    for (mean, variance), *both in zip(
        predicted, expected["prediction_mean"], expected["prediction_variance"], strict=True
    ):
        close(mean, both[0])
        close(variance, both[1])


def test_gradients_on_known_aligned_inputs(known):
    expected, _, _, gradients = known
    same_gradients(gradients, expected["gradients"])


@pytest.fixture(scope="module")
def drawn():
    """The problem whose first task is aligned by a residual GP, at given draws."""
    given = PROBLEMS["hsvlmc_se"]
    mapped = given["mapping"]
    rows = Rows(jnp.asarray(mapped["X"]), jnp.asarray(mapped["nominal"]), jnp.arange(5))
    eps = jnp.asarray(mapped["eps"])

    @quick
    def compute(values, mapping_values):
        def total(values, mapping_values):
            kernel = SquaredExponential(mapping_values["lengthscales"], jnp.asarray(mapped["variance"], float))
            gp = SparseGP(kernel, *(mapping_values[name] for name in ("Z", "q_mu", "q_sqrt")), JITTER)
            mapping = ResidualGP(Nominal(), gp, jnp.asarray(0.1))
            law, _ = mapping.posterior(rows)
            draws = law.mean + jnp.sqrt(law.variance) * eps
            # S draws of N rows stand for one task of S N rows that count 1 / S each.
            first = batch(draws.reshape(-1, 2), jnp.tile(jnp.asarray(given["y"][0]), 3), 1.0 / 3.0)
            model = model_of(values, given["kernel"], given["variance"])
            terms = elbo(model, [first, batch(given["second_aligned"], given["y"][1])], KEY)
            answer = terms.total - mapping.global_penalty()
            return answer, (answer, terms, law, draws, mapping.global_penalty())

        return jax.grad(total, argnums=(0, 1), has_aux=True)(values, mapping_values)

    return given["values"], compute(parameters(given), parameters(mapped))


def test_terms_with_a_mapping(drawn):
    expected, (_, (total, terms, law, draws, mapping_kl)) = drawn
    close(law.mean, expected["mapping_mean"])
    close(law.variance, expected["mapping_variance"])
    close(draws, expected["x_bar"])
    close(terms.expected_log_likelihood, expected["expected_log_likelihood"])
    close(terms.latent_kl.sum(), expected["latent_kl"])
    close(mapping_kl, expected["mapping_kl"])
    close(total, expected["elbo_without_row_kl"])


def test_gradients_with_a_mapping(drawn):
    expected, ((own, mapped), _) = drawn
    same_gradients(own, expected["gradients"])
    same_gradients(mapped, expected["mapping_gradients"])
