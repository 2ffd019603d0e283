"""Kernels against loops over pairs of points, their sizes and their errors, and GPJax's kernels as ours."""

import equinox as eqx
import gpjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from aligngp.errors import SettingError
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import Foreign, Linear, Matern52, SquaredExponential, as_kernel
from aligngp.parameters import resolve, split
from problems import KERNELS, STATIONARY, central, kernel, quick

rng = np.random.default_rng(0)
X, Z = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
GPJAX = {"se": gpjax.kernels.RBF, "matern12": gpjax.kernels.Matern12, "matern32": gpjax.kernels.Matern32}


PAIRS = {name: kernel(name, np.random.default_rng(1), 3) for name in KERNELS}
SLOPED = ("matern32", "matern52", "se * linear + matern12")  # every kernel is in them, and compiling takes its time
SHIFTED = ("se", "matern12")
TWICE = np.repeat(X[:1], 2, axis=0)
WEIGHTS = rng.normal(size=(6, 4))


@pytest.fixture(scope="module")
def found():
    """What is asked of every kernel, compiled once for all of them."""

    rows, others = jnp.asarray(X), jnp.asarray(Z)
    ours = {name: pair[0] for name, pair in PAIRS.items()}

    @quick
    def ask(kernels):
        return {
            "cross": {name: one.cross(rows, others) for name, one in kernels.items()},
            "diagonal": {name: one.diagonal(rows) for name, one in kernels.items()},
            "own": {name: jnp.diagonal(kernels[name].cross(rows, rows)) for name in STATIONARY},
            "shifted": {name: kernels[name].cross(rows + 1e5, others + 1e5) for name in SHIFTED},
        }

    return ask(ours)


@pytest.fixture(scope="module")
def slopes():
    """The derivative of every kernel along a random direction, by automatic and by finite differences."""
    start = {name: (PAIRS[name][0], jnp.asarray(X)) for name in SLOPED}
    direction = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), start)

    def value(ours, x):
        return jnp.sum(WEIGHTS * ours.cross(x, jnp.asarray(Z))) + jnp.sum(ours.diagonal(x))

    @quick
    def values(step):
        at = jax.tree.map(lambda leaf, d: leaf + step * d, start, direction)
        return jnp.stack([value(*pair) for pair in at.values()])

    @quick
    def gradients(at):
        return {name: jax.grad(lambda pair: value(*pair))(pair) for name, pair in at.items()}

    answer = {}
    for name, slope in zip(SLOPED, central(values), strict=True):
        pairs = zip(jax.tree.leaves(gradients(start)[name]), jax.tree.leaves(direction[name]), strict=True)
        answer[name] = sum(np.vdot(g, d) for g, d in pairs), slope
    return answer


@pytest.mark.parametrize("name", KERNELS)
def test_cross_covariance_of_every_pair(name, found):
    np.testing.assert_allclose(found["cross"][name], oracles.gram(PAIRS[name][1], X, Z), rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_diagonal_is_the_variance_of_every_row(name, found):
    np.testing.assert_allclose(found["diagonal"][name], [PAIRS[name][1](x, x) for x in X], rtol=1e-12)


@pytest.mark.parametrize("name", STATIONARY)
def test_the_variance_stands_on_the_diagonal_of_a_gram_matrix(name, found):
    # Rounding of r^2 (1e-15) would be 3e-8 in r, and so in Matern 1/2, if it were not computed by differences.
    np.testing.assert_allclose(found["own"][name], float(PAIRS[name][0].variance), rtol=1e-13)


@pytest.mark.parametrize("name", SHIFTED)
def test_a_common_offset_changes_nothing(name, found):
    # The offset itself costs five of the sixteen digits of the rows.
    np.testing.assert_allclose(found["shifted"][name], oracles.gram(PAIRS[name][1], X, Z), rtol=1e-9)


@pytest.mark.parametrize("name", SLOPED)
def test_gradient_matches_finite_differences(name, slopes):
    np.testing.assert_allclose(*slopes[name], rtol=1e-8)


@pytest.mark.parametrize("name", ["matern12", "matern32"])
def test_gradient_at_coinciding_rows_is_zero_not_nan(name):
    ours, rows = PAIRS[name][0], jnp.asarray(TWICE)
    gradient = quick(jax.grad(lambda x: jnp.sum(ours.cross(x, rows))))(rows)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-7)


@pytest.mark.parametrize("name", STATIONARY)
def test_sizing_starts_where_it_is_told(name):
    variant = STATIONARY[name][0]
    default = resolve(variant().sized(3, 0.7))
    np.testing.assert_allclose(default.lengthscale, [0.7, 0.7, 0.7], rtol=1e-14)
    np.testing.assert_allclose(default.variance, 1.0, rtol=1e-14)
    alike = resolve(variant(2.0, 0.3).sized(3, 0.7))
    np.testing.assert_allclose(alike.lengthscale, [2.0, 2.0, 2.0], rtol=1e-14)
    np.testing.assert_allclose(alike.variance, 0.3, rtol=1e-14)
    own = resolve(variant(np.array([1e-3, 1.0, 1e3])).sized(3, 0.7))
    np.testing.assert_allclose(own.lengthscale, [1e-3, 1.0, 1e3], rtol=1e-14)
    assert type(default) is variant


def test_sizing_reaches_the_parts():
    sized = resolve((SquaredExponential() * Linear(0.5) + Matern52(0.2)).sized(2, 0.7))
    np.testing.assert_allclose(sized.parts[0].parts[0].lengthscale, [0.7, 0.7], rtol=1e-14)
    np.testing.assert_allclose(sized.parts[0].parts[1].variance, [0.5, 0.5], rtol=1e-14)
    np.testing.assert_allclose(sized.parts[1].lengthscale, [0.2, 0.2], rtol=1e-14)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (SquaredExponential(np.ones(2)), r"SquaredExponential: expected one lengthscale or 3 .*got shape \(2,\)"),
        (SquaredExponential(np.array([1.0, -1.0, 1.0])), "positive lengthscales"),
        (SquaredExponential(1.0, 0.0), "positive variance"),
        (Matern52(1.0, np.ones(3)), "positive variance"),
        (Linear(np.ones(2)), r"Linear: expected one positive variance or 3 of them, got shape \(2,\)"),
        (Linear(-1.0), "Linear: expected one positive variance"),
    ],
)
def test_a_kernel_that_does_not_fit_is_refused(wrong, words):
    with pytest.raises(SettingError, match=words):
        wrong.sized(3, 1.0)


def test_names_stand_for_kernels():
    for name, (variant, _) in STATIONARY.items():
        assert type(as_kernel(name)) is variant
    assert type(as_kernel("linear")) is Linear
    own = Matern52(0.4)
    assert as_kernel(own) is own


@pytest.mark.parametrize("wrong", ["rbf", 3, None, np.exp])
def test_what_is_no_kernel_is_refused(wrong):
    with pytest.raises(SettingError, match=r"expected one of 'se', 'matern12'.*or a GPJax kernel; got"):
        as_kernel(wrong)


@pytest.mark.parametrize("combine", [lambda other: SquaredExponential() + other, lambda other: Linear() * other])
def test_only_kernels_are_added_and_multiplied(combine):
    with pytest.raises(SettingError, match=r"got float"):
        combine(2.0)
    with pytest.raises(SettingError, match=r"got RBF.*aligngp\.kernels\.Foreign\(kernel\)"):
        combine(gpjax.kernels.RBF())


# GPJax's kernels.


def test_gpjax_kernels_as_they_come():
    scales = jnp.asarray([0.5, 0.9, 1.4])
    given = {name: as_kernel(GPJAX[name](lengthscale=scales, variance=1.7)).sized(3, 1.0) for name in GPJAX}
    ours = {name: STATIONARY[name][0](scales, jnp.asarray(1.7)) for name in GPJAX}
    given["part"] = as_kernel(gpjax.kernels.RBF(active_dims=[0, 2], lengthscale=0.8)).sized(3, 1.0)
    ours["part"] = SquaredExponential(jnp.asarray([0.8, 1e9, 0.8]), jnp.asarray(1.0))

    @quick
    def values(kernels):
        x, z = jnp.asarray(X), jnp.asarray(Z)
        return {name: (one.cross(x, z), one.diagonal(x)) for name, one in resolve(kernels).items()}

    found, expected = values(given), values(ours)
    for name in ours:
        for ready, known in zip(found[name], expected[name], strict=True):
            np.testing.assert_allclose(ready, known, rtol=1e-12, err_msg=name)


def test_gpjax_parameters_are_trained():
    given = as_kernel(gpjax.kernels.RBF(lengthscale=0.8) + gpjax.kernels.Linear()).sized(3, 1.0)
    trainable, rest = split(given)
    assert len(jax.tree.leaves(trainable)) == 3  # a lengthscale and two variances

    @quick
    def gradient(part):
        def value(part):
            ready = resolve(eqx.combine(part, rest))
            return jnp.sum(ready.cross(jnp.asarray(X), jnp.asarray(Z)) ** 2)

        return jax.grad(value)(part)

    assert all(abs(float(leaf.sum())) > 1e-3 for leaf in jax.tree.leaves(gradient(trainable)))


def test_gpjax_kernel_inside_a_sparse_gp_and_a_sum():
    @quick
    def marginals(kernel):
        size = X.shape[0]
        gp = SparseGP(kernel, jnp.asarray(X), jnp.ones((size, 1)), 0.5 * jnp.eye(size)[None])
        return gp.marginals(jnp.asarray(Z), gp.factor())

    given, ours = Foreign(gpjax.kernels.RBF(lengthscale=0.8)) + Linear(), SquaredExponential(0.8) + Linear()
    pairs = zip(*(marginals(resolve(one.sized(3, 1.0))) for one in (given, ours)), strict=True)
    # The factor of K (condition 1e6 at worst) turns rounding of 1e-16 in K into 1e-10.
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (gpjax.kernels.RBF(lengthscale=jnp.ones(3)), "RBF: expected a kernel for 2 dimensions.*got one of 3"),
        (gpjax.kernels.RBF(lengthscale=jnp.ones(3)) + gpjax.kernels.Linear(), "RBF: .*got one of 3"),
        (gpjax.kernels.Matern52(active_dims=[0, 2]), r"Matern52: .*for 2 dimensions.*active_dims \[0, 2\]"),
        (gpjax.kernels.RBF(active_dims=slice(0, 3)), r"RBF: .*for 2 dimensions.*active_dims slice\(0, 3"),
    ],
)
def test_gpjax_kernel_of_other_dimensions_is_refused(wrong, words):
    with pytest.raises(SettingError, match=words):
        as_kernel(wrong).sized(2, 1.0)
