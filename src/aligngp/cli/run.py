"""The folder of a run: model, job as used, log, and last the scores, which say of which model and job they are."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from aligngp.data.atomic import write_text
from aligngp.errors import SettingError
from aligngp.estimator import AlignedGP
from aligngp.job import Job, as_used

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


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _json(value: Any) -> Any:
    """Return scores as JSON has them: no NaN, but null."""
    if isinstance(value, Mapping):
        return {key: _json(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
