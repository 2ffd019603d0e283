"""Where the data files are: committed ones, and those that are too large or not free to be committed."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SAMPLES = Path(__file__).with_name("data")
"""Committed samples of the simulators (see the data cards there)."""
OK = "ok"
"""The status of a run that came out well; others say what went wrong, and their rows are not used."""
VARIABLE = "ALIGNGP_DATA"
ROOT = Path(__file__).resolve().parents[2]


class DataMissingError(FileNotFoundError):
    """A data file that is not in the repository was not found."""


def folder() -> Path:
    """Return the data folder: the environment variable ALIGNGP_DATA, or ../shared/data beside the repository."""
    return Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data")


def data_file(case: str, name: str) -> Path:
    """Return the path of one file of one case, or raise with what to do."""
    path = folder() / case / name
    if not path.is_file():
        raise DataMissingError(
            f"{case}: expected the file {name} in the folder {folder() / case}, it is not there. Set {VARIABLE} to the "
            f"folder that has {case}/{name}."
        )
    return path


def samples(name: str, inputs: Sequence[str], output: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (N, D) and output (N,) of the runs of a committed sample that came out well."""
    with (SAMPLES / name).open(newline="") as file:
        good = [row for row in csv.DictReader(file) if row["status"] == OK]
    X = np.array([[float(row[column]) for column in inputs] for row in good])
    return X, np.array([float(row[output]) for row in good])
