"""No compiled function calls LAPACK on a batch of matrices: jaxlib 0.10 can deadlock there on few cores."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import aligngp as agp
from aligngp import predict
from aligngp.fit import adam, all_rows, collapse, diagnosis, imc, jitter, natural, posterior
from aligngp.fit.collapse import Objective
from aligngp.objective import exact
from aligngp.objective.evidence import best_posterior, collapsed_bound
from aligngp.parameters import resolve, split
from aligngp.runtime import computing
from aligngp.suggest import acquisition, mixture, response
from ensembles import fitted, two_fidelities
from training import KEY, KINDS, case

pytestmark = pytest.mark.jaxlib

LAPACK = (
    "cholesky",
    "triangular",
    "tridiagonal",
    "eig",
    "svd",
    "lu",
    "qr",
    "geqp",
    "householder",
    "hessenberg",
    "schur",
)
"""What the names of such primitives begin or end with."""


def inner(value: Any) -> Iterator[Any]:
    """The jaxprs in a parameter of an equation, however deep in tuples and dicts."""
    if hasattr(value, "eqns"):
        yield value
    elif hasattr(value, "jaxpr"):
        yield from inner(value.jaxpr)
    elif isinstance(value, dict):
        for part in value.values():
            yield from inner(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from inner(part)


def calls(jaxpr: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(primitive, number of dimensions of every operand) of all LAPACK calls in a jaxpr and in those inside of it."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if any(name.startswith(part) or name.endswith(part) for part in LAPACK):
            yield name, tuple(len(operand.aval.shape) for operand in equation.invars)
        for parameter in equation.params.values():
            for part in inner(parameter):
                yield from calls(part)


def lapack(function, *arguments) -> list[tuple[str, tuple[int, ...]]]:
    """The LAPACK calls of a function of arrays and other things."""
    return list(calls(eqx.filter_make_jaxpr(function)(*arguments)[0].jaxpr))


def assert_none_batched(function, *arguments, least: int) -> None:
    """There are LAPACK calls, as many as expected, and none on more than one matrix."""
    found = lapack(function, *arguments)
    assert [call for call in found if max(call[1]) > 2] == []
    assert len(found) >= least, found


# The walker sees what it must see.

MATRICES = jnp.broadcast_to(jnp.eye(3), (2, 3, 3))
FUNCTIONS = {
    "cholesky": jnp.linalg.cholesky,
    "triangular_solve": lambda a: jax.scipy.linalg.solve_triangular(a, jnp.ones(3), lower=True),
    "eigh": jnp.linalg.eigh,
    "eigvalsh": jnp.linalg.eigvalsh,
    "svd": jnp.linalg.svd,
    "qr": jnp.linalg.qr,
    "lu": jax.scipy.linalg.lu_factor,
    "solve": lambda a: jnp.linalg.solve(a, jnp.ones((3, 1))),
    "inv": jnp.linalg.inv,
}
PLACES = {
    "plain": lambda f, a: jax.vmap(f)(a),
    "jit": lambda f, a: jax.jit(jax.vmap(f))(a),
    "scan": lambda f, a: jax.lax.scan(lambda c, _: (c, jax.vmap(f)(a)), 0, None, 2),
    "while": lambda f, a: jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jax.vmap(f)(c[1])), (0, a)),
    "condition of while": lambda f, a: jax.lax.while_loop(lambda c: jax.vmap(f)(a).sum() < c, lambda c: c + 1, 0.0),
    "cond": lambda f, a: jax.lax.cond(a[0, 0, 0] > 0, jax.vmap(f), lambda x: x, a),
    "switch": lambda f, a: jax.lax.switch(1, [lambda x: x, lambda x: x, jax.vmap(f)], a),
    "checkpoint": lambda f, a: jax.checkpoint(jax.vmap(f))(a),
    "custom_vjp": lambda f, a: with_rule(jax.vmap(f))(a),
    "custom_jvp": lambda f, a: with_tangent(jax.vmap(f))(a),
    "gradient": lambda f, a: jax.grad(lambda x: jnp.sum(with_rule(jax.vmap(f))(x)))(a),
    "map in batches": lambda f, a: jax.lax.map(f, a, batch_size=2),
    "batch dimension": lambda f, a: f(a),
}


def with_tangent(function):
    wrapped = jax.custom_jvp(function)
    wrapped.defjvp(lambda primals, tangents: (function(*primals), tangents[0]))
    return wrapped


def with_rule(function):
    wrapped = jax.custom_vjp(function)
    wrapped.defvjp(lambda a: (function(a), a), lambda a, g: (g + function(a),))
    return wrapped


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_walker_knows_every_factorisation(name):
    assert lapack(FUNCTIONS[name], MATRICES[0])
    with pytest.raises(AssertionError):
        assert_none_batched(jax.vmap(FUNCTIONS[name]), MATRICES, least=1)
    assert_none_batched(FUNCTIONS[name], MATRICES[0], least=1)


@pytest.mark.parametrize("place", PLACES)
def test_the_walker_looks_everywhere(place):
    found = lapack(lambda a: PLACES[place](jnp.linalg.cholesky, a), MATRICES)
    assert ("cholesky", (3,)) in found


def test_one_matrix_after_the_other_is_no_batch():
    assert_none_batched(lambda a: jax.lax.map(jnp.linalg.cholesky, a), MATRICES, least=1)
    with pytest.raises(AssertionError):
        assert_none_batched(lambda a: a + 1.0, MATRICES, least=1)


# The package.


def training(problem, model, expectation):
    """The compiled loop of training and its arguments."""
    trainable, rest = split(model)
    settings = adam.AdamSettings(expectation=expectation, num_samples=2)
    state = adam._State(trainable, optax.adam(settings.learning_rate).init(trainable), jnp.zeros((), jnp.int32))
    rows = tuple(jnp.zeros((adam._CHUNK, 2), int) if t == 0 else None for t in range(len(problem.batches)))
    chunk = adam._Chunk(rows, (2.0,) + (1.0,) * (len(rows) - 1))
    return adam._advance, state, rest, problem.batches, chunk, jnp.int32(3), KEY, settings


def latent_calls(model) -> int:
    """Cholesky and the triangular solve of every latent; a mapping has its own."""
    return 2 * (len(model.latents) + sum(hasattr(mapping, "gp") for mapping in model.mappings))


@pytest.mark.parametrize("expectation", ["sampled", "analytic"])
@pytest.mark.parametrize("kind", [*KINDS, "learned"])
def test_training_is_not_batched(kind, expectation):
    learned = {"mappings": {"fine": agp.Learned()}} if kind == "learned" else {}
    problem = case(**learned)
    model = problem.start("bayes" if learned else kind)
    assert_none_batched(*training(problem, model, expectation), least=latent_calls(model))


@pytest.mark.parametrize("latents", [1, 2, 3])
@pytest.mark.parametrize("number", [1, 3])
def test_training_is_not_batched_for_any_number_of_tasks_and_latents(number, latents):
    problem = case(number, num_latents=latents)
    model = problem.start("bayes")
    assert len(model.latents) == (latents if number > 1 else 1)
    assert_none_batched(*training(problem, model, "sampled"), least=latent_calls(model))


@pytest.mark.parametrize("kind", KINDS)
def test_prediction_is_not_batched(kind):
    problem = case()
    model, rows = problem.start(kind), problem.batches[0].rows
    latents = 2 * len(model.latents)
    for analytic in (False, True):
        assert_none_batched(predict._moments, model, 0, rows, KEY, 3, analytic, least=latents)
    assert_none_batched(predict._joint, model, 0, rows, KEY, 3, least=latents)
    assert_none_batched(predict._draws, model, 0, rows, KEY, 3, least=latents + 1)
    assert_none_batched(predict._aligned, model, 0, rows, least=latent_calls(model) - latents)


@pytest.mark.parametrize("number, latents", [(1, 1), (3, 1), (3, 3)])
def test_prediction_is_not_batched_for_any_number_of_tasks_and_latents(number, latents):
    problem = case(number, num_latents=latents)
    model, rows = problem.start("bayes"), problem.batches[0].rows
    assert_none_batched(predict._moments, model, 0, rows, KEY, 3, True, least=2 * latents)
    assert_none_batched(predict._draws, model, 0, rows, KEY, 3, least=2 * latents + 1)


def test_calibration_by_imc_is_not_batched():
    low = case(1).start()
    batch = case().batches[0]
    first = jnp.zeros((2, 3)), jnp.zeros(2)
    vector = jnp.asarray(np.linspace(-1.0, 1.0, 8))
    assert_none_batched(imc._value, vector, low, (2, 3), batch.rows, batch.y, first, 0.5, least=2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_as_a_report_is_not_batched(kind):
    problem = case()
    model = problem.start(kind)
    for expectation in ("sampled", "analytic"):
        assert_none_batched(adam._bound, model, problem.batches, KEY, 2, expectation, least=latent_calls(model))


@pytest.mark.parametrize("kind", KINDS)
def test_the_collapsed_bound_is_not_batched(kind):
    problem = case()
    trainable, rest = split(problem.start(kind))

    def total(trainable):
        return collapsed_bound(resolve(eqx.combine(trainable, rest)), problem.batches).total

    assert_none_batched(jax.grad(total), trainable, least=4)
    assert_none_batched(lambda model: best_posterior(resolve(model), problem.batches), problem.start(kind), least=4)


# What has an exact posterior or GPs on own inputs, and the other trainings.


def deterministic(problem, model, kind):
    """The compiled objective of L-BFGS with its gradient, as a function of one vector."""
    trainable, rest = split(model)
    chosen = collapse._without_posterior(trainable, kind)
    flat, _ = ravel_pytree(chosen)
    arrays, static = eqx.partition((chosen, trainable, rest, problem.batches), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    fixed = collapse._Static(structure, *jax.tree.flatten(static), Objective(kind, prior=True))
    return lambda vector: collapse._value_and_gradient(vector, leaves, fixed), flat


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("kind", ["exact", "collapsed"])
def test_training_without_noise_is_not_batched(kind, number):
    problem = case(number, residual=True)
    model = problem.start("none")
    assert_none_batched(*deterministic(problem, model, kind), least=2)
    assert_none_batched(collapse._terms, model, problem.batches, Objective(kind, prior=True), least=1)


@pytest.mark.parametrize("number", [1, 3])
def test_the_exact_posterior_is_not_batched(number):
    problem = case(number, residual=True)
    model = problem.start("none")
    assert_none_batched(collapse._exact_posterior, model, problem.batches, least=2)
    assert_none_batched(exact.left_out, resolve(model), problem.batches, least=2)
    fitted = replace(model, exact=collapse._exact_posterior(model, problem.batches))
    rows = problem.batches[0].rows
    for function in (predict._moments, predict._joint):  # nothing is factored anew
        assert lapack(function, fitted, 0, rows, KEY, *((3, True) if function is predict._moments else (3,))) == []
    assert_none_batched(predict._draws, fitted, 0, rows, KEY, 3, least=1)


@pytest.mark.parametrize("kind", ["none", "bayes"])
def test_what_has_a_residual_is_not_batched(kind):
    problem = case(residual=True)
    model = problem.start(kind)
    least = latent_calls(model) + 2
    assert_none_batched(*training(problem, model, "sampled"), least=least)
    assert_none_batched(predict._moments, model, 0, problem.batches[0].rows, KEY, 3, True, least=least - 2)
    assert_none_batched(predict._draws, model, 0, problem.batches[0].rows, KEY, 3, least=least - 2)
    assert_none_batched(collapse._posterior, model, problem.batches, least=least - 2)


@pytest.mark.parametrize("expectation", ["sampled", "analytic"])
@pytest.mark.parametrize("kind", KINDS)
def test_natural_gradients_are_not_batched(kind, expectation):
    problem = case(residual=True)
    model = problem.start(kind)
    trainable, rest = split(model)
    hyper = posterior.without_posterior(trainable)
    q = posterior.natural(resolve(model))
    state = natural._State(hyper, natural._OPTIMISER.init(hyper), q, jnp.zeros((), jnp.int32))
    settings = natural.NaturalSettings(expectation=expectation, num_samples=2, prior=True)
    chosen = jnp.zeros((3, 2), int), None
    arguments = (problem.batches, chosen, 3, (3.0, 1.0), 0.5, 0.01, KEY, settings)
    assert_none_batched(natural._advance, state, trainable, rest, *arguments, least=latent_calls(model) + 2)


def test_looking_for_what_is_not_finite_is_not_batched():
    problem = case(3, residual=True)
    model = problem.start("bayes")
    trainable, rest = split(model)

    def terms(trainable):
        one, batches = diagnosis.only(resolve(eqx.combine(trainable, rest)), problem.batches, 0)
        return adam._bound(one, batches, KEY, 2, "sampled").total

    assert_none_batched(jax.grad(terms), trainable, least=latent_calls(model))


@pytest.mark.parametrize("kind", ["none", "bayes"])
def test_asking_how_much_jitter_was_needed_is_not_batched(kind):
    gps = [gp for _, gp in jitter._named(case(residual=True).start(kind), ("fine", "coarse"))]
    assert len(gps) == (3 if kind == "none" else 4)
    for gp in gps:
        assert_none_batched(jitter._needed, resolve(gp), least=1)


def test_whether_a_state_is_finite_takes_no_factorisation():
    problem = case()
    _, state, *_ = training(problem, problem.start("none"), "sampled")
    assert lapack(adam._fine, state) == []


def test_the_best_posterior_over_blocks_of_rows_is_not_batched():
    problem = case(residual=True)
    model = resolve(problem.start("bayes"))
    assert_none_batched(all_rows._factors, model, least=latent_calls(problem.start("bayes")))
    factors = all_rows._factors(model)
    sums = [all_rows._sums(model, task, batch, factors) for task, batch in enumerate(problem.batches)]
    assert_none_batched(all_rows._sums, model, 0, problem.batches[0], factors, least=3)  # of the mapping's GP
    assert_none_batched(all_rows._posterior, model, sums[0] + sums[1], least=1)


def test_suggestions_are_sums_of_kernels_without_a_factorisation():
    ones, maxima = jnp.ones(4), jnp.asarray([2.0, 3.0])
    for kind in ("logei", "mes", "ucb", "feasible"):
        of_target = partial(acquisition.of_target, kind)
        assert lapack(of_target, ones, ones, jnp.asarray(0.1), jnp.asarray(0.5), maxima, jnp.asarray(2.0)) == []
    assert lapack(acquisition.of_constraint, ones, ones, jnp.asarray(0.0), jnp.asarray(1.0)) == []
    arrays = (
        *(jnp.ones((2, 3)), jnp.ones(2), jnp.ones((2, 4, 5)), jnp.ones((5, 3)), jnp.ones((4, 6)), jnp.eye(6)),
        *(jnp.ones((6, 2)), jnp.ones((6, 3)), jnp.ones(6), jnp.asarray(1.0)),
    )
    value = partial(response._value_slopes, "se", lambda change: jnp.sum(change**2, axis=1))
    assert lapack(value, arrays, jnp.ones((7, 3))) == []


def test_predictions_in_jax_factor_nothing(monkeypatch):
    ensemble, frame = fitted(two_fidelities(), "coarse")
    target, seen = ensemble.targets[0], []
    names = ("affine+linear", "calibrated+residual, same units", "alone+linear")
    members = tuple(member for member in target.members if member.prior.form.name in names)
    target = replace(target, members=members, weights=np.full(len(members), 1 / len(members)))
    rows = frame.rows(0, np.zeros((2, 3)))
    with computing():
        known, slopes = mixture.read(target), mixture._slopes
        monkeypatch.setattr(mixture, "_slopes", lambda *given: seen.append(given) or slopes(*given))
        mixture.slopes(known, np.asarray(rows.own), np.asarray(rows.nominal))
        assert {form.name for form, *_ in seen} == set(names)
        for form, kernel, *arrays in seen:
            assert lapack(partial(slopes.__wrapped__, form, kernel), *arrays) == []


def compiled() -> Iterator[str]:
    """module.function of everything that the package compiles at the top of a module."""
    for file in (Path(__file__).parents[1] / "src").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(part) for part in node.decorator_list):
                yield f"{file.stem}.{node.name}"
            elif isinstance(node, ast.Assign) and ".jit(" in ast.unparse(node.value):
                yield f"{file.stem}.{ast.unparse(node.targets[0])}"


def test_everything_that_is_compiled_is_walked_through_here():
    found = list(compiled())
    assert {"adam._advance", "natural._advance", "collapse._value_and_gradient", "predict._moments"} <= set(found)
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in found if name not in text] == []
