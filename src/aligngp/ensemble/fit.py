"""Fitting the ensemble: which tasks are whose sources, which forms compete, how their hyperparameters are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import perm

import numpy as np

from aligngp.data.tasks import TaskData
from aligngp.ensemble.forms import FORMS, MAPPED_FORMS, Form, column_forms
from aligngp.ensemble.given import Given, Likeness
from aligngp.ensemble.members import likeliest_member, map_member, sampled_member
from aligngp.ensemble.model import Ensemble
from aligngp.ensemble.prior import prior
from aligngp.ensemble.sources import Sources, fit_sources
from aligngp.ensemble.target import Target
from aligngp.ensemble.weights import form_weights
from aligngp.errors import SettingError
from aligngp.frame import Frame
from aligngp.kernels.radial import KERNELS
from aligngp.objective.elbo import TaskBatch
from aligngp.typing import Progress

MARGINALIZED_ROWS = 60
"""Most rows of a task whose hyperparameters are marginalised by ``hyperparameters="auto"``."""
ALIKE_ROWS = 30
"""Most rows of a task for which a source's location and scale are tried: more tell their own well enough."""
ALL_FORMS_ROWS = 300
"""Most rows of a task for which every form is tried."""
MOST_ROWS = 2000
"""Most rows of a task that its own GPs condition on; more are thinned at random."""
TRAINED_ROWS = 600
"""Most rows on which hyperparameters are searched for; the prediction conditions on all that are kept."""
COLUMN_CHOICES = 60
"""Most choices of own columns for common ones that are tried where the mapping is learned."""
MAPPED_SOURCE_ROWS = 200
"""Most rows that sources keep where the map to the common domain is sampled."""
_SMALLEST_SOURCE = 0.25
"""A source has at least this part of a target's rows."""
_SLACK, _FILLED = 0.1, 0.3
"""How far beyond a common input's range a column in its units may go, and how much of it the column fills."""
_ALIKE_SCALE, _ALIKE_SHIFT = 10.0, 10.0
"""How far outputs' standard deviations and means (in such) may be apart for the units to be taken for the same."""


def fit_ensemble(
    frame: Frame,
    tasks: tuple[TaskData, ...],
    batches: tuple[TaskBatch, ...],
    *,
    kernel: str = "se",
    seed: int = 0,
    hyperparameters: str = "auto",
    residual: bool = True,
    progress: Progress | None = None,
    log: Callable[[str], object] | None = None,
) -> Ensemble:
    """Return the ensemble of every task, given the others.

    A task's sources are the other tasks that have a quarter of its rows or more. ``residual=False`` leaves out the
    forms with a residual on own inputs.
    """
    fitting = Fitting(frame, tasks, batches, kernel, seed, hyperparameters, residual)
    targets = []
    for at, name in enumerate(frame.names):
        targets.append(fitting.target(at))
        if log is not None:
            said = ", ".join(
                f"{m.prior.form.name} {w:.2f}" for m, w in zip(targets[-1].members, targets[-1].weights, strict=True)
            )
            log(f"task {name!r}: weights of the forms {said}")
        if progress is not None:
            evidence = max(member.evidence for member in targets[-1].members)
            progress(at + 1, len(batches), evidence)
    return Ensemble(frame.names, tuple(targets))


@dataclass(eq=False)
class Fitting:
    """What every target is fitted from: the tables in standardised units, and the settings; sources are fitted once."""

    frame: Frame
    tasks: tuple[TaskData, ...]
    batches: tuple[TaskBatch, ...]
    kernel: str = "se"
    seed: int = 0
    hyperparameters: str = "auto"
    residual: bool = True
    _known: dict[tuple[int, ...], Sources] = field(default_factory=dict, init=False)

    def __post_init__(self):
        if self.kernel not in KERNELS:
            raise SettingError(f"kernel: the ensemble of exact GPs knows {', '.join(KERNELS)}; got {self.kernel!r}.")
        if self.hyperparameters not in ("auto", "map", "marginalize"):
            raise SettingError(
                f"hyperparameters: expected 'auto', 'map' or 'marginalize', got {self.hyperparameters!r}."
            )

    def sources_of(self, at: int, among: Collection[int] | None = None) -> tuple[int, ...]:
        """Return the tasks that a target learns from, all of them or those among some."""
        others = _sources_of(self.frame, at, [len(batch.y) for batch in self.batches])
        return others if among is None else tuple(s for s in others if s in among)

    def target(self, at: int, among: Collection[int] | None = None) -> Target:
        """Return a task given its sources, all of them or those among some."""
        others, frame = self.sources_of(at, among), self.frame
        noise = _known_noise(frame, at, self.tasks[at])
        rng = np.random.default_rng([self.seed, at])
        kind, sources = frame.priors[at].kind, self._sources(others) if others else None
        rows = self.batches[at].rows
        same = np.array_equal(rows.own, rows.nominal)
        likeness = None if sources is None else self._likeness(at, others, sources)
        forms = _forms(bool(others), self.residual, len(rows.own), kind == "learned", same, likeness is not None)
        rulers = None
        if sources is not None and kind == "learned":
            sources = sources.thinned(MAPPED_SOURCE_ROWS)
            if len(rows.own) <= MARGINALIZED_ROWS:
                names = self.tasks[at].columns
                alike = likeness is not None and len(rows.own) <= ALIKE_ROWS
                for columns in _choices(len(names), rows.nominal.shape[1]):
                    forms += tuple(column_forms(columns, names, self.residual, alike))
                rulers = self._rulers(at)
        given = Given(sources, max(0.25, 1.0 / len(rows.own)), likeness)
        target = _target(given, self.batches[at], noise, self.kernel, forms, self.hyperparameters, rng, rulers)
        if kind == "tabulated":
            target = replace(target, placement=_placement(target, self.kernel, rng))
        return target

    def _likeness(self, at: int, others: tuple[int, ...], sources: Sources) -> Likeness | None:
        """Return the source whose outputs are closest to the target's at its rows, in the units of the data."""
        batch, own = self.batches[at], self.frame.outputs[at]
        mean, _ = sources.mean(np.asarray(batch.rows.nominal))
        best, least = None, np.inf
        for number, other in enumerate(others):
            scaler = self.frame.outputs[other]
            scale = float(scaler.scale[0] / own.scale[0])
            shift = float((scaler.mean[0] - own.mean[0]) / own.scale[0])
            if not 1.0 / _ALIKE_SCALE < scale < _ALIKE_SCALE or abs(shift) > _ALIKE_SHIFT * max(scale, 1.0):
                continue
            error = float(np.sum((np.asarray(batch.y) - shift - scale * mean[:, number]) ** 2))
            if error < least:
                best, least = Likeness(number, scale, shift), error
        return best

    def _rulers(self, at: int) -> np.ndarray:
        """Return slope and offset (D, Dt, 2) from every standardised own input to every standardised common one.

        A column whose values lie in the range of a common one, and fill a good part of it, is taken to be in its units.
        """
        frame, common = self.frame, self.frame.common
        own, shared = self.tasks[at].X, self.tasks[common].X
        scalers = frame.inputs[at], frame.inputs[common]
        result = np.tile([1.0, 0.0], (shared.shape[1], own.shape[1], 1))
        for d, j in np.ndindex(result.shape[:2]):
            low, high = shared[:, d].min(), shared[:, d].max()
            slack, width = _SLACK * (high - low), own[:, j].max() - own[:, j].min()
            inside = own[:, j].min() >= low - slack and own[:, j].max() <= high + slack
            if inside and width >= _FILLED * (high - low):
                result[d, j, 0] = scalers[0].scale[j] / scalers[1].scale[d]
                result[d, j, 1] = (scalers[0].mean[j] - scalers[1].mean[d]) / scalers[1].scale[d]
        return result

    def _sources(self, others: tuple[int, ...]) -> Sources:
        if others not in self._known:
            rng = np.random.default_rng([self.seed, len(self.tasks), *others])
            self._known[others] = fit_sources(
                self.kernel,
                others,
                [np.asarray(self.batches[s].rows.nominal) for s in others],
                [np.asarray(self.batches[s].y) for s in others],
                [_known_noise(self.frame, s, self.tasks[s]) for s in others],
                rng,
            )
        return self._known[others]


def _known_noise(frame: Frame, task: int, data: TaskData) -> float | None:
    """Return the known noise variance of a task in standardised units."""
    return None if data.noise is None else float((data.noise / frame.outputs[task].scale[0]) ** 2)


def _sources_of(frame: Frame, target: int, sizes: list[int]) -> tuple[int, ...]:
    """Return the tasks that a target may learn from; where a task is aligned must be known to be one."""
    return tuple(
        s
        for s, size in enumerate(sizes)
        if s != target and size >= _SMALLEST_SOURCE * sizes[target] and frame.priors[s].kind != "learned"
    )


def _forms(sources: bool, residual: bool, rows: int, learned: bool, same: bool, alike: bool) -> tuple[Form, ...]:
    """Return the forms that compete; where own and aligned inputs are the same, so are two of them."""
    if learned:
        chosen = [*(MAPPED_FORMS[: 1 + residual] if sources else ()), *(form for form in FORMS if not form.transfers)]
        return tuple(chosen) if rows <= ALL_FORMS_ROWS else (FORMS[-2],)
    alike = alike and rows <= ALIKE_ROWS
    chosen = [form for form in FORMS if (sources or not form.transfers) and (alike or not form.alike)]
    if same:
        chosen = [form for form in chosen if not any(term.aligned for term in form.terms)]
    if not residual:
        chosen = [f for f in chosen if not f.transfers or all(term.calibrates or term.aligned for term in f.terms)]
    if rows > ALL_FORMS_ROWS:
        chosen = [f for f in chosen if f.name in ("nominal", "residual", "alone")]
    return tuple(chosen)


def _choices(own: int, common: int) -> Iterator[tuple[int, ...]]:
    """Give every choice of own columns for the common ones, in every order; none where they are too many."""
    if own >= common and perm(own, common) <= COLUMN_CHOICES:
        yield from permutations(range(own), common)


def _target(
    given: Given,
    batch: TaskBatch,
    noise: float | None,
    kernel: str,
    forms: tuple[Form, ...],
    hyperparameters: str,
    rng: np.random.Generator,
    rulers: np.ndarray | None = None,
) -> Target:
    kept = np.sort(rng.permutation(len(batch.y))[:MOST_ROWS])
    own, nominal, y = (np.asarray(part)[kept] for part in (batch.rows.own, batch.rows.nominal, batch.y))
    seen = given.see(own, nominal)
    pair = given.pair(seen, seen)
    marginal = hyperparameters == "marginalize" or (hyperparameters == "auto" and len(y) <= MARGINALIZED_ROWS)
    fewer = None
    if len(y) > TRAINED_ROWS and not marginal:
        some = rng.permutation(len(y))[:TRAINED_ROWS]
        few = given.see(own[some], nominal[some])
        fewer = given.pair(few, few), y[some]
    members = []
    for form in forms:
        priors = prior(form, kernel, len(y), own.shape[1], noise, nominal.shape[1], given, rulers)
        if marginal or form.maps or form.columns is not None:
            members.append((sampled_member if marginal else likeliest_member)(priors, pair, y, rng))
        else:
            members.append(map_member(priors, pair, y, rng, fewer=fewer))
    densities = np.stack([member.leave_one_out for member in members])
    evidences = np.array([member.evidence for member in members]) if marginal else None
    return Target(given, own, nominal, y, tuple(members), form_weights(densities, evidences, rng))


def _placement(target: Target, kernel: str, rng: np.random.Generator) -> tuple[Target, ...]:
    """Return a GP of every aligned input on own inputs, for rows at which g0 is not known."""
    given = Given(None, 1.0)
    seen = given.see(target.own, target.nominal)
    pair, (form,) = given.pair(seen, seen), (form for form in FORMS if form.name == "alone+linear")
    found = []
    for values in target.nominal.T:
        member = map_member(prior(form, kernel, len(values), target.own.shape[1], None), pair, values, rng)
        found.append(Target(given, target.own, target.nominal, values, (member,), np.ones(1)))
    return tuple(found)
