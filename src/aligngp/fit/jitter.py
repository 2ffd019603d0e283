"""Whether a covariance needed more jitter than usual, said to a person."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import equinox as eqx

from aligngp.errors import AligngpWarning
from aligngp.fit.gps import gp_of
from aligngp.gp.sparse import SparseGP
from aligngp.model import Model
from aligngp.parameters import resolve


def warn_of_jitter(model: Model, names: Sequence[str], stacklevel: int) -> None:
    """Warn, once, which GPs of a fitted model have inducing covariances that only more than the usual jitter factors.

    An exact model has none.
    """
    if model.exact is not None:
        return
    found = []
    for label, gp in _named(model, names):
        needed = float(_needed(resolve(gp)))
        if needed > 1.5 * gp.jitter:  # it grows tenfold, and single precision rounds it
            found.append(f"{label} {needed:.0e} (usual {gp.jitter:.0e})")
    if found:
        warnings.warn(
            "The covariance of the inducing inputs is nearly singular; it could be factored with more jitter, as a "
            f"part of the prior variance: {', '.join(found)}. Predictions are smoothed by as much. Fewer num_inducing "
            "or dtype='float64' avoid it.",
            AligngpWarning,
            stacklevel=stacklevel + 1,
        )


def _named(model: Model, names: Sequence[str]) -> Iterator[tuple[str, SparseGP]]:
    """Give every GP of a model with what a person may call it."""
    for q, latent in enumerate(model.latents):
        yield f"latent GP {q + 1}", latent
    for task, name in enumerate(names):
        residual, mapping = model.residual(task), gp_of(model.mappings[task])
        if residual is not None:
            yield f"the residual of task {name!r}", residual
        if mapping is not None:
            yield f"the mapping of task {name!r}", mapping


@eqx.filter_jit
def _needed(gp: SparseGP):
    return gp.jitter_needed()
