"""``aligngp fit``: from a job file to a run folder."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from aligngp.cli.journal import journal, log
from aligngp.cli.options import Debug, Force, Quiet
from aligngp.cli.run import LOG, MODEL, UNFINISHED, Run
from aligngp.estimator import AlignedGP
from aligngp.job import Job, read_job

_SHOWN = {"smse": "SMSE", "rmse": "RMSE", "nlpd": "NLPD", "crps": "CRPS"}


def fit(
    job: Annotated[Path, typer.Argument(help="The job file, see 'aligngp init'.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; default the job's name and '-run', here.", show_default=False)
    ] = None,
    force: Force = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Do nothing where the folder holds the finished run of this very job and data."),
    ] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit the model that a job file describes, and write it with its scores into a folder.

    The folder gets model.agp, job.toml as used, scores.json with what is worth
    knowing of the model, and log.txt.

    A run that is there already is replaced only with --force.

    With --resume a finished run of the same settings and files is kept, and one
    that was stopped is fitted again from the beginning.

    Example: aligngp fit job.toml --out turbine
    """
    with journal() as lines:
        wanted = read_job(job)
        run = Run(Path(f"{job.stem}-run") if out is None else out, wanted, wanted.digest())
        if run.is_settled(force, resume):
            print(f"{run.folder}: finished before, of the same job and data; nothing to do.")
            return
        log.info("aligngp %s, jax %s, Python %s", version("aligngp"), version("jax"), platform.python_version())
        log.info("job %s, run folder %s", job, run.folder)
        tables, test = wanted.read()
        run.folder.mkdir(parents=True, exist_ok=True)
        lines.write_to(run.folder / UNFINISHED)
        gp, seconds = _fitted(wanted, tables, quiet)
        run.keep(gp)
        scores = {**_scores(gp, test), "warnings": gp.warnings()}
        for sentence in scores["warnings"]:
            log.info("worth knowing: %s", sentence)
        lines.stop()
        run.finish(gp, scores, seconds, lines.text())
    _show(scores)
    if not quiet:
        for sentence in scores["warnings"]:
            print(f"Worth knowing: {sentence}")
        print(f"Model: {run.folder / MODEL}, fitted in {seconds:.1f} s; beside it job.toml, scores.json, {LOG}")
        folder, task = shlex.quote(str(run.folder)), shlex.quote(next(iter(wanted.tasks)))
        print(f"Next:  aligngp predict {folder} --task {task} --input new.csv --output pred.csv")
        print(f"       aligngp report {folder}")


def _fitted(job: Job, tables: Mapping[str, Any], quiet: bool) -> tuple[AlignedGP, float]:
    """Return the fitted model and the seconds of the fit."""
    gp = AlignedGP(**{**job.keywords, "progress": not quiet and job.model.get("progress", True)})
    log.info("fitting %s with %s", ", ".join(map(repr, tables)), ", ".join(gp.settings.changed()))
    start = time.perf_counter()
    gp.fit(tables)
    seconds = time.perf_counter() - start
    log.info("fitted in %.1f s", seconds)
    gp.settings = replace(gp.settings, progress=job.model.get("progress"))  # what was shown here is not the model's
    return gp, seconds


def _scores(gp: AlignedGP, test: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores on training rows, and on test rows where there are some."""
    scores: dict[str, Any] = {"tasks": gp.training_scores()}
    if test:
        scores["test"] = {name: {"rows": rows.X.num_rows, **gp.score(name, rows)} for name, rows in test.items()}
    return scores


def _show(scores: Mapping[str, Any]) -> None:
    """Print the scores: a table on a terminal, a line a task elsewhere."""
    from rich.console import Console

    rows = [(name, one["scored"], one) for name, one in scores["tasks"].items()]
    rows += [(name, "test", one) for name, one in scores.get("test", {}).items()]
    console = Console()
    if console.is_terminal:
        console.print(_table(rows))
        return
    for name, scored, one in rows:
        told = ", ".join(f"{heading} {one[key]:.3g}" for key, heading in _SHOWN.items())
        print(f"{name}: {one['rows']} rows {scored}, {told}, 95% interval holds {one['coverage95']:.0%}")


def _table(rows: list[tuple[str, str, Mapping[str, Any]]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Scores: lower is better, 95% of the rows belong in the interval", title_justify="left")
    for heading in ("task", "rows"):
        table.add_column(heading)
    for heading in (*_SHOWN.values(), "95% interval holds"):
        table.add_column(heading, justify="right")
    for name, scored, one in rows:
        cells = (f"{one[key]:.3g}" for key in _SHOWN)
        table.add_row(Text(name), f"{one['rows']} {scored}", *cells, f"{one['coverage95']:.0%}")
    return table
