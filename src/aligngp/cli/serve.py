"""``aligngp serve``: a fitted model as a page in the browser and as a JSON API."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from aligngp.cli.journal import journal
from aligngp.cli.options import Debug, Quiet
from aligngp.cli.run import load_run


def serve(
    model: Annotated[Path, typer.Argument(help="A run's folder, or a model file.", show_default=False)],
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="The port.")] = 8321,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a --host that others can reach, without a password.")
    ] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Explore a fitted model in the browser: a slider an input, predictions with their bands, CSV in and out.

    Programs find the same as JSON under /api, described in /api/openapi.json.

    It listens on this machine alone. Ctrl-C ends it.

    Example: aligngp serve turbine --port 8321
    """
    from aligngp.serve import check_installed, run

    check_installed()
    from aligngp.serve.server import address, check_address, is_loopback

    check_address(host, port, allow_remote)
    with journal():
        loaded = load_run(model)
    if not quiet:
        if loaded.missing is not None:
            print(loaded.missing)
        print(f"Explorer: {address(host, port)} (Ctrl-C ends it)", flush=True)
    if not is_loopback(host):
        print(
            f"aligngp: warning: whoever reaches {host} can ask this model, without a password and unencrypted.",
            file=sys.stderr,
        )
    run(loaded.gp, host, port, remote=allow_remote)
