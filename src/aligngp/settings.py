"""Every keyword of AlignedGP, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import SettingError
from aligngp.kernels import as_kernel

CALIBRATIONS = ("auto", "none", "bayes", "embedded", "free", "linear")
INFERENCES = ("auto", "exact", "collapsed", "svi", "adam")
HYPERPARAMETERS = ("auto", "map", "marginalize", "ml")
EXPECTATIONS = ("auto", "analytic", "sampled")
DTYPES = ("float64", "float32")
LIKELIHOODS = ("gaussian",)

_CHOICES: dict[str, tuple] = {
    "inference": INFERENCES,
    "hyperparameters": HYPERPARAMETERS,
    "expectation": EXPECTATIONS,
    "dtype": DTYPES,
    "likelihood": LIKELIHOODS,
    "shared": (True, False),
    "standardize": (True, False),
    "progress": (True, False, None),
    "residual": (True, False, None),
}
_WHOLE = ("num_latents", "num_inducing", "max_iterations", "patience", "restarts", "num_samples")
_POSITIVE = (
    "learning_rate",
    "initial_lengthscale",
    "initial_mapping_lengthscale",
    "initial_mapping_variance",
    "initial_noise",
)
_NOT_NEGATIVE = ("mapping_kl_weight", "imc_penalty")
_LARGEST_SEED = 2**32 - 1
"""What scikit-learn's k-means takes."""


@dataclass(frozen=True)
class Settings:
    """The keywords of :class:`aligngp.AlignedGP`; see there for what each of them means.

    Numbers of NumPy become Python's, and dicts are copied: what a user does to them later changes nothing here.
    """

    common: str | None = None
    mappings: Mapping[str, Any] | None = None
    calibration: str | Mapping[str, str] = "auto"
    shared: bool = True
    inference: str = "auto"
    hyperparameters: str = "auto"
    residual: bool | None = None
    num_latents: int = 2
    num_inducing: int | None = None
    kernel: Any = "se"
    mapping_kernel: Any = "se"
    likelihood: str = "gaussian"
    batch_size: int | Mapping[str, int] | None = None
    max_iterations: int | None = None
    learning_rate: float | None = None
    patience: int | None = None
    restarts: int | None = None
    expectation: str = "auto"
    num_samples: int = 10
    mapping_kl_weight: float | None = None
    imc_penalty: float = 1.0
    initial_lengthscale: float | None = None
    initial_mapping_lengthscale: float | None = None
    initial_mapping_variance: float = 1.0
    initial_noise: float | None = None
    standardize: bool = True
    dtype: str = "float64"
    seed: int = 0
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name, value in self._checked().items():
            object.__setattr__(self, name, value)

    def _checked(self) -> dict[str, Any]:
        """Return the keywords that are checked here, as plain Python values."""
        given = {name: getattr(self, name) for name in (field.name for field in fields(self))}
        optional = {name for name in given if getattr(type(self), name) is None}
        if given["common"] is not None and not isinstance(given["common"], str):
            raise SettingError(f"common: expected the name of a task or None, got {given['common']!r}.")
        if given["mappings"] is not None and not isinstance(given["mappings"], Mapping):
            raise SettingError(
                f"mappings: expected a dict of task name to mapping, got {type(given['mappings']).__name__}."
            )
        for name in ("kernel", "mapping_kernel"):
            _kernel(name, given[name])
        return {
            "mappings": None if given["mappings"] is None else dict(given["mappings"]),
            "calibration": _of_tasks("calibration", given["calibration"], CALIBRATIONS),
            "batch_size": _batch_size(given["batch_size"]),
            "seed": seed_number("seed", given["seed"]),
            **{name: choice(name, given[name], accepted) for name, accepted in _CHOICES.items()},
            **{name: whole(name, given[name], name in optional) for name in _WHOLE},
            **{name: number(name, given[name], name in optional) for name in _POSITIVE},
            **{name: number(name, given[name], name in optional, zero=True) for name in _NOT_NEGATIVE},
        }

    def check_tasks(self, names: Sequence[str]) -> None:
        """Raise where a keyword speaks of a task that is not there.

        Of tasks that share nothing, only ``batch_size`` matters: the same keywords then fit one task of several too.
        """
        for keyword in ("common", "mappings", "calibration", "batch_size") if self.shared else ("batch_size",):
            value = getattr(self, keyword)
            tasks = list(value) if isinstance(value, Mapping) else [value] if keyword == "common" and value else []
            for task in tasks:
                if task not in names:
                    raise SettingError(
                        f"{keyword}: there is no task {task!r}{did_you_mean(task, names)}. The tasks are "
                        f"{listed(names)}."
                    )

    def check_common(self, common: str) -> None:
        """Raise where the common task is to be calibrated: its inputs are the common domain."""
        asked = self.calibration.get(common, "auto") if isinstance(self.calibration, Mapping) else "auto"
        if asked not in ("auto", "none"):
            raise SettingError(
                f"calibration: task {common!r} is the common task, whose inputs are the common domain, so it has no "
                f"mapping to calibrate; got {asked!r}. Leave it out, or name another common task."
            )

    def alone(self, task: str) -> Settings:
        """Return the settings of a task that shares nothing: its own inputs are the domain, nothing is mapped."""
        size = self.batch_size.get(task) if isinstance(self.batch_size, Mapping) else self.batch_size
        return replace(self, common=task, mappings=None, calibration="none", batch_size=size)

    def changed(self) -> list[str]:
        """Return ``name=value`` of every keyword that does not have its default."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        plain = (str, int, float)
        return [
            f"{name}={value!r}"
            for name, (value, default) in values.items()
            if value is not default and not (isinstance(value, plain) and value == default)
        ]

    def calibration_of(self, task: str) -> str:
        """Return what is done with a task's mapping, ``"auto"`` resolved.

        ``"auto"`` is the residual GP mapping under the two-layer bound (KL weight 0): with the paper's weight 1 the
        mapping seldom leaves the prior one.
        """
        asked = self.asked(task)
        return "bayes" if asked == "auto" else asked

    def kl_weight_of(self, task: str) -> float:
        """Return the weight of KL[q(X_bar) || p(X_bar)] for a task."""
        if self.mapping_kl_weight is not None:
            return self.mapping_kl_weight
        return 0.0 if self.asked(task) == "auto" else 1.0

    def asked(self, task: str) -> str:
        """Return the calibration that was asked for a task."""
        return self.calibration.get(task, "auto") if isinstance(self.calibration, Mapping) else self.calibration

    def has_residual(self, task: str) -> bool:
        """Tell whether a task gets a GP on its own inputs; by default with ``calibration="auto"`` alone."""
        return self.asked(task) == "auto" if self.residual is None else self.residual

    @property
    def iterations(self) -> int:
        """Return the most steps: the paper's 5000 unless told otherwise."""
        return 5000 if self.max_iterations is None else self.max_iterations


def choice(name: str, value: Any, accepted: tuple) -> Any:
    """Return one of the accepted values, or raise."""
    plain = value.item() if isinstance(value, np.bool_) else value
    for item in accepted:
        if plain is item or (isinstance(plain, str) and plain == item):
            return item
    raise SettingError(f"{name}: expected one of {', '.join(map(repr, accepted))}, got {value!r}.")


def whole(name: str, value: Any, optional: bool = False) -> Any:
    """Return a whole number >= 1 (or None, if optional), or raise."""
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise SettingError(f"{name}: expected a whole number >= 1{' or None' if optional else ''}, got {value!r}.")
    return int(value)


def number(name: str, value: Any, optional: bool = False, zero: bool = False) -> Any:
    """Return a finite number above zero (or zero; or None, if optional), or raise."""
    if value is None and optional:
        return None
    plain = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(plain) or plain < 0 or (plain == 0 and not zero):
        kind = "a number >= 0" if zero else "a positive number"
        raise SettingError(f"{name}: expected {kind}{' or None' if optional else ''}, got {value!r}.")
    return plain


def seed_number(name: str, value: Any) -> int:
    """Return a seed that every random stream accepts, or raise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) <= _LARGEST_SEED:
        raise SettingError(f"{name}: expected a whole number from 0 to {_LARGEST_SEED}, got {value!r}.")
    return int(value)


def _kernel(name: str, value: Any) -> None:
    """Raise where a value stands for no kernel, and name the keyword."""
    try:
        as_kernel(value)
    except SettingError as error:
        raise SettingError(str(error).replace("kernel:", f"{name}:", 1)) from None


def _of_tasks(name: str, value: Any, accepted: tuple) -> Any:
    """Return a choice for all tasks, or a dict of task to choice."""
    if isinstance(value, Mapping):
        return {task: choice(f"{name} of task {task!r}", one, accepted) for task, one in value.items()}
    return choice(name, value, accepted)


def _batch_size(value: Any) -> Any:
    """Return a number of rows for all tasks, or a dict of task to number; None is all rows."""
    if isinstance(value, Mapping):
        return {task: whole(f"batch_size of task {task!r}", rows, optional=True) for task, rows in value.items()}
    return whole("batch_size", value, optional=True)
