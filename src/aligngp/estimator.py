"""AlignedGP: the front door. Reads tables, fits, predicts, saves; no mathematics in it."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aligngp import archive, parts, storage
from aligngp.data.tasks import TaskData, read_inputs, read_inputs_and_output, read_tasks
from aligngp.ensemble import Ensemble
from aligngp.errors import AligngpWarning, DataError
from aligngp.findings.advice import advice, far_outside
from aligngp.fit.adam import History
from aligngp.fit.checkpoint import Checkpoint
from aligngp.fit.long import long_run
from aligngp.fit.pipeline import ProgressOf
from aligngp.metrics import scores
from aligngp.model import Model
from aligngp.parameters import resolve
from aligngp.parts import Part
from aligngp.plots import Plots
from aligngp.prediction import Prediction, index_of
from aligngp.progress import watched
from aligngp.runtime import computes, computing
from aligngp.settings import Settings, seed_number, whole
from aligngp.suggest import default_target, read_goal, suggest
from aligngp.summary import Summary, tables, task_correlation
from aligngp.trained import Trained
from aligngp.transfer import TransferReport


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
        ``"bayes"`` (HSVLMC), ``"embedded"`` (HSVLMC-EM), ``"free"`` (free q(X_bar); new rows are placed by its prior,
        N(g0(x), nu_g0 I)), ``"linear"`` (IMC),
        or ``"auto"``: a mixture of exact GPs that learn from the other tasks as they are, with a
        residual, with a calibrated mapping or not at all (:mod:`aligngp.ensemble`); where that cannot be had, a
        residual GP mapping under the two-layer bound, see ``mapping_kl_weight``.
    shared: False fits a GP of its own to every task on its own inputs (SOGP); then ``common``, ``mappings`` and
        ``calibration`` play no part.
    inference: ``"exact"`` (every row's covariance with every other, known aligned inputs), ``"collapsed"`` (inducing
        inputs, the best q(u) in closed form, L-BFGS on the rest), ``"svi"`` (natural gradients on minibatches, any
        number of rows), ``"adam"`` (the paper's training), or ``"auto"``: the fastest that is possible, said in the
        log.
    hyperparameters: ``"map"`` counts priors on them in, ``"ml"`` does not (the paper's way), ``"marginalize"``
        averages over them (``calibration="auto"``); ``"auto"`` averages for tasks of at most 60 rows, and is ``"map"``
        elsewhere.
    residual: give each task but the common one a GP on its own inputs, for what the common domain cannot carry; by
        default with ``calibration="auto"`` alone.
    num_latents: number of latent GPs, Q.
    num_inducing: inducing inputs of each latent GP; default a quarter of all rows, at least 30 and at most 100 (fewer
        where there are fewer distinct rows).
    kernel: ``"se"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"linear"``, sums and products of
        ``aligngp.kernels`` objects, or a GPJax kernel; for the latent GPs.
    mapping_kernel: the same for GP mappings.
    likelihood: ``"gaussian"``.
    batch_size: rows a task and step, one number or a dict of tasks; default all rows.
    max_iterations: most steps; default 5000 of Adam, 1000 of L-BFGS.
    learning_rate: Adam's; default 5e-3, for ``"svi"`` 2e-2 and falling.
    patience: ``"adam"``: stop when that many iterations are on average no better than as many before, default never;
        ``"svi"``: the window of its rule (see :mod:`aligngp.fit.natural`), default 100.
    restarts: starts; L-BFGS screens them for a few iterations and finishes the best (default 3 up to 2000 rows, else
        1), plain Adam finishes each (default 1). The best objective is kept.
    expectation: over Gaussian aligned inputs, ``"analytic"`` (SE kernels), ``"sampled"``, or by cost.
    num_samples: draws a step where it is sampled.
    mapping_kl_weight: weight of KL[q(X_bar) || p(X_bar)]; default 1, the paper's bound, for ``calibration="auto"`` 0:
        the GP mapping's own KL already pulls it to g0, the paper's bound counts that twice, and the mapping seldom
        moves.
    imc_penalty: alpha of IMC.
    initial_lengthscale, initial_mapping_lengthscale, initial_mapping_variance, initial_noise: where training starts,
        in standardised units; the first two default to max(1, sqrt(dimensions) / 2).
    standardize: scale inputs and outputs to zero mean and unit variance, by the training rows.
    dtype: ``"float64"`` or ``"float32"``, which halves the memory; on data with noise it costs next to nothing, without
        noise the bound and the predictions are clearly worse (benchmarks/results/precision.md).
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
    >>> gp = agp.AlignedGP("coarse", mappings={"fine": ["x2"]}, num_latents=1, max_iterations=200)
    >>> pred = gp.fit(tasks).predict("fine", [[0.5, 0.5]])
    >>> pred.mean.shape
    (1,)
    >>> agp.AlignedGP("coarse", mappings={"fine": ["x2"]}).fit(tasks)
    AlignedGP(common='coarse', mappings={'fine': ['x2']})  # fitted to fine (8 rows), coarse (30 rows)
    """

    def __init__(
        self,
        common: str | None = None,
        *,
        mappings: Mapping[str, Any] | None = None,
        calibration: str | Mapping[str, str] = "auto",
        shared: bool = True,
        inference: str = "auto",
        hyperparameters: str = "auto",
        residual: bool | None = None,
        num_latents: int = 2,
        num_inducing: int | None = None,
        kernel: Any = "se",
        mapping_kernel: Any = "se",
        likelihood: str = "gaussian",
        batch_size: int | Mapping[str, int] | None = None,
        max_iterations: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        restarts: int | None = None,
        expectation: str = "auto",
        num_samples: int = 10,
        mapping_kl_weight: float | None = None,
        imc_penalty: float = 1.0,
        initial_lengthscale: float | None = None,
        initial_mapping_lengthscale: float | None = None,
        initial_mapping_variance: float = 1.0,
        initial_noise: float | None = None,
        standardize: bool = True,
        dtype: str = "float64",
        seed: int = 0,
        progress: bool | None = None,
    ):
        given = {name: value for name, value in locals().items() if name != "self"}
        self.settings = Settings(**given)
        self._trained = Trained(self.settings)

    # ---- fitting ----------------------------------------------------------------------------------------------

    def fit(
        self,
        tasks: Mapping[str, Any],
        output: str | Mapping[str, str] | None = None,
        *,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        devices: Any = None,
    ) -> AlignedGP:
        """Fit to a dict of task name to DataFrame, ``(X, y)``, :class:`Task`, a file's path or :class:`Parquet`.

        ``output`` names the output column of DataFrames and files, one name or a dict of tasks. A fit that fails leaves
        an earlier one as it was. ``checkpoint`` is a folder for the states of long trainings, or a :class:`Checkpoint`
        to say how often, and to go on from them; ``devices="all"`` spreads the batches of stochastic training over all
        devices of all processes (see ``aligngp.fit.devices``). Returns self.
        """
        long = long_run(checkpoint, devices)
        data = read_tasks(tasks, output)
        self.settings.check_tasks([task.name for task in data])
        fitted: dict[str, Part] = {}
        # computing() stands here and not around fit, so that warnings point at the line that called fit.
        with computing(), watched(self.settings.progress) as progress:
            if self.settings.shared:
                part = parts.fit_part(data, self.settings, progress, long)
                fitted = {task.name: part for task in data}
            else:
                for at, task in enumerate(data):
                    if any(part.fitted.interrupted for part in fitted.values()):
                        raise KeyboardInterrupt  # it was heard in an earlier task, and this one has no model yet
                    own = dataclasses.replace(task, mapping=None)
                    alone, shown = self.settings.alone(task.name), _of(task.name, progress)
                    fitted[task.name] = parts.fit_part((own,), alone, shown, long.of(f"task{at}"))
        self._trained = Trained(self.settings, fitted, data)
        return self

    def remember(self, tasks: Mapping[str, Any], output: str | Mapping[str, str] | None = None) -> AlignedGP:
        """Give a loaded model its training rows back, as they were passed to ``fit``; return self.

        A model file does not hold them; scores of left-out rows and the transfer report need them. Rows that are not
        those of the fit are refused.
        """
        self._trained = self._trained.with_rows(tasks, output)
        return self

    # ---- prediction -------------------------------------------------------------------------------------------

    @computes
    def predict(self, task: str, data: Any, *, latent: bool = False, num_samples: int = 100) -> Prediction:
        """Predict a task at new rows, in the data's units; ``latent=True`` leaves the noise variance out.

        Frames are matched by column names, arrays by position. Where the mapping is stochastic and the kernel is not
        SE, ``num_samples`` draws of the aligned inputs are taken. Rows far outside the training rows are warned of.
        """
        part, at = self._part(task)
        draws = whole("num_samples", num_samples)
        X, kind = read_inputs(part.frame.tasks[at], data)
        if (told := far_outside(self, task, X)) is not None:
            warnings.warn(told, AligngpWarning, stacklevel=3)  # computes() stands between here and the caller
        found = parts.predicted(part, at, X, latent=latent, num_samples=draws, seed=self.settings.seed)
        return Prediction(task, found.mean, found.variance, kind, found.covariance, found.draws, index_of(data))

    def score(self, task: str, data: Any, y: Any = None) -> dict[str, float]:
        """Return SMSE, SMLL (as the paper defines them), RMSE, NLPD, CRPS and 95% coverage on rows with outputs.

        ``data`` is a DataFrame with the output column, ``(X, y)``, or inputs with ``y`` beside them. SMSE and SMLL
        compare with the variance of the training outputs, and are NaN where that is zero.
        """
        part, at = self._part(task)
        X, outputs = read_inputs_and_output(part.frame.tasks[at], data, y)
        prediction = self.predict(task, X)
        mean, variance = part.frame.training_outputs[at]
        return scores(outputs, prediction.mean, prediction.variance, float(mean), float(variance))

    @computes
    def training_scores(self) -> dict[str, dict[str, Any]]:
        """Return each task's scores on its training rows, with their number ``"rows"`` and how they were ``"scored"``.

        ``"left out"``: each row predicted from all the others, in closed form (``calibration="auto"``, exact inference;
        hyperparameters are those of all rows). ``"training"``: by the model that has seen them, which flatters.

        Examples
        --------
        >>> import numpy as np, aligngp as agp
        >>> x = np.linspace(0, 1, 12)
        >>> found = agp.AlignedGP().fit({"fine": (x, np.sin(3 * x))}).training_scores()["fine"]
        >>> found["scored"], found["rows"], found["smse"] < 0.01
        ('left out', 12, True)
        """
        return self._trained.scores()

    def transfer_report(
        self,
        tasks: str | Iterable[str] | None = None,
        *,
        test: Mapping[str, Any] | None = None,
        folds: int = 5,
        rows: int = 500,
    ) -> TransferReport:
        """Say for each task and each other task whether it helps, makes no difference, or hurts; see ``report.rows``.

        SMSE, NLPD and CRPS with all other tasks, with all but one, and alone, with 95% intervals of the differences.
        Training rows are left out one by one where that has a closed form (``calibration="auto"``, exact inference);
        otherwise ``folds`` fits each hold out a part of them.

        Parameters
        ----------
        tasks: the task or tasks to report on; default all, or those of ``test``.
        test: task name to rows with outputs, as for :meth:`score`; scores of these tasks are on those rows.
        folds: no fit holds out more than that part of a task's rows.
        rows: most training rows of a task that are scored, drawn at random.

        Examples
        --------
        >>> import numpy as np, aligngp as agp
        >>> rng = np.random.default_rng(0)
        >>> fine, coarse = rng.uniform(size=(8, 1)), rng.uniform(size=(20, 1))
        >>> tasks = {"fine": (fine, np.sin(9 * fine[:, 0])), "coarse": (coarse, np.sin(9 * coarse[:, 0]))}
        >>> report = agp.AlignedGP("coarse").fit(tasks).transfer_report("fine")
        >>> report.rows[0].verdict
        'helps'
        >>> print(report.sentences[0])
        'coarse' helps 'fine': its left-out error (CRPS) falls from ...
        """
        self._distinct()
        with computing(), watched(self.settings.progress) as progress:
            return self._trained.transfer(progress, tasks, test, folds, rows)

    @computes
    def suggest(
        self,
        objective: str = "minimize",
        *,
        target: str | None = None,
        costs: Mapping[str, Any] | None = None,
        bounds: Mapping[str, Any] | None = None,
        constraints: Mapping[str, Any] | None = None,
        n: int | None = None,
        acquisition: str = "logei",
        beta: Any = 2.0,
        pending: Sequence[tuple[str, Mapping[str, Any]]] = (),
        seed: int = 0,
    ) -> Any:
        """Return the next evaluation as a :class:`~aligngp.suggest.Suggestion`, or with ``n`` a list of so many.

        A suggestion is a task and inputs from its own space: the one by which the target gains most for its cost.

        Parameters
        ----------
        objective: ``"minimize"`` or ``"maximize"`` the target, or ``"learn"`` it: take most off its average variance.
        target: the task that counts; default the dearest, else the one that is not the common task.
        costs: what an evaluation of each task costs; tasks without a cost are not suggested. Default the target alone.
        bounds: task name to a dict of input name to ``(low, high)``, :class:`Real`, :class:`Integer` or
            :class:`Choice`; default the range of the training rows.
        constraints: task name to ``(low, high)`` of its noise-free output, None where there is no bound. Such a task
            has the target's inputs and is evaluated with it; the costs are those of the target.
        n: number of suggestions; each is found as if those before had come out as expected.
        acquisition: ``"logei"`` (expected improvement), ``"mes"`` (max-value entropy), or ``"ucb"`` (the target alone,
            whatever the costs).
        beta: deviations that ``"ucb"`` adds.
        pending: (task, inputs) of evaluations whose outcome is not known yet.
        seed: of the search.

        Examples
        --------
        >>> import numpy as np, aligngp as agp
        >>> x, z = np.linspace(0, 1, 4), np.linspace(0, 1, 12)
        >>> gp = agp.AlignedGP("coarse").fit({"fine": (x, (x - 0.4) ** 2), "coarse": (z, (z - 0.4) ** 2 + 0.1)})
        >>> suggestion = gp.suggest("minimize", costs={"fine": 10, "coarse": 1}, bounds={"fine": {"x1": (0, 1)}})
        >>> suggestion.task in ("fine", "coarse"), 0 <= suggestion.inputs["x1"] <= 1
        (True, True)
        """
        target = default_target(self.tasks, self.common, costs) if target is None else target
        part, at = self._part(target)
        goal = read_goal(part, at, self._training, objective, acquisition, beta, costs, bounds, constraints)
        found = suggest(part, goal, 1 if n is None else whole("n", n), seed_number("seed", seed), pending)
        return found[0] if n is None else found

    @computes
    def aligned(self, task: str, data: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the aligned inputs, each (n, D), in the common domain's units."""
        part, at = self._part(task)
        X, _ = read_inputs(part.frame.tasks[at], data)
        return parts.aligned(part, at, X)

    @computes
    def nominal(self, task: str, data: Any) -> np.ndarray:
        """Return what the prior mapping says, (n, D), in the common domain's units."""
        part, at = self._part(task)
        X, _ = read_inputs(part.frame.tasks[at], data)
        if part.frame.priors[at].kind == "tabulated":
            raise DataError(
                f"task {task!r}: its prior mapping was tabulated at the training rows, so it says nothing about new "
                "rows. gp.aligned(...) gives what the model makes of them."
            )
        return part.frame.priors[at].nominal(X, task)

    # ---- inside -----------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model | Ensemble | dict[str, Model | Ensemble]:
        """The immutable Equinox module, parameters wrapped (see ``aligngp.parameters.resolve``).

        Where ``calibration="auto"`` is a mixture of exact GPs, that mixture (``aligngp.ensemble``).

        A dict of tasks where nothing is shared between several.
        """
        models = {part.frame.names[0]: part.model for part in self._distinct()}
        return models if len(models) > 1 else next(iter(models.values()))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the fitted tasks."""
        self._distinct()
        return tuple(self._trained.parts)

    @property
    def common(self) -> str | None:
        """The task whose inputs are the common domain, of tasks that share nothing None."""
        fitted = self._distinct()
        return fitted[0].frame.names[fitted[0].frame.common] if self.settings.shared else None

    @property
    def interrupted(self) -> bool:
        """Tell whether training was stopped by hand, and the model is the best until then."""
        return any(part.fitted.interrupted for part in self._distinct())

    @property
    def history(self) -> History:
        """Iteration numbers, objective and seconds; of tasks that share nothing, one after the other."""
        return parts.one_history([part.fitted.history for part in self._distinct()])

    @computes
    def elbo(self, tasks: Mapping[str, Any] | None = None) -> dict[str, float]:
        """Return the named terms of the objective at the fitted parameters on all training rows, and ``"total"``.

        A loaded model does not hold its training rows: pass them as to ``fit``.
        """
        return self._trained.terms(tasks)

    @computes
    def task_correlation(self) -> np.ndarray:
        """Return the T x T prior correlation of the tasks' functions at one aligned point."""
        fitted = self._distinct()
        return task_correlation(resolve(fitted[0].model)) if len(fitted) == 1 else np.eye(len(fitted))

    @computes
    def summary(self) -> Summary:
        """Return tables of the tasks, mappings, noise, mixing and lengthscales, in the data's units."""
        return Summary(tables([(part.frame, resolve(part.model), part.rows) for part in self._distinct()]))

    @property
    def plot(self) -> Plots:
        """Figures of the fitted model, such as ``gp.plot.observed("fine")``; they need the extra ``plot``."""
        self._distinct()
        return Plots(self)

    @computes
    def warnings(self, transfer: TransferReport | None = None) -> list[str]:
        """Return a sentence on all that should be known of the fitted model: sources that hurt (of a transfer report),
        intervals that do not hold, mappings that went far, noise at its bound, few rows."""
        return advice(self, transfer)

    def __repr__(self) -> str:
        rows = {name: part.rows[part.frame.names.index(name)] for name, part in self._trained.parts.items()}
        told = ", ".join(f"{name} ({number} rows)" for name, number in rows.items())
        state = f"fitted to {told}" if rows else "not fitted yet: fit(tasks, output=...)"
        return f"AlignedGP({', '.join(self.settings.changed())})  # {state}"

    # ---- files ------------------------------------------------------------------------------------------------

    @computes
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; code (callables, foreign kernels) and training rows are not in it."""
        tensors: dict[str, np.ndarray] = {}
        description = archive.describe(self.settings, self._distinct(), tensors)
        storage.write(path, description, tensors)

    # What figures, findings and the report read: see aligngp.findings.view.

    @property
    def _training(self) -> tuple[TaskData, ...] | None:
        return self._trained.tables

    def _distinct(self) -> list[Part]:
        return self._trained.distinct

    def _part(self, task: str) -> tuple[Part, int]:
        return self._trained.part(task)


def _of(task: str, progress: ProgressOf) -> ProgressOf:
    """Return progress whose stages say which task they are of."""
    return lambda stage: progress(f"{stage} of {task!r}")
