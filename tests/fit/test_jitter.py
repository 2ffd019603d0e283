"""Whether a user hears that a covariance could be factored with more jitter alone."""

import warnings
from dataclasses import replace
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp import parts
from aligngp.errors import AligngpWarning
from aligngp.fit.jitter import warn_of_jitter
from aligngp.fit.pipeline import fit_model
from aligngp.gp.sparse import SparseGP
from aligngp.parameters import resolve
from estimators import make, tasks
from training import case


def singular(gp: SparseGP) -> SparseGP:
    """A GP with inducing inputs on top of each other and no jitter to help."""
    return replace(gp, inducing=jnp.broadcast_to(gp.inducing[:1], gp.inducing.shape), jitter=0.0)


def heard(model, names):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_jitter(model, names, stacklevel=1)
    assert all(one.category is AligngpWarning for one in found)
    return [str(one.message) for one in found]


def test_every_gp_that_needed_more_is_named():
    built = case()
    model, names = built.start("bayes", residual=True), built.frame.names
    assert heard(model, names) == []
    at = names.index("fine")
    residual, mapping = model.residuals[at], model.mappings[at]
    residuals = tuple(singular(residual) if t == at else one for t, one in enumerate(model.residuals))
    mappings = tuple(replace(mapping, gp=singular(mapping.gp)) if t == at else m for t, m in enumerate(model.mappings))
    latents = (model.latents[0], singular(model.latents[1]))
    (said,) = heard(replace(model, latents=latents, residuals=residuals, mappings=mappings), names)
    for name, gp in (
        ("latent GP 2", latents[1]),
        ("the residual of task 'fine'", residuals[at]),
        ("the mapping of task 'fine'", mappings[at].gp),
    ):
        used = float(resolve(gp).jitter_needed())
        assert 0.0 < used < 1e-8
        assert f"{name} {used:.0e} (usual 0e+00)" in said
    assert "latent GP 1" not in said


def test_a_fit_says_so():
    def on_top_of_each_other(*arguments):
        fitted = fit_model(*arguments)
        return replace(fitted, model=replace(fitted.model, latents=tuple(map(singular, fitted.model.latents))))

    fit = make(num_inducing=6, max_iterations=2, inference="collapsed", calibration="none")
    with mock.patch.object(parts, "fit_model", on_top_of_each_other):
        with pytest.warns(AligngpWarning, match=r"nearly singular.*latent GP 1 \de-\d+ \(usual 0e\+00\)") as found:
            fit.fit(tasks())
    assert len(found) == 1
    assert np.all(np.isfinite(fit.predict("fine", tasks()["fine"][0]).variance))


def test_an_exact_fit_has_no_inducing_covariance():
    gp = agp.AlignedGP("coarse", mappings={"fine": ["x2"]}, calibration="none", inference="exact", max_iterations=2)
    model = gp.fit(tasks()).model
    assert heard(replace(model, latents=tuple(singular(latent) for latent in model.latents)), ("fine", "coarse")) == []
