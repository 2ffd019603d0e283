"""AlignedGP: the front door. Reads tables, fits, predicts, saves; no mathematics in it."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aligngp import predict as predictions
from aligngp import storage
from aligngp.data.tasks import TaskData, find_task, read_inputs, read_inputs_and_output, read_tasks
from aligngp.errors import AligngpWarning, DataError, NotFittedError
from aligngp.fit.adam import AdamSettings, History, bound, take
from aligngp.fit.pipeline import Fitted, fit_model
from aligngp.frame import Frame, build_frame
from aligngp.metrics import scores
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import resolve
from aligngp.prediction import Prediction
from aligngp.progress import watched
from aligngp.runtime import computes, computing
from aligngp.settings import Settings
from aligngp.summary import Summary, tables, task_correlation

_ROWS_AT_ONCE = 65_536
_PREDICTION_SAMPLES = 100
_ELBO_ROWS = 8192


@dataclass(frozen=True)
class _Part:
    """One fitted model and the tasks it serves: all of them, or one each where nothing is shared."""

    frame: Frame
    fitted: Fitted
    rows: tuple[int, ...]


class AlignedGP:
    r"""A Gaussian process over several tasks, every one with inputs of its own.

    .. math:: y^t(x) = \sum_q a_q^t f_q(g^t(x)) + \epsilon^t

    Each task's inputs are aligned to the common task's input domain by a prior mapping g0, which may be calibrated;
    latent GPs :math:`f_q` live there and are mixed into the tasks (a linear model of coregionalization).

    Parameters
    ----------
    common: the task whose inputs are the common domain; default the task with the fewest inputs.
    mappings: task name to prior mapping (column names, :class:`Columns`, a callable on rows, :class:`Affine`,
        :class:`Tabulated`, :class:`Learned`); default the common task's columns, picked by name.
    calibration: what is done with the mappings, for all tasks or as a dict of tasks: ``"none"`` (HSVLMC-g0),
        ``"bayes"`` (HSVLMC), ``"embedded"`` (HSVLMC-EM), ``"free"`` (free q(X_bar)), ``"linear"`` (IMC), or ``"auto"``:
        a residual GP mapping under the two-layer bound, see ``mapping_kl_weight``.
    shared: False fits a GP of its own to every task on its own inputs (SOGP).
    inference: ``"svi"``, stochastic variational inference by Adam; ``"auto"`` is the same today.
    num_latents: number of latent GPs, Q.
    num_inducing: inducing inputs of each latent GP; default 100, fewer where there are fewer distinct rows.
    kernel: ``"se"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"linear"``, sums and products of
        ``aligngp.kernels`` objects, or a GPJax kernel; for the latent GPs.
    mapping_kernel: the same for GP mappings.
    likelihood: ``"gaussian"``.
    batch_size: rows a task and step, one number or a dict of tasks; default all rows.
    max_iterations: Adam steps; default 5000.
    learning_rate: Adam's.
    patience: stop when that many iterations are on average no better than as many before; default never.
    restarts: fits from that many seeds, the best final objective is kept; default 1.
    expectation: over Gaussian aligned inputs, ``"analytic"`` (SE kernels), ``"sampled"``, or by cost.
    num_samples: draws a step where it is sampled.
    mapping_kl_weight: weight of KL[q(X_bar) || p(X_bar)]; 1 is the paper's bound; default 1, for
        ``calibration="auto"`` 0.
        The GP mapping's own KL already pulls it to g0; the paper's bound counts that twice, and so the mapping
        seldom moves.
    imc_penalty: alpha of IMC.
    initial_lengthscale, initial_mapping_lengthscale, initial_mapping_variance, initial_noise: where training starts,
        in standardised units; the first two default to max(1, sqrt(dimensions) / 2).
    standardize: scale inputs and outputs to zero mean and unit variance, by the training rows.
    dtype: ``"float64"`` or ``"float32"``.
    seed: one seed gives one result, bit for bit on one machine.
    progress: a progress bar; default on a terminal.

    Examples
    --------
    >>> import numpy as np, aligngp as agp
    >>> rng = np.random.default_rng(0)
    >>> fine, coarse = rng.uniform(size=(8, 2)), rng.uniform(size=(30, 1))
    >>> tasks = {
    ...     "fine": (fine, np.sin(3 * fine[:, 1]) + 0.1 * fine[:, 0]),
    ...     "coarse": (coarse, np.sin(3 * coarse[:, 0])),
    ... }
    >>> gp = agp.AlignedGP(common="coarse", mappings={"fine": ["x2"]}, max_iterations=200)
    >>> pred = gp.fit(tasks).predict("fine", [[0.5, 0.5]])
    >>> pred.mean.shape
    (1,)
    """

    def __init__(
        self,
        common: str | None = None,
        *,
        mappings: Mapping[str, Any] | None = None,
        calibration: str | Mapping[str, str] = "auto",
        shared: bool = True,
        inference: str = "auto",
        num_latents: int = 2,
        num_inducing: int | None = None,
        kernel: Any = "se",
        mapping_kernel: Any = "se",
        likelihood: str = "gaussian",
        batch_size: int | Mapping[str, int] | None = None,
        max_iterations: int | None = None,
        learning_rate: float = 5e-3,
        patience: int | None = None,
        restarts: int | None = None,
        expectation: str = "auto",
        num_samples: int = 10,
        mapping_kl_weight: float | None = None,
        imc_penalty: float = 1.0,
        initial_lengthscale: float | None = None,
        initial_mapping_lengthscale: float | None = None,
        initial_mapping_variance: float = 1.0,
        initial_noise: float = 0.1,
        standardize: bool = True,
        dtype: str = "float64",
        seed: int = 0,
        progress: bool | None = None,
    ):
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self.settings = Settings(**given)
        self._parts: dict[str, _Part] = {}
        self._training: tuple[TaskData, ...] | None = None

    # ---- fitting ----------------------------------------------------------------------------------------------

    @computes
    def fit(self, tasks: Mapping[str, Any], output: str | Mapping[str, str] | None = None) -> AlignedGP:
        """Fit to a dict of task name to DataFrame, ``(X, y)`` or :class:`Task`; return self.

        ``output`` names the output column of DataFrames, one name or a dict of tasks.
        """
        data = read_tasks(tasks, output)
        groups = [data] if self.settings.shared else [(task,) for task in data]
        parts: dict[str, _Part] = {}
        with watched(self.settings.progress) as progress:
            for group in groups:
                part = self._fit_group(group, progress)
                parts.update({task.name: part for task in group})
        # Only a complete fit replaces an earlier one.
        self._parts, self._training = parts, data
        return self

    def _fit_group(self, tasks: tuple[TaskData, ...], progress) -> _Part:
        single = len(tasks) == 1
        common = tasks[0].name if single and not self.settings.shared else self.settings.common
        given = {} if single and not self.settings.shared else self.settings.mappings
        if single and not self.settings.shared:
            tasks = (dataclasses.replace(tasks[0], mapping=None),)
        frame = build_frame(tasks, common, given, self.settings.standardize)
        self._warn_of_positions(tasks, frame)
        batches = _batches(frame, tasks, self.settings.dtype)
        fitted = fit_model(frame, tasks, batches, self.settings, progress)
        return _Part(frame, fitted, tuple(task.y.size for task in tasks))

    def _warn_of_positions(self, tasks: tuple[TaskData, ...], frame: Frame) -> None:
        common = tasks[frame.common]
        for task in tasks:
            given = task.mapping is not None or task.name in (self.settings.mappings or {})
            if given or task is common or task.named or len(task.columns) == len(common.columns):
                continue
            warnings.warn(
                f"task {task.name!r} came without column names, so its first {len(common.columns)} columns "
                f"({', '.join(common.columns)}) were taken as the common task's inputs. Pass "
                f"AlignedGP(mappings={{{task.name!r}: [...]}}) if these are others.",
                AligngpWarning,
                stacklevel=4,
            )

    # ---- prediction -------------------------------------------------------------------------------------------

    @computes
    def predict(
        self, task: str, data: Any, *, latent: bool = False, num_samples: int = _PREDICTION_SAMPLES
    ) -> Prediction:
        """Predict a task at new rows, in the data's units; ``latent=True`` leaves the noise variance out.

        Where the mapping is stochastic and the kernel is not SE, ``num_samples`` draws of the aligned inputs are taken.
        """
        part, at = self._part(task)
        X, kind = read_inputs(part.frame.tasks[at], data)
        model = part.fitted.model
        key = jax.random.key(self.settings.seed)
        analytic = resolve(model).closed_form() and part.fitted.adam.expectation == "analytic"
        means, variances = [], []
        for start in range(0, max(X.shape[0], 1), _ROWS_AT_ONCE):
            rows = _cast(part.frame.rows(at, X[start : start + _ROWS_AT_ONCE]), self.settings.dtype)
            block = jax.random.fold_in(key, start)
            mean, variance = predictions.moments(model, at, rows, analytic=analytic, num_samples=num_samples, key=block)
            means.append(mean)
            variances.append(variance)
        scaler = part.frame.outputs[at]
        noise = 0.0 if latent else float(resolve(model.likelihoods[at]).variance)
        mean = scaler.inverse(np.concatenate(means)[:, None])[:, 0]
        variance = scaler.inverse_variance(np.concatenate(variances)[:, None] + noise)[:, 0]

        def covariance() -> np.ndarray:
            with computing():
                rows = _cast(part.frame.rows(at, X), self.settings.dtype)
                _, joint = predictions.joint_moments(model, at, rows, num_samples=num_samples, key=key)
                return scaler.inverse_variance(joint.reshape(-1, 1) + 0.0).reshape(joint.shape) + np.diag(
                    scaler.inverse_variance(np.full((X.shape[0], 1), noise))[:, 0]
                )

        def draws(number: int, seed: int) -> np.ndarray:
            with computing():
                rows = _cast(part.frame.rows(at, X), self.settings.dtype)
                function, extra = jax.random.split(jax.random.key(seed))
                values = predictions.joint_draws(model, at, rows, number=number, key=function)
                values = values + np.sqrt(noise) * np.asarray(jax.random.normal(extra, values.shape))
                return scaler.inverse(values[..., None])[..., 0]

        return Prediction(task, mean, variance, kind, covariance, draws)

    def score(self, task: str, data: Any, y: Any = None) -> dict[str, float]:
        """Return SMSE, SMLL (as the paper defines them), RMSE, NLPD, CRPS and 95% coverage on rows with outputs.

        ``data`` is a DataFrame with the output column, ``(X, y)``, or inputs with ``y`` beside them.
        """
        part, at = self._part(task)
        X, outputs = read_inputs_and_output(part.frame.tasks[at], data, y)
        prediction = self.predict(task, X)
        mean, variance = part.frame.training_outputs[at]
        return scores(outputs, prediction.mean, prediction.variance, float(mean), float(variance))

    @computes
    def aligned(self, task: str, data: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the aligned inputs, each (n, D), in the common domain's units."""
        part, at = self._part(task)
        X, _ = read_inputs(part.frame.tasks[at], data)
        rows = _cast(part.frame.rows(at, X), self.settings.dtype)
        mean, variance = predictions.aligned(part.fitted.model, at, rows)
        scaler = part.frame.aligned_scaler()
        return scaler.inverse(mean), scaler.inverse_variance(variance)

    @computes
    def nominal(self, task: str, data: Any) -> np.ndarray:
        """Return what the prior mapping says, (n, D), in the common domain's units."""
        part, at = self._part(task)
        X, _ = read_inputs(part.frame.tasks[at], data)
        prior = part.frame.priors[at]
        if prior.kind == "tabulated":
            raise DataError(
                f"Task {task!r}: its prior mapping was tabulated at the training rows, so it says nothing about new "
                "rows. gp.aligned(...) gives what the model makes of them."
            )
        return prior.nominal(X, task)

    # ---- inside -----------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model | dict[str, Model]:
        """The immutable Equinox module, parameters wrapped (see ``aligngp.parameters.resolve``).

        A dict of tasks where nothing is shared between several.
        """
        parts = self._distinct()
        if len(parts) == 1:
            return parts[0].fitted.model
        return {part.frame.names[0]: part.fitted.model for part in parts}

    @property
    def history(self) -> History:
        """Iteration numbers, objective and seconds; of tasks that share nothing, one after the other."""
        parts = self._distinct()
        histories = [part.fitted.history for part in parts]
        return History(*(np.concatenate([getattr(h, f.name) for h in histories]) for f in dataclasses.fields(History)))

    @computes
    def elbo(self, tasks: Mapping[str, Any] | None = None, output: Any = None) -> dict[str, float]:
        """Return the named terms of the objective at the fitted parameters on all training rows, and ``"total"``.

        A loaded model does not hold its training rows: pass them.
        """
        self._distinct()
        data = read_tasks(tasks, output) if tasks is not None else self._training
        if data is None:
            raise NotFittedError(
                "this model was loaded from a file, which holds no training rows. Pass them: gp.elbo(tasks, output)."
            )
        by_name = {task.name: task for task in data}
        result: dict[str, float] = {}
        for part in self._distinct():
            find = [by_name[name] for name in part.frame.names if name in by_name]
            if len(find) != len(part.frame.names):
                raise DataError(f"elbo needs the rows of every task: expected {', '.join(part.frame.names)}.")
            for name, value in _terms(part, tuple(find), self.settings).items():
                result[name] = result.get(name, 0.0) + value
        return result

    def task_correlation(self) -> np.ndarray:
        """Return the T x T prior correlation of the tasks' functions at one aligned point."""
        parts = self._distinct()
        if len(parts) > 1:
            return np.eye(len(parts))
        with computing():
            return task_correlation(resolve(parts[0].fitted.model))

    def summary(self) -> Summary:
        """Return tables of the tasks, mappings, noise, mixing and lengthscales, in the data's units."""
        shown: list[Any] = []
        with computing():
            for part in self._distinct():
                shown += tables(part.frame, resolve(part.fitted.model), part.rows)
        return Summary(shown)

    def __repr__(self) -> str:
        changed = [
            f"{field.name}={getattr(self.settings, field.name)!r}"
            for field in dataclasses.fields(Settings)
            if getattr(self.settings, field.name) is not field.default
            and getattr(self.settings, field.name) != field.default
        ]
        state = f"fitted to {', '.join(self._parts)}" if self._parts else "not fitted"
        return f"AlignedGP({', '.join(changed)})  # {state}"

    # ---- files ------------------------------------------------------------------------------------------------

    @computes
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; code (callables, foreign kernels) and training rows are not in it."""
        tensors: dict[str, np.ndarray] = {}
        parts = [_describe(part, tensors, f"part{at}") for at, part in enumerate(self._distinct())]
        settings = {
            field.name: getattr(self.settings, field.name)
            for field in dataclasses.fields(Settings)
            if field.name != "mappings"
        }
        for name in ("calibration", "batch_size"):
            settings[name] = dict(settings[name]) if isinstance(settings[name], Mapping) else settings[name]
        for name in ("kernel", "mapping_kernel"):
            settings[name] = storage.encode_setting(settings[name])
        storage.write(path, {"settings": settings, "parts": parts}, tensors)

    def _distinct(self) -> list[_Part]:
        if not self._parts:
            raise NotFittedError("this AlignedGP is not fitted yet. Call gp.fit(tasks, output=...) first.")
        return list({id(part): part for part in self._parts.values()}.values())

    def _part(self, task: str) -> tuple[_Part, int]:
        self._distinct()
        names = list(self._parts)
        part = self._parts[names[find_task(task, names)]]
        return part, part.frame.names.index(task)


@computes
def load(path: str | os.PathLike[str], mappings: Mapping[str, Any] | None = None, kernel: Any = None) -> AlignedGP:
    """Return the model that ``gp.save(path)`` wrote.

    Files hold no code: pass callable prior mappings (``mappings={"fine": function}``) and a kernel of another library
    (``kernel=...``) again, as they were at the fit.
    """
    header, tensors = storage.read(path)
    with storage.reading(path):
        settings = dict(header["settings"])
        for name in ("kernel", "mapping_kernel"):
            settings[name] = storage.decode_setting(settings[name], kernel)
        parts = [_restore(part, tensors, mappings or {}, kernel) for part in header["parts"]]
        named = {
            task.name: storage.prior_as_setting(prior)
            for part in parts
            for task, prior in zip(part.frame.tasks, part.frame.priors, strict=True)
        }
        settings["mappings"] = {name: prior for name, prior in named.items() if prior is not None} or None
        gp = AlignedGP(**settings)
    gp._parts = {task.name: part for part in parts for task in part.frame.tasks}
    return gp


def _describe(part: _Part, tensors: dict[str, np.ndarray], path: str) -> dict[str, Any]:
    history = part.fitted.history
    return {
        "frame": storage.describe_frame(part.frame, tensors, f"{path}.frame"),
        "model": storage.encode(part.fitted.model, tensors, f"{path}.model"),
        "adam": dataclasses.asdict(part.fitted.adam),
        "rows": list(part.rows),
        "history": {
            field.name: storage.encode(getattr(history, field.name), tensors, f"{path}.history.{field.name}")
            for field in dataclasses.fields(History)
        },
    }


def _restore(
    stored: Mapping[str, Any], tensors: Mapping[str, np.ndarray], mappings: Mapping[str, Any], kernel: Any
) -> _Part:
    frame = storage.restore_frame(stored["frame"], tensors, mappings)
    history = History(**{name: tensors[node["tensor"]] for name, node in stored["history"].items()})
    model = storage.decode(stored["model"], tensors, kernel)
    return _Part(frame, Fitted(model, history, AdamSettings(**stored["adam"])), tuple(stored["rows"]))


def _batches(frame: Frame, tasks: tuple[TaskData, ...], dtype: str) -> tuple[TaskBatch, ...]:
    return tuple(_cast(frame.batch(at, task.X, task.y), dtype) for at, task in enumerate(tasks))


def _cast(tree: Any, dtype: str) -> Any:
    """Return the floating arrays of a tree in the working precision."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if getattr(leaf, "dtype", None) == np.float64 else leaf, tree)


def _terms(part: _Part, tasks: tuple[TaskData, ...], settings: Settings) -> dict[str, float]:
    """Return the terms of one fitted model on all rows, summed over blocks of rows."""
    batches = _batches(part.frame, tasks, settings.dtype)
    blocks = max(1, -(-max(part.rows) // _ELBO_ROWS))
    per_row = {"expected_log_likelihood": 0.0, "alignment_penalty": 0.0}
    key = jax.random.key(settings.seed)
    terms = None
    for block in range(blocks):
        pieces = [np.array_split(np.arange(batch.y.shape[0]), blocks)[block] for batch in batches]
        chosen = tuple(take(batch, piece, 1.0) for batch, piece in zip(batches, pieces, strict=True))
        terms = bound(part.fitted.model, chosen, jax.random.fold_in(key, block), part.fitted.adam)
        for name in per_row:
            per_row[name] += float(np.sum(getattr(terms, name)))
    assert terms is not None
    whole = {name: float(np.sum(getattr(terms, name))) for name in ("latent_kl", "mapping_penalty")}
    total = per_row["expected_log_likelihood"] - per_row["alignment_penalty"] - sum(whole.values())
    return {**per_row, **whole, "total": total}
