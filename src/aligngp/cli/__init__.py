"""The command line: ``aligngp init``, ``fit``, ``predict``, ``report``, ``serve`` and a few small commands."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed

import typer

from aligngp.cli.benchmark import benchmark
from aligngp.cli.demo import demo
from aligngp.cli.fit import fit
from aligngp.cli.init import init
from aligngp.cli.options import Debug, Quiet
from aligngp.cli.predict import predict
from aligngp.cli.report import report
from aligngp.cli.serve import serve
from aligngp.errors import AligngpError, SettingError
from aligngp.job import SCHEMA

app = typer.Typer(
    help="Gaussian processes that learn several tasks together although every task has inputs of its own.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
for _command in (init, fit, predict, report, serve, demo, benchmark):
    app.command()(_command)


@app.command()
def schema(quiet: Quiet = False, debug: Debug = False) -> None:
    """Print the JSON schema of job files, for editors that complete and check TOML.

    Example: aligngp schema > job_schema.json, and "#:schema job_schema.json" as the first line of job.toml
    """
    print(SCHEMA.read_text(encoding="utf-8"), end="")


@app.command()
def version(quiet: Quiet = False, debug: Debug = False) -> None:
    """Print the version; --quiet prints the number alone.

    Example: aligngp version
    """
    print(installed("aligngp") if quiet else f"aligngp {installed('aligngp')}")


def main() -> None:
    """Run a command; an error is one line and exit code 1 (failed) or 2 (misused)."""
    try:
        app()
    except SettingError as error:
        _fail(error, 2)
    except (AligngpError, OSError) as error:
        _fail(error, 1)


def _fail(error: BaseException, code: int) -> None:
    if "--debug" in sys.argv:
        raise error
    print(f"aligngp: {error}", file=sys.stderr)
    raise SystemExit(code)
