"""Reaching the GPs of a model, wherever they stand in it: latents, residuals, mappings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx

from aligngp.gp.sparse import SparseGP
from aligngp.mappings.contract import AbstractMapping
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.model import Model

Change = Callable[[SparseGP], SparseGP]


def with_gps(model: Model, shared: Change, mapped: Change | None = None) -> Model:
    """Return the model with its latents, then its residuals, changed; and then the GPs of its mappings."""
    latents = tuple(shared(latent) for latent in model.latents)
    residuals = tuple(None if residual is None else shared(residual) for residual in model.residuals)
    mappings = model.mappings if mapped is None else tuple(_with_gp(one, mapped) for one in model.mappings)
    return replace(model, latents=latents, residuals=residuals, mappings=mappings)


def gp_of(mapping: AbstractMapping) -> SparseGP | None:
    """Return the GP of a mapping, None where it has none."""
    return mapping.gp if isinstance(mapping, ResidualGP | EmbeddedGP) else None


def without_posterior(gp: SparseGP) -> SparseGP:
    """Return a GP without its q(u), for what is trained apart from it."""
    return eqx.tree_at(lambda one: (one.mean, one.scale), gp, (None, None))


def without_inducing(gp: SparseGP) -> SparseGP:
    """Return a GP without its inducing inputs."""
    return eqx.tree_at(lambda one: one.inducing, gp, None)


def _with_gp(mapping: AbstractMapping, change: Change) -> AbstractMapping:
    return replace(mapping, gp=change(mapping.gp)) if isinstance(mapping, ResidualGP | EmbeddedGP) else mapping
