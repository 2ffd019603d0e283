"""Every keyword of AlignedGP, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aligngp.errors import SettingError
from aligngp.kernels import as_kernel

CALIBRATIONS = ("auto", "none", "bayes", "embedded", "free", "linear")
INFERENCES = ("auto", "svi")
EXPECTATIONS = ("auto", "analytic", "sampled")
DTYPES = ("float64", "float32")
LIKELIHOODS = ("gaussian",)


@dataclass(frozen=True)
class Settings:
    """The keywords of :class:`aligngp.AlignedGP`; see there for what each of them means."""

    common: str | None = None
    mappings: Mapping[str, Any] | None = None
    calibration: str | Mapping[str, str] = "auto"
    shared: bool = True
    inference: str = "auto"
    num_latents: int = 2
    num_inducing: int | None = None
    kernel: Any = "se"
    mapping_kernel: Any = "se"
    likelihood: str = "gaussian"
    batch_size: int | Mapping[str, int] | None = None
    max_iterations: int | None = None
    learning_rate: float = 5e-3
    patience: int | None = None
    restarts: int | None = None
    expectation: str = "auto"
    num_samples: int = 10
    mapping_kl_weight: float | None = None
    imc_penalty: float = 1.0
    initial_lengthscale: float | None = None
    initial_mapping_lengthscale: float | None = None
    initial_mapping_variance: float = 1.0
    initial_noise: float = 0.1
    standardize: bool = True
    dtype: str = "float64"
    seed: int = 0
    progress: bool | None = None

    def __post_init__(self) -> None:
        _choice("inference", self.inference, INFERENCES)
        _choice("expectation", self.expectation, EXPECTATIONS)
        _choice("dtype", self.dtype, DTYPES)
        _choice("likelihood", self.likelihood, LIKELIHOODS)
        for name in self.calibration.values() if isinstance(self.calibration, Mapping) else [self.calibration]:
            _choice("calibration", name, CALIBRATIONS)
        for name in ("num_latents", "num_inducing", "max_iterations", "patience", "restarts", "num_samples"):
            _whole(name, getattr(self, name), optional=getattr(type(self), name) is None)
        for name in ("learning_rate", "initial_lengthscale", "initial_mapping_lengthscale", "initial_noise"):
            _positive(name, getattr(self, name), optional=getattr(type(self), name) is None)
        _positive("initial_mapping_variance", self.initial_mapping_variance)
        for name in ("mapping_kl_weight", "imc_penalty"):
            _positive(name, getattr(self, name), optional=getattr(type(self), name) is None, zero=True)
        for name in ("shared", "standardize"):
            _choice(name, getattr(self, name), (True, False))
        _choice("progress", self.progress, (True, False, None))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise SettingError(f"seed: expected a whole number >= 0, got {self.seed!r}.")
        if self.mappings is not None and not isinstance(self.mappings, Mapping):
            raise SettingError(
                f"mappings: expected a dict of task name to mapping, got {type(self.mappings).__name__}."
            )
        as_kernel(self.kernel)
        as_kernel(self.mapping_kernel)

    def calibration_of(self, task: str) -> str:
        """Return what is done with a task's mapping, ``"auto"`` resolved.

        ``"auto"`` is the residual GP mapping under the two-layer bound (KL weight 0): with the paper's weight 1 the
        mapping seldom leaves the prior one.
        """
        name = self.calibration.get(task, "auto") if isinstance(self.calibration, Mapping) else self.calibration
        return "bayes" if name == "auto" else name

    def kl_weight_of(self, task: str) -> float:
        """Return the weight of KL[q(X_bar) || p(X_bar)] for a task."""
        if self.mapping_kl_weight is not None:
            return float(self.mapping_kl_weight)
        automatic = (
            self.calibration.get(task, "auto") if isinstance(self.calibration, Mapping) else self.calibration
        ) == "auto"
        return 0.0 if automatic else 1.0

    @property
    def iterations(self) -> int:
        """Return the number of Adam steps: the paper's 5000 unless told otherwise."""
        return 5000 if self.max_iterations is None else self.max_iterations


def _choice(name: str, value: object, accepted: tuple) -> None:
    if not any(value is item or (isinstance(value, str) and value == item) for item in accepted):
        raise SettingError(f"{name}: expected one of {', '.join(map(repr, accepted))}, got {value!r}.")


def _whole(name: str, value: Any, optional: bool = False) -> None:
    if value is None and optional:
        return
    if value is None or isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError(f"{name}: expected a whole number >= 1{' or None' if optional else ''}, got {value!r}.")


def _positive(name: str, value: Any, optional: bool = False, zero: bool = False) -> None:
    if value is None and optional:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    if not number or value < 0 or (value == 0 and not zero) or value == float("inf"):
        kind = "a number >= 0" if zero else "a positive number"
        raise SettingError(f"{name}: expected {kind}{' or None' if optional else ''}, got {value!r}.")
