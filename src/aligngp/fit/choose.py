"""Which inference: from the sizes, the likelihood and the mappings, and said in one line.

``exact`` needs known aligned inputs and few rows; ``collapsed`` a closed form of the expectations, its cost grows with
the rows; ``svi`` takes the rest, any number of rows in minibatches.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aligngp.errors import SettingError
from aligngp.settings import Settings

log = logging.getLogger("aligngp")

Inference = Literal["exact", "collapsed", "svi", "adam"]

EXACT_ROWS = 500
"""Most rows that "auto" fits exactly: an evaluation costs what the collapsed one of M = 100 does."""
MOST_EXACT_ROWS = 5000
"""Most rows that are fitted exactly on request: 200 MB a matrix."""
COLLAPSED_WORK = 3e8
"""Most multiplications N K^2 of the collapsed bound, K all inducing inputs: a tenth of a second an evaluation."""
PSI_WORK = 5e6
"""Most psi statistics B M^2 Q (Q + 1) / 2 over the uncertain tasks: as much again."""


@dataclass(frozen=True)
class Problem:
    """What decides: numbers of rows of all tasks and of those with uncertain aligned inputs, inducing inputs, latents.

    ``closed`` tells whether expectations over uncertain inputs have a closed form.
    """

    rows: Sequence[int]
    uncertain: Sequence[int]
    inducing: Sequence[int]
    latents: int
    closed: bool

    @property
    def total(self) -> int:
        """Return the number of all rows."""
        return sum(self.rows)

    @property
    def psi_work(self) -> float:
        """Return the number of psi statistics of an evaluation."""
        return sum(self.uncertain) * max(self.inducing) ** 2 * self.latents * (self.latents + 1) / 2


def choose(settings: Settings, problem: Problem, label: str, streamed: Sequence[str] = ()) -> Inference:
    """Return the inference that is asked for, if it is possible, or the fastest that is; ``streamed`` names tasks."""
    if streamed:
        if settings.inference not in ("auto", "svi"):
            raise SettingError(
                f"inference={settings.inference!r} takes all rows in memory, and those of task {streamed[0]!r} are "
                "streamed. Pass inference='svi', or agp.Parquet(..., stream=False)."
            )
        log.info("%s: inference svi (the rows of %s are streamed)", label, ", ".join(map(repr, streamed)))
        return "svi"
    if settings.inference == "auto":
        chosen, reason = _fastest(settings, problem)
        log.info("%s: inference %s (%s)", label, chosen, reason)
        return chosen
    _check(settings, problem)
    return settings.inference  # type: ignore[return-value]  (checked against the accepted values)


def _fastest(settings: Settings, problem: Problem) -> tuple[Inference, str]:
    rows, work = problem.total, problem.total * sum(problem.inducing) ** 2
    if settings.batch_size is not None:
        return "svi", "batch_size is given"
    if not problem.uncertain and settings.num_inducing is None and rows <= EXACT_ROWS:
        return "exact", f"{rows} rows, known aligned inputs"
    if problem.uncertain and (not problem.closed or settings.expectation == "sampled"):
        return "svi", "the expectation over aligned inputs is sampled"
    if problem.uncertain and problem.psi_work > PSI_WORK:
        return "svi", f"{problem.psi_work:.2g} psi statistics an evaluation"
    if work > COLLAPSED_WORK:
        return "svi", f"{rows} rows and {sum(problem.inducing)} inducing inputs"
    return "collapsed", f"{rows} rows and {sum(problem.inducing)} inducing inputs"


def _check(settings: Settings, problem: Problem) -> None:
    """Raise where the inference that is asked for cannot be had."""
    asked = settings.inference
    if asked == "exact" and problem.uncertain:
        raise SettingError(
            "inference='exact' needs aligned inputs that are known, and this calibration makes them uncertain. Pass "
            "calibration='none' or 'linear', or inference='collapsed'."
        )
    if asked == "exact" and problem.total > MOST_EXACT_ROWS:
        raise SettingError(
            f"inference='exact' takes at most {MOST_EXACT_ROWS} rows in all (the covariance of all rows is one "
            f"matrix), got {problem.total}. Pass inference='collapsed' or 'svi'."
        )
    if asked == "collapsed" and problem.uncertain and (not problem.closed or settings.expectation == "sampled"):
        raise SettingError(
            "inference='collapsed' takes expectations over aligned inputs in closed form, for the SE kernel only; got "
            f"kernel={settings.kernel!r}, expectation={settings.expectation!r}. Pass kernel='se' or inference='svi'."
        )
    if asked in ("exact", "collapsed") and settings.batch_size is not None:
        raise SettingError(
            f"inference={asked!r} uses all rows in every step, got batch_size={settings.batch_size!r}. Leave it out, "
            "or pass inference='svi'."
        )
    if asked == "adam" and settings.hyperparameters not in ("auto", "ml"):
        raise SettingError(
            "inference='adam' is the paper's training, of the bound alone (hyperparameters='ml'); got "
            f"hyperparameters={settings.hyperparameters!r}. Pass another inference."
        )
