"""Where the data files are that are too large or not free to be committed."""

import os
from pathlib import Path

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
