"""What a prediction is to a user: arrays in the units of the data."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.special import ndtri

from aligngp.data.tables import to_native
from aligngp.errors import DataError, SettingError
from aligngp.settings import seed_number, whole

JOINT_ROWS = 5000
"""Most rows for which a full covariance is built: 200 MB in double precision."""


class Prediction:
    """Mean and variance at each row, and on request intervals, joint draws and the full covariance.

    Everything is in the units of the data; ``mean`` and ``variance`` have shape (n,).
    """

    def __init__(
        self,
        task: str,
        mean: np.ndarray,
        variance: np.ndarray,
        kind: str,
        covariance: Callable[[], np.ndarray],
        draws: Callable[[int, int], np.ndarray],
        index: Any = None,
    ):
        self.task = task
        self.mean = mean
        self.variance = variance
        self._kind = kind
        self._covariance = covariance
        self._draws = draws
        self._index = index

    @property
    def std(self) -> np.ndarray:
        """Standard deviation at each row."""
        return np.sqrt(self.variance)

    @property
    def covariance(self) -> np.ndarray:
        """Full covariance over the rows, shape (n, n); computed when it is asked for."""
        self._check_joint()
        return self._covariance()

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper end of the central Gaussian interval of that probability."""
        if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
            raise SettingError(f"level: expected a probability between 0 and 1, got {level!r}.")
        half = ndtri(0.5 + level / 2) * self.std
        return self.mean - half, self.mean + half

    def sample(self, number: int = 1, seed: int = 0) -> np.ndarray:
        """Return draws of shape (number, n), joint over the rows."""
        number, seed = whole("number", number), seed_number("seed", seed)
        self._check_joint()
        return self._draws(number, seed)

    def to_frame(self) -> Any:
        """Return a table of the kind that came in: mean, std, variance and the 95% interval, a row each.

        A pandas index comes back too; for arrays it is a pyarrow Table.

        Examples
        --------
        >>> import polars as pl, aligngp as agp
        >>> gp = agp.AlignedGP().fit({"fine": pl.DataFrame({"x": [0, 3, 6, 9], "zeta": [1, 4, 7, 10]})}, output="zeta")
        >>> pred = gp.predict("fine", pl.DataFrame({"x": [1, 5]}))
        >>> pred.to_frame().columns
        ['mean', 'std', 'variance', 'lower95', 'upper95']
        >>> pred.to_frame()["mean"].round().to_list()
        [2.0, 6.0]
        """
        lower, upper = self.interval(0.95)
        columns = {
            "mean": self.mean,
            "std": self.std,
            "variance": self.variance,
            "lower95": lower,
            "upper95": upper,
        }
        table = to_native(columns, self._kind)
        if self._index is not None:
            table.index = self._index
        return table

    def _check_joint(self) -> None:
        if len(self) > JOINT_ROWS:
            raise DataError(
                f"task {self.task!r}: expected at most {JOINT_ROWS} rows for what is joint over the rows (it needs an "
                f"n x n matrix), got {len(self)}. Predict the rows that you need jointly on their own."
            )

    def __len__(self) -> int:
        return self.mean.shape[0]

    def __repr__(self) -> str:
        return f"Prediction(task={self.task!r}, rows={len(self)})"


def index_of(data: Any) -> Any:
    """Return the index of rows that came in as a pandas frame (or one like it), None where there is none."""
    rows = nw.from_native(data, allow_series=True, pass_through=True)
    return nw.maybe_get_index(rows) if isinstance(rows, nw.DataFrame | nw.Series) else None
