"""``aligngp report``: the page of a fitted model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aligngp.cli.journal import journal
from aligngp.cli.options import Debug, Force, Quiet
from aligngp.cli.run import load_run
from aligngp.errors import SettingError


def report(
    model: Annotated[Path, typer.Argument(help="A run's folder, or a model file.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    transfer: Annotated[
        bool,
        typer.Option(
            " /--no-transfer", help="Leave out what fits models again: which task helps which.", show_default=False
        ),
    ] = True,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write what is known of a fitted model as one HTML page that needs no network.

    Of a run's folder the rows of its data files are read again, if they are
    those of the fit; a model file holds none, and the page says what it lacks.

    Example: aligngp report turbine --out turbine.html
    """
    from aligngp.report import write

    if out.exists() and not out.is_dir() and not force:
        raise SettingError(f"{out} is there already. Pass --force to replace it, or another --out.")
    with journal():
        loaded = load_run(model)
        if loaded.missing is not None and not quiet:
            print(loaded.missing)
        gp = loaded.gp
        gp.settings = replace(gp.settings, progress=False if quiet else None)
        path = write(gp, out, test=loaded.test or None, transfer=transfer, force=force)
    if not quiet:
        print(f"Report: {path}")
