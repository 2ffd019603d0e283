"""The folder of a run: model, job as used, log, and last the scores, which say of which model and job they are."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from aligngp.data.atomic import write_text
from aligngp.errors import AligngpError, AligngpWarning, ModelFileError, SettingError
from aligngp.estimator import AlignedGP
from aligngp.job import Job, as_used, read_job
from aligngp.loading import load

State = Literal["new", "same", "interrupted", "other"]
MODEL, JOB, SCORES, LOG, UNFINISHED = "model.agp", "job.toml", "scores.json", "log.txt", "log-unfinished.txt"


@dataclass(frozen=True)
class Run:
    """A folder and the job that it is for."""

    folder: Path
    job: Job
    digest: str

    def state(self) -> State:
        """Return whether the folder is free, or what run it holds: of this job and data or not, to its end or not."""
        if not any((self.folder / name).exists() for name in (MODEL, JOB, SCORES, LOG)):
            return "new"
        try:
            found = json.loads((self.folder / SCORES).read_text(encoding="utf-8"))
            same = (found["digest"], found["model"]) == (self.digest, _checksum(self.folder / MODEL))
            return "other" if not same else "interrupted" if found["interrupted"] else "same"
        except (OSError, ValueError, KeyError, TypeError):
            return "other"

    def is_settled(self, force: bool, resume: bool) -> bool:
        """Return whether there is nothing to do; raise where there is something that may not be replaced."""
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingError(f"{self.folder}: this is a file, expected a folder for the run. Pass another --out.")
        if (self.folder / JOB).resolve() == self.job.path.resolve():
            raise SettingError(
                f"{self.folder}: {JOB} in it is the job file itself, and the run would replace it. Pass another --out."
            )
        state = self.state()
        if resume and state == "same":
            return True
        if state == "new" or force or (resume and state == "interrupted"):
            return False
        if resume:
            raise SettingError(
                f"{self.folder} holds a run of another job, of other data, or one that did not end. Pass --force to "
                "replace it, or another --out."
            )
        raise SettingError(
            f"{self.folder} holds a run already. Pass --force to replace it, --resume to keep it if it is of this job "
            "and data, or another --out."
        )

    def keep(self, gp: AlignedGP) -> None:
        """Write the model, before anything else can fail."""
        gp.save(self.folder / MODEL)

    def finish(self, gp: AlignedGP, scores: Mapping[str, Any], seconds: float, log: str) -> None:
        """Write what belongs to the model; each file is complete or not there."""
        note = f"As used by aligngp {version('aligngp')} for {MODEL} beside this file."
        write_text(self.folder / JOB, as_used(self.job, self.folder, gp.common, note))
        write_text(self.folder / LOG, log)
        (self.folder / UNFINISHED).unlink(missing_ok=True)
        said = {
            "aligngp": version("aligngp"),
            "digest": self.digest,
            "model": _checksum(self.folder / MODEL),
            "interrupted": gp.interrupted,
            "seconds": round(seconds, 3),
            **_json(scores),
        }
        write_text(self.folder / SCORES, json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@dataclass(frozen=True)
class Loaded:
    """The model of a run's folder or a model file, with its training rows where they could be read again."""

    gp: AlignedGP
    test: Mapping[str, Any]
    """Rows with outputs that were kept out of the fit."""
    missing: str | None
    """Why there are no training rows, None where there are."""


def model_file(path: Path) -> Path:
    """Return the model file that a run's folder or a path stands for."""
    if not path.is_dir():
        return path
    if not (path / MODEL).is_file():
        raise ModelFileError(f"{path}: there is no {MODEL} in this folder. Name the folder of a finished run.")
    return path / MODEL


def load_run(path: Path) -> Loaded:
    """Return the model that a path stands for; of a run's folder with the rows of its files, where none has changed."""
    gp = load(model_file(path))
    if not path.is_dir():
        return Loaded(gp, {}, f"{path}: a model file holds no training rows. Name the run's folder to have them.")
    try:
        job = read_job(path / JOB)
        if not _is_of(path, job):
            why = "its data files or its job.toml are not those of the fit"
            return Loaded(gp, {}, f"{path}: {why}, so the training rows are not used. Fit again to have them.")
        tasks, test = job.read()
        return Loaded(gp.remember(tasks), test, None)
    except (AligngpError, OSError) as error:
        return Loaded(gp, {}, f"{path}: the training rows cannot be read again: {error}")


def _is_of(folder: Path, job: Job) -> bool:
    """Tell whether a folder holds the run of a job as used; that names the common task even if it was found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AligngpWarning)
        digests = (job.digest(), replace(job, common=None).digest())
    return any(Run(folder, job, digest).state() in ("same", "interrupted") for digest in digests)


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _json(value: Any) -> Any:
    """Return scores as JSON has them: no NaN, but null."""
    if isinstance(value, Mapping):
        return {key: _json(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
