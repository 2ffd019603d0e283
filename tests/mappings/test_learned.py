"""The first guess of a mapping: what it must find where the answer is known."""

import numpy as np
import pytest

from aligngp.mappings.learned import first_guess

INITS = ("supervised", "pca")
rng = np.random.default_rng(0)
SPREADS = np.array([2.0, 1.0, 0.4])
COMMON = rng.normal(size=(60, 3)) * SPREADS + [0.3, -1.0, 2.0]
COMMON_Y = COMMON @ [0.9, -1.4, 0.8] + 0.05 * rng.normal(size=60)


def orthogonal(size, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


@pytest.mark.parametrize("init", INITS)
def test_the_same_domain_is_mapped_onto_itself(init):
    A, b = first_guess(COMMON, COMMON_Y, COMMON, COMMON_Y, init)
    np.testing.assert_allclose(A, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(b, np.zeros(3), atol=1e-10)


@pytest.mark.parametrize("init", INITS)
def test_a_rotated_and_shifted_domain_is_turned_back(init):
    turn = orthogonal(3, 1)
    own = COMMON @ turn.T + [5.0, -3.0, 1.0]
    A, b = first_guess(own, COMMON_Y, COMMON, COMMON_Y, init)
    np.testing.assert_allclose(A, turn.T, atol=1e-9)
    np.testing.assert_allclose(own @ A.T + b, COMMON, atol=1e-8)


@pytest.mark.parametrize("init", INITS)
def test_a_mirrored_domain_is_turned_so_that_outputs_grow_the_same_way(init):
    A, _ = first_guess(-COMMON, COMMON_Y, COMMON, COMMON_Y, init)
    np.testing.assert_allclose(A, -np.eye(3), atol=1e-10)


def test_principal_components_are_paired_by_their_spread():
    # Two directions of the task, four times as wide; the narrowest direction of the common domain gets nothing.
    own = 4.0 * (COMMON - COMMON.mean(axis=0)) @ np.linalg.svd(COMMON - COMMON.mean(axis=0))[2][:2].T
    A, b = first_guess(own, COMMON_Y, COMMON, COMMON_Y, "pca")
    centred = COMMON - COMMON.mean(axis=0)
    directions = np.linalg.svd(centred)[2][:2]
    np.testing.assert_allclose(own @ A.T + b, COMMON.mean(axis=0) + centred @ directions.T @ directions, atol=1e-9)
    assert np.linalg.matrix_rank(A, tol=1e-9) == 2


def test_the_supervised_direction_is_that_of_the_ridge_fit():
    # The output grows along one direction only; variance alone would pair others first.
    own = rng.normal(size=(80, 4)) * [3.0, 1.0, 1.0, 0.5]
    slope = np.array([0.0, 0.0, 0.6, 0.8])
    A, _ = first_guess(own, own @ slope, COMMON, COMMON_Y, "supervised")
    fits = []
    for X, y in ((own, own @ slope), (COMMON, COMMON_Y)):
        centred, size = X - X.mean(axis=0), X.shape[1]
        augmented = np.vstack([centred, np.sqrt(1e-2 * len(X)) * np.eye(size)])
        fit = np.linalg.lstsq(augmented, np.concatenate([y - y.mean(), np.zeros(size)]), rcond=None)[0]
        fits.append(fit / np.linalg.norm(fit))
    image = A @ fits[0]
    ratio = np.std(COMMON @ fits[1]) / np.std(own @ fits[0])
    np.testing.assert_allclose(image, ratio * fits[1], atol=1e-9)
    pca, _ = first_guess(own, own @ slope, COMMON, COMMON_Y, "pca")
    assert np.linalg.norm(pca @ fits[0] - image) > 0.1 * ratio


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize(("own_dims", "dims"), [(1, 1), (1, 3), (3, 1), (5, 3)])
def test_centres_meet_and_spreads_agree(init, own_dims, dims):
    own = rng.normal(size=(30, own_dims)) @ orthogonal(own_dims, 2) * 1.7 + 0.5
    common = COMMON[:, :dims]
    A, b = first_guess(own, own[:, 0] ** 2 + own[:, 0], common, COMMON_Y, init)
    np.testing.assert_allclose(A @ own.mean(axis=0) + b, common.mean(axis=0), atol=1e-12)
    # Each paired direction of the common domain gets the spread that it has: A maps one basis on the other.
    left, sizes, _ = np.linalg.svd(A)
    assert np.sum(sizes > 1e-9) == min(own_dims, dims)
    if min(own_dims, dims) == 1:
        np.testing.assert_allclose(np.std(own @ A.T @ left[:, 0]), np.std(common @ left[:, 0]), rtol=1e-10)


def test_a_constant_output_leaves_the_principal_components():
    own = rng.normal(size=(40, 3)) * [3.0, 1.0, 0.3]
    flat = np.full(40, 2.0), np.full(60, -1.0)
    guesses = [first_guess(own, flat[0], COMMON, flat[1], init) for init in INITS]
    np.testing.assert_allclose(guesses[0][0], guesses[1][0], atol=1e-12)
    assert np.linalg.matrix_rank(guesses[0][0], tol=1e-9) == 3  # a sign of zero must not erase a direction


@pytest.mark.parametrize("init", INITS)
def test_a_direction_in_which_the_rows_do_not_move_is_left_out(init):
    # Two columns that are one: their difference must not be blown up at new rows that differ in them.
    column = rng.normal(size=40)
    own = np.column_stack([column, column])
    A, b = first_guess(own, column, COMMON[:, :2], COMMON_Y, init)
    np.testing.assert_allclose(A @ [1.0, -1.0], 0.0, atol=1e-9)
    assert np.linalg.norm(A @ [1.0, 1.0]) > 0.1
    np.testing.assert_allclose(A @ own.mean(axis=0) + b, COMMON[:, :2].mean(axis=0), atol=1e-12)
