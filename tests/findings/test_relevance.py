"""Typical slopes, against second derivatives of the covariances themselves."""

import numpy as np
import pytest

import aligngp as agp
from aligngp.ensemble.target import Seen
from aligngp.findings.relevance import relevance
from aligngp.parameters import resolve
from aligngp.runtime import computing
from estimators import moved
from pictures import noisy

_STEP = 1e-4


def _slopes_of_covariance(target, member, p):
    """E (df / dx_d)^2 at the origin of the own inputs, by differences, of one draw of a form that stands alone."""
    size = target.own.shape[1]
    one = member.prior.read(member.z[p : p + 1])

    def variance_of_difference(d):
        rows = np.zeros((2, size))
        rows[1, d] = _STEP
        seen: Seen = target.given.see(rows, rows)
        K = member.prior.covariance(one, target.given.pair(seen, seen))[0]
        return (K[0, 0] + K[1, 1] - 2.0 * K[0, 1]) / _STEP**2

    return np.array([variance_of_difference(d) for d in range(size)])


def test_a_task_alone_has_the_slopes_of_its_covariances():
    X = np.random.default_rng(0).uniform(size=(8, 2))
    gp = agp.AlignedGP(progress=False).fit({"one": (X, np.sin(4.0 * X[:, 0]) + 0.2 * X[:, 1])})
    target = gp.model.targets[0]
    expected = sum(
        weight * np.mean([_slopes_of_covariance(target, member, p) for p in range(len(member.z))], axis=0)
        for weight, member in zip(target.weights, target.members, strict=True)
    )
    found = relevance(gp, "one")
    assert found.own == pytest.approx(np.sqrt(expected), rel=1e-3)
    assert found.own[0] > 2.0 * found.own[1]
    assert found.common.size == 0


def test_own_inputs_count_by_every_form():
    target = noisy().model.targets[0]
    gradient = target.given.sources.mean(target.nominal)[1] * target.given.sources.reach
    steepness = np.mean([np.sum(row**2) for row in gradient])
    expected = np.zeros(2)
    for weight, member in zip(target.weights, target.members, strict=True):
        h = member.prior.read(member.z)
        for term, v, width in zip(member.prior.form.terms, h.variances, h.widths, strict=True):
            for p, d in np.ndindex(width.shape) if not term.aligned else ():
                slope = width[p, d] / 2 if term.linear else 1.0 / width[p, d] ** 2
                share = weight * (steepness if term.calibrates else 1.0) / len(v)
                expected[d] += share * h.scale[p] * v[p] * slope
    assert relevance(noisy(), "target").own == pytest.approx(np.sqrt(expected))


def test_what_comes_from_the_sources():
    ensemble = noisy().model
    target, sources = ensemble.targets[0], ensemble.targets[0].given.sources
    shares = []
    for weight, member in zip(target.weights, target.members, strict=True):
        if member.prior.form.transfers:
            h = member.prior.read(member.z)
            shares.append((weight, np.mean(h.scale * member.prior.weights(h)[1][:, 0])))
    slope = np.sum(sources.mixing[0] ** 2 / sources.lengthscale[:, 0] ** 2)
    added = 0.0
    for weight, member in zip(target.weights, target.members, strict=True):
        if member.prior.form.name in ("shifted", "shifted, same units"):
            h = member.prior.read(member.z)
            added += weight * np.mean(h.scale * h.variances[0] / h.widths[0][:, 0] ** 2)
    expected = np.sqrt(slope * sum(w * t for w, t in shares) + added)
    assert relevance(noisy(), "target").common == pytest.approx([expected])


def test_a_sparse_model_has_those_of_its_kernels():
    gp = moved("bayes", residual=True)
    with computing():
        model = resolve(gp.model)
        (latent,), residual = model.latents, model.residuals[0].kernel
        common = float(model.mixing[0, 0]) ** 2 * float(latent.kernel.variance) / latent.kernel.lengthscale**2
        own = float(residual.variance) / np.asarray(residual.lengthscale) ** 2
    found = relevance(gp, "fine")
    assert found.common == pytest.approx(np.sqrt(np.asarray(common)))
    assert found.own == pytest.approx(np.sqrt(own))
    assert (found.columns, found.common_columns) == (("x1", "x2"), ("x1",))


def test_a_kernel_without_lengthscales():
    with pytest.raises(agp.SettingError, match=r"'fine'.*Linear has none.*partial_dependence"):
        relevance(moved("none", kernel="linear"), "fine")
