"""Gaussian processes that learn several tasks together although every task has inputs of its own.

Computations run in double precision inside the package's calls; JAX's process-wide precision flag is left alone (see
:mod:`aligngp.runtime`).
"""

from importlib.metadata import version

from aligngp import datasets, kernels, metrics, paper, plots, report
from aligngp.data.files import read_table, write_table
from aligngp.data.parquet import Parquet
from aligngp.data.tasks import Task
from aligngp.errors import (
    AligngpError,
    AligngpWarning,
    DataError,
    MissingPackageError,
    ModelFileError,
    NotFittedError,
    SettingError,
    TrainingError,
)
from aligngp.estimator import AlignedGP
from aligngp.fit.checkpoint import Checkpoint
from aligngp.loading import load
from aligngp.mappings.prior import Affine, Columns, Learned, Tabulated
from aligngp.optimization import Optimizer, optimize
from aligngp.prediction import Prediction
from aligngp.runtime import computing
from aligngp.suggest import Choice, Integer, Real, Suggestion

__version__ = version("aligngp")

__all__ = [
    "Affine",
    "AlignedGP",
    "AligngpError",
    "AligngpWarning",
    "Checkpoint",
    "Choice",
    "Columns",
    "DataError",
    "Integer",
    "Learned",
    "MissingPackageError",
    "ModelFileError",
    "NotFittedError",
    "Optimizer",
    "Parquet",
    "Prediction",
    "Real",
    "SettingError",
    "Suggestion",
    "Tabulated",
    "Task",
    "TrainingError",
    "computing",
    "datasets",
    "kernels",
    "load",
    "metrics",
    "optimize",
    "paper",
    "plots",
    "read_table",
    "report",
    "write_table",
]
