"""A fitted model as a model of BoTorch, for its acquisition functions and its optimisers (extra ``botorch``)."""

# pyright: reportMissingImports=false
# The environment in which types are checked does without PyTorch.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aligngp.ensemble import Ensemble
from aligngp.errors import MissingPackageError, SettingError
from aligngp.estimator import AlignedGP
from aligngp.runtime import computing
from aligngp.suggest.conditioned import conditioned
from aligngp.suggest.surface import Surface, make_surface

try:
    import torch
    from botorch.models.model import Model
    from botorch.posteriors.gpytorch import GPyTorchPosterior
    from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
    from linear_operator.operators import to_linear_operator
    from torch.autograd.function import once_differentiable
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in ("torch", "botorch", "gpytorch", "linear_operator"):
        raise
    raise MissingPackageError(
        f'aligngp.botorch needs {error.name}, which is not installed. Install it: pip install "aligngp[botorch]".',
        name=error.name,
    ) from None

_JITTER = 1e-8
"""Added to the covariances of rows with each other, as a part of the prior variance: they are to be factored."""


class _Joint(torch.autograd.Function):
    """Means (b, q) and covariances (b, q, q) of rows (b, q, d); the derivatives are those of JAX."""

    @staticmethod
    def forward(ctx: Any, X: torch.Tensor, surface: Surface) -> tuple[torch.Tensor, torch.Tensor]:
        rows = np.from_dlpack(X.detach().contiguous()).astype(float)
        scaler = surface.part.frame.outputs[surface.task]
        ctx.surface, ctx.rows, ctx.like, ctx.slopes = surface, rows, X, None
        with computing():
            if rows.shape[1] == 1 and X.requires_grad:
                mean, variance, *ctx.slopes = surface.slopes(rows[:, 0])
                mean, covariance = mean[:, None], variance[:, None, None]
            elif rows.shape[1] == 1:
                mean, variance = surface.moments(rows[:, 0])
                mean, covariance = mean[:, None], variance[:, None, None]
            else:
                mean, covariance = _padded(surface.joint, rows)
        mean, covariance = (
            scaler.inverse(mean[..., None])[..., 0],
            scaler.inverse_variance(covariance[..., None])[..., 0],
        )
        return _tensor(mean, X), _tensor(covariance, X)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        by_mean, by_covariance = (np.from_dlpack(one.detach().contiguous()).astype(float) for one in gradients)
        scale = float(ctx.surface.part.frame.outputs[ctx.surface.task].scale[0])
        by_mean, by_covariance = by_mean * scale, by_covariance * scale**2
        if ctx.slopes is not None:
            mean, variance = ctx.slopes
            return _tensor((by_mean * mean + by_covariance[:, 0] * variance)[:, None], ctx.like), None
        with computing():
            return _tensor(_padded(ctx.surface.pulled, ctx.rows, by_mean, by_covariance), ctx.like), None


def _tensor(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_dlpack(np.array(values)).to(like)


def _padded(function: Any, *arrays: np.ndarray) -> Any:
    """Call a function of batches with a power of two of them, so that few sizes are compiled."""
    number = len(arrays[0])
    extra = 2 ** max(int(np.ceil(np.log2(max(number, 1)))), 2) - number
    full = [np.concatenate([array, np.repeat(array[-1:], extra, axis=0)]) for array in arrays]
    found = function(*full)
    return tuple(part[:number] for part in found) if isinstance(found, tuple) else found[:number]


class AlignedModel(Model):
    """One task of a fitted :class:`AlignedGP`, or several with the same inputs, as a BoTorch model.

    .. math:: f(X) \\sim N(m(X), C(X, X)), \\quad X \\in R^{b \\times q \\times d}

    The posterior is in the data's units, over the task's raw inputs in the order of its columns, and differentiable by
    them: derivatives are computed by JAX and handed over without copies. The mixture of the default model is taken as
    Gaussian, by its mean and covariance; several tasks are independent outputs.

    ``condition_on_observations`` takes rows (n, d) and outputs (n, 1), without derivatives by them; batches of
    fantasies are refused, so acquisitions that fantasise (knowledge gradient) cannot be had.

    Parameters
    ----------
    gp: a fitted :class:`AlignedGP`.
    task: the task, or a sequence of tasks with the same columns.
    """

    num_outputs: int = 1  # type: ignore[assignment]

    def __init__(self, gp: AlignedGP, task: str | Sequence[str]):
        super().__init__()
        names = (task,) if isinstance(task, str) else tuple(task)
        found = [gp._part(name) for name in names]
        columns = {part.frame.tasks[at].columns for part, at in found}
        if len(columns) != 1:
            raise SettingError(
                f"AlignedModel: tasks {', '.join(map(repr, names))} have different inputs, {sorted(columns)}. Make a "
                "model of each, or of tasks with the same columns."
            )
        with computing():
            self._set([make_surface(part, at) for part, at in found], names)

    def _set(self, surfaces: list[Surface], names: tuple[str, ...]) -> None:
        self.tasks, self._surfaces, self.num_outputs = names, surfaces, len(surfaces)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the last axis of X."""
        surface = self._surfaces[0]
        return surface.part.frame.tasks[surface.task].columns

    @property
    def batch_shape(self) -> torch.Size:
        """The model itself has no batches."""
        return torch.Size([])

    def posterior(
        self,
        X: torch.Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | torch.Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """Return the joint posterior over the q rows of every batch of X (..., q, d)."""
        if X.dim() < 2 or X.shape[-1] != len(self.columns):
            raise SettingError(
                f"AlignedModel: expected X of shape (..., q, {len(self.columns)}) with the columns "
                f"{', '.join(self.columns)}, got {tuple(X.shape)}."
            )
        chosen = range(self.num_outputs) if output_indices is None else output_indices
        laws = [self._law(self._surfaces[at], X, self._noise(at, observation_noise)) for at in chosen]
        law = laws[0] if len(laws) == 1 else MultitaskMultivariateNormal.from_independent_mvns(mvns=laws)
        posterior = GPyTorchPosterior(law)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def _noise(self, at: int, asked: Any) -> Any:
        if torch.is_tensor(asked):
            return asked[..., at]
        surface = self._surfaces[at]
        scale = float(surface.part.frame.outputs[surface.task].scale[0])
        return surface.noise * scale**2 if asked else 0.0

    def _law(self, surface: Surface, X: torch.Tensor, noise: Any) -> MultivariateNormal:
        shape, q = X.shape[:-2], X.shape[-2]
        mean, covariance = _Joint.apply(X.reshape(-1, q, X.shape[-1]), surface)  # type: ignore[misc]
        mean, covariance = mean.reshape(*shape, q), covariance.reshape(*shape, q, q)
        scale = float(surface.part.frame.outputs[surface.task].scale[0])
        added = torch.as_tensor(noise, dtype=X.dtype, device=X.device) + _JITTER * scale**2
        diagonal = torch.diag_embed(added.expand(*shape, q).to(X))
        return MultivariateNormal(mean, to_linear_operator(covariance + diagonal))

    def subset_output(self, idcs: list[int]) -> AlignedModel:
        """Return the model of some of the outputs."""
        model = AlignedModel.__new__(AlignedModel)
        Model.__init__(model)
        model._set([self._surfaces[at] for at in idcs], tuple(self.tasks[at] for at in idcs))
        return model

    def condition_on_observations(self, X: torch.Tensor, Y: torch.Tensor, **kwargs: Any) -> AlignedModel:
        """Return the model given further rows X (n, d) with outputs Y (n, 1); its hyperparameters stay as they are."""
        surface = self._surfaces[0]
        if X.dim() != 2 or Y.shape != (X.shape[0], 1) or self.num_outputs != 1:
            raise NotImplementedError(
                f"AlignedModel: condition_on_observations takes X (n, d) and Y (n, 1) of one output, got "
                f"{tuple(X.shape)} and {tuple(Y.shape)} of {self.num_outputs}. Batches of fantasies, which knowledge "
                "gradients need, are not supported: use an acquisition without them, such as qLogNEI."
            )
        if not isinstance(surface.part.model, Ensemble):
            raise NotImplementedError(
                "AlignedModel: only the mixture of exact GPs behind calibration='auto' takes further rows without a "
                "new fit, and this is another model. Fit with calibration='auto', or fit again with the new rows."
            )
        rows, values = (np.from_dlpack(one.detach().contiguous()).astype(float) for one in (X, Y))
        with computing():
            part = conditioned(surface.part, surface.task, rows, values[:, 0])
            new = make_surface(part, surface.task)
        model = AlignedModel.__new__(AlignedModel)
        Model.__init__(model)
        model._set([replace(new)], self.tasks)
        return model
