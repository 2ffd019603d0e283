"""AlignedGP as a scikit-learn regressor: one table with a task column, empty where a task has no such input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.random import RandomState
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from aligngp.data.one_table import OneTable, name_columns, read_array_table, read_frame_table, task_name
from aligngp.data.tables import did_you_mean, listed, open_frame
from aligngp.data.tasks import Task
from aligngp.errors import DataError, SettingError
from aligngp.estimator import AlignedGP
from aligngp.prediction import Prediction
from aligngp.settings import seed_number, whole

_ALONE = "task"
"""The name of the task of a table without a task column."""
_OF_TASKS = ("common", "mappings", "calibration", "batch_size")
"""Keywords that may name tasks."""
_OWN = ("task", "random_state")
"""Parameters that are no keywords of AlignedGP."""
_NOTHING = np.empty(0)
"""The outputs of rows that are to be predicted."""
_FOLDS = (
    "In a cross-validation every fold needs rows of every task, two at least: stratify by task, for example "
    "cv=list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, tasks)) with the task column as tasks."
)


class AlignedGPRegressor(RegressorMixin, BaseEstimator):
    """:class:`aligngp.AlignedGP` on one table, as a scikit-learn regressor.

    ``X`` holds the rows of all tasks; its column ``task`` says which task a row belongs to, the others are inputs. A
    task's inputs are the columns that it has values in: in all of its rows, or in none of them (NaN, null or None).
    Without a task column all rows are one task, a plain GP.

    Parameters
    ----------
    task: the task column, by name (DataFrames) or by position (negative ones count from the end); its values are
        text or whole numbers. None: one task.
    common, mappings, calibration, shared, inference, ...: as in :class:`aligngp.AlignedGP`. Columns are named as in
        the DataFrame, or x1, x2, ... in an array, the task column not counted; positions in a mapping count the
        task's own columns.
    random_state: a whole number, or a RandomState, from which one is drawn at every fit; None is 0, so that fits
        repeat. It is the ``seed`` of the AlignedGP.

    Attributes
    ----------
    gp_: the fitted :class:`aligngp.AlignedGP`: summary, scores of each task, aligned inputs, saving.
    tasks_: the names of the tasks, sorted.
    inputs_: the input columns of each task.
    n_features_in_, feature_names_in_: as in scikit-learn, the task column included.

    Notes
    -----
    ``score`` is R2 over all rows whatever their task, as scikit-learn has it; ``gp_.score`` scores a task at a time.

    Examples
    --------
    Eight costly runs that know x and depth, twenty cheap ones that know x alone:

    >>> import numpy as np
    >>> from sklearn.model_selection import StratifiedKFold, cross_val_score
    >>> from aligngp.sklearn import AlignedGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> x, depth, code = rng.uniform(size=28), rng.uniform(size=28), np.repeat([0, 1], [20, 8])
    >>> y = np.sin(6 * x) + 0.5 * code * depth
    >>> X = np.column_stack([x, np.where(code == 1, depth, np.nan), code])
    >>> model = AlignedGPRegressor(task=2, common="0").fit(X, y)
    >>> model.predict([[0.5, 0.5, 1]]).round(1)
    array([0.4])
    >>> folds = StratifiedKFold(4, shuffle=True, random_state=0).split(X, code)  # rows of each task in each fold
    >>> bool(cross_val_score(model, X, y, cv=list(folds)).min() > 0.9)
    True
    """

    def __init__(
        self,
        task: str | int | None = None,
        common: str | int | None = None,
        *,
        mappings: Mapping[Any, Any] | None = None,
        calibration: str | Mapping[Any, str] = "auto",
        shared: bool = True,
        inference: str = "auto",
        hyperparameters: str = "auto",
        residual: bool | None = None,
        num_latents: int = 2,
        num_inducing: int | None = None,
        kernel: Any = "se",
        mapping_kernel: Any = "se",
        likelihood: str = "gaussian",
        batch_size: int | Mapping[Any, int] | None = None,
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
        random_state: int | RandomState | None = None,
        progress: bool | None = False,
    ):
        self.task = task
        self.common = common
        self.mappings = mappings
        self.calibration = calibration
        self.shared = shared
        self.inference = inference
        self.hyperparameters = hyperparameters
        self.residual = residual
        self.num_latents = num_latents
        self.num_inducing = num_inducing
        self.kernel = kernel
        self.mapping_kernel = mapping_kernel
        self.likelihood = likelihood
        self.batch_size = batch_size
        self.max_iterations = max_iterations
        self.learning_rate = learning_rate
        self.patience = patience
        self.restarts = restarts
        self.expectation = expectation
        self.num_samples = num_samples
        self.mapping_kl_weight = mapping_kl_weight
        self.imc_penalty = imc_penalty
        self.initial_lengthscale = initial_lengthscale
        self.initial_mapping_lengthscale = initial_mapping_lengthscale
        self.initial_mapping_variance = initial_mapping_variance
        self.initial_noise = initial_noise
        self.standardize = standardize
        self.dtype = dtype
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any) -> AlignedGPRegressor:
        """Fit to a table X (N, D) and outputs y (N,); return self."""
        table, outputs = self._read(X, y)
        keywords = {name: value for name, value in self.get_params(deep=False).items() if name not in _OWN}
        for name in _OF_TASKS if self.shared else ("batch_size",):  # tasks that share nothing need none of the others
            keywords[name] = _by_name(name, keywords[name], list(table.rows))
        gp = AlignedGP(**keywords, seed=_seed(self.random_state))
        tasks = {}
        for task, rows in table.rows.items():
            columns, values = table.inputs(task)
            tasks[task] = Task(values, outputs[rows], names=columns)
        self.gp_ = gp.fit(tasks)
        self.tasks_ = np.array(list(tasks))
        self.inputs_ = {task: given.names for task, given in tasks.items()}
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Return the mean (n,), with ``return_std`` also the standard deviation, with ``return_cov`` the covariance.

        Both are those of a new observation: the noise is in them. The covariance is one of the rows of a single task.
        """
        if return_std and return_cov:
            raise SettingError("predict: return_std and return_cov both came, expected one of them at most.")
        predictions, rows = self._predictions(X)
        mean = _gathered(rows, [found.mean for found in predictions])
        if return_std:
            return mean, _gathered(rows, [found.std for found in predictions])
        if return_cov:
            if len(predictions) > 1:
                raise DataError(
                    "predict: return_cov=True takes rows of one task, got rows of "
                    f"{listed(found.task for found in predictions)}. Call it for each task, or pass return_std=True."
                )
            return mean, predictions[0].covariance
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int | RandomState | None = 0) -> np.ndarray:
        """Return draws of new observations (n, n_samples): joint over the rows of a task, tasks drawn apart."""
        number, seed = whole("n_samples", n_samples), _seed(random_state)
        predictions, rows = self._predictions(X)
        # A stream for every fitted task: which other tasks have rows here changes nothing.
        streams = np.random.SeedSequence(seed).generate_state(self.tasks_.size)
        seeds = dict(zip(self.tasks_.tolist(), streams.tolist(), strict=True))
        draws = [found.sample(number, seeds[found.task]).T for found in predictions]
        return _gathered(rows, draws)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.task is not None
        return tags

    def _predictions(self, X: Any) -> tuple[list[Prediction], list[np.ndarray]]:
        """Return a prediction for every task that has rows in X, and the positions of these rows."""
        check_is_fitted(self)
        table, _ = self._read(X)
        for task in table.rows:
            if task not in self.inputs_:
                raise DataError(
                    f"there is no task {task!r}{did_you_mean(task, self.inputs_)} among the fitted ones, which are "
                    f"{listed(self.inputs_)}. Leave its rows out, or fit with rows of it. {_FOLDS}"
                )
        found = [self.gp_.predict(task, table.new_rows(task, self.inputs_[task])) for task in table.rows]
        return found, list(table.rows.values())

    def _read(self, X: Any, *y: Any) -> tuple[OneTable, np.ndarray]:
        """Return the table in X and, where y is passed (the fit), the outputs."""
        if self.task is None:
            return self._read_alone(X, *y)
        # A task column of text and inputs with gaps are not what scikit-learn's checks of arrays expect.
        _validated(self, X, *y, reset=bool(y), skip_check_array=True)
        names = self._names()
        frame = None if names is None else open_frame(X, "all in one table")
        if frame is not None:
            table = read_frame_table(frame, self.task)
        else:
            # A list of rows with names and numbers would become an array of text.
            rows = X if hasattr(X, "__array__") or issparse(X) else np.asarray(X, dtype=object)
            checks: dict[str, Any] = {"dtype": None, "ensure_all_finite": False}
            rows = check_array(rows, estimator=self, input_name="X", **checks)
            table = read_array_table(rows, self.task, names)
        if not y:
            return table, _NOTHING
        _, outputs = check_X_y(np.arange(table.size)[:, None], *y, y_numeric=True, estimator=self)
        return table, outputs

    def _read_alone(self, X: Any, *y: Any) -> tuple[OneTable, np.ndarray]:
        """Return the table of one task, and the outputs as above."""
        read = _validated(self, X, *y, reset=bool(y), dtype=np.float64, **({"y_numeric": True} if y else {}))
        values, outputs = read if y else (read, _NOTHING)
        columns = dict(zip(name_columns(self._names(), values.shape[1]), values.T, strict=True))
        return OneTable(columns, {_ALONE: np.arange(values.shape[0])}), outputs

    def _names(self) -> list[str] | None:
        """Return the names of the columns of the fit, the task column included, if it had names."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return None
        twice = sorted({str(name) for name in names if list(names).count(name) > 1})
        if twice:
            raise DataError(f"X: {listed(twice)} came more than once as a column name. Rename or drop one of them.")
        return [str(name) for name in names]


def _validated(estimator: AlignedGPRegressor, X: Any, *y: Any, **checks: Any) -> Any:
    """Return what scikit-learn's own checks make of X and y."""
    try:
        return validate_data(estimator, X, *y, **checks)
    except DuplicateError as error:
        raise DataError(f"X: a duplicate column name. {' '.join(str(error).split())}. Rename or drop one.") from None


def _by_name(keyword: str, value: Any, tasks: list[str]) -> Any:
    """Return a keyword of AlignedGP with tasks by name; the table may call them by numbers."""
    if keyword == "common":
        return value if value is None else _known(keyword, value, tasks)
    if isinstance(value, Mapping):
        return {_known(keyword, task, tasks): one for task, one in value.items()}
    return value


def _known(keyword: str, task: Any, tasks: list[str]) -> str:
    """Return the name of a task that the table has rows of, or raise."""
    name = task_name(task)
    if name not in tasks:
        raise SettingError(
            f"{keyword}: there is no row of task {task!r}{did_you_mean(task, tasks)} in the table. Its tasks are "
            f"{listed(tasks)}. Name one of them. {_FOLDS}"
        )
    return name


def _seed(random_state: Any) -> int:
    """Return a seed: the number that came, one drawn from a RandomState, 0 for None."""
    if isinstance(random_state, RandomState):
        return int(random_state.randint(2**32, dtype=np.uint32))
    return 0 if random_state is None else seed_number("random_state", random_state)


def _gathered(rows: list[np.ndarray], parts: list[np.ndarray]) -> np.ndarray:
    """Return values of the tasks' rows in the order of the table."""
    values = np.concatenate(parts)
    result = np.empty_like(values)
    result[np.concatenate(rows)] = values
    return result
