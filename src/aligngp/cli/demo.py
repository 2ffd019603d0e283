"""``aligngp demo``: the embedded example, end to end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from aligngp.cli.options import Debug, Force, Quiet
from aligngp.errors import MissingPackageError, SettingError

FIGURE, REPORT = "predicted-against-observed.png", "report.html"


def demo(
    out: Annotated[Path, typer.Option(help="Folder of figure and report; made if it is not there.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of the models.")] = 0,
    iterations: Annotated[int, typer.Option(min=1, help="Adam steps; the paper's are 5000.")] = 5000,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit the embedded example end to end: scores, a figure and a report.

    The paper's Park case: 6 runs of a costly function of four inputs, 100 of a
    cheap one that knows only two of them.

    The folder gets predicted-against-observed.png (extra plot), and report.html
    (extra report) on aligngp's default model.

    Example: aligngp demo --out demo --seed 1
    """
    from rich.console import Console
    from rich.table import Table

    import aligngp as agp

    there = [out / name for name in (FIGURE, REPORT) if (out / name).exists()]
    if there and not force:
        raise SettingError(f"{there[0]} is there already. Pass --force to replace it, or another --out.")
    console = Console()
    case = agp.datasets.park(seed=seed)
    tasks = {name: agp.Task(*case.tasks[name], names=case.names[name]) for name in case.tasks}
    X, y = case.test[case.target]
    if not quiet:
        console.print(case.description)
    models = {
        "SOGP (one task alone)": agp.paper.sogp,
        "HSVLMC-g0": agp.paper.hsvlmc_g0,
        "HSVLMC": agp.paper.hsvlmc,
        "aligngp's default": agp.AlignedGP,
    }
    title = f"Task {case.target!r}, {y.size} test points: lower is better, 95% of them belong in the interval"
    table = Table(title=title, title_justify="left")
    table.add_column("model", no_wrap=True)
    for heading in ("SMSE", "SMLL", "RMSE", "CRPS", "interval", "seconds"):
        table.add_column(heading, justify="right")
    predictions = {}
    for name, build in models.items():
        if not quiet:
            console.print(f"fitting {name} ...")
        alone = build is agp.paper.sogp
        gp = build(
            common=None if alone else case.common,
            mappings=None if alone else case.mappings,
            seed=seed,
            progress=False if quiet else None,
            **({} if build is agp.AlignedGP else {"max_iterations": iterations}),
        )
        start = time.perf_counter()
        gp.fit({case.target: tasks[case.target]} if alone else tasks)
        seconds = time.perf_counter() - start
        score = gp.score(case.target, (X, y))
        predictions[name.split(" (")[0]] = gp.predict(case.target, X)
        columns = [f"{score[key]:.3f}" for key in ("smse", "smll", "rmse", "crps")]
        table.add_row(name, *columns, f"{score['coverage95']:.0%}", f"{seconds:.1f}")
    console.print(table)
    out.mkdir(parents=True, exist_ok=True)
    rows = ", ".join(f"{data[1].size} rows of {name!r}" for name, data in case.tasks.items())
    _draw(predictions, y, out, f"Park: {rows}, {y.size} test points of {case.target!r}", console)
    try:
        agp.report.write(gp, out / REPORT, test={case.target: (X, y)}, force=force)
        console.print(f"Report: {out / REPORT}", soft_wrap=True)
    except MissingPackageError as error:
        console.print(f"No report: {error}", markup=False, soft_wrap=True)


def _draw(predictions, observed, out: Path, title: str, console) -> None:
    from aligngp.plots import predicted_against_observed

    try:
        axes = predicted_against_observed(predictions, observed, title=title)
    except MissingPackageError as error:
        console.print(f"No figure: {error}", markup=False, soft_wrap=True)
        return
    axes[0].figure.savefig(out / FIGURE, dpi=120)
    console.print(f"Figure: {out / FIGURE}", soft_wrap=True)
