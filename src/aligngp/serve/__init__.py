"""The explorer: a fitted model as a page in the browser and as a JSON API, on this machine alone unless told otherwise.

It answers questions to one model that was loaded before: it reads no files, runs no code that comes in, and keeps
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aligngp.errors import MissingPackageError
from aligngp.estimator import AlignedGP

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app", "run"]


def create_app(gp: AlignedGP, *, remote: bool = False) -> FastAPI:
    """Return the ASGI application of a fitted model; ``remote`` answers to other names than those of loopback."""
    check_installed()
    from aligngp.serve.app import application

    return application(gp, remote)


def run(gp: AlignedGP, host: str = "127.0.0.1", port: int = 8321, *, remote: bool = False) -> None:
    """Serve a fitted model until it is interrupted; a host that is not loopback is refused unless ``remote``."""
    check_installed()
    from aligngp.serve.server import serve_forever

    serve_forever(gp, host, port, remote)


def check_installed() -> None:
    """Raise and say how to install what is missing."""
    for name in ("fastapi", "uvicorn"):
        try:
            __import__(name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] != name:
                raise
            raise MissingPackageError(
                f'the explorer needs {name}, which is not installed. Install it: pip install "aligngp[serve]".',
                name=name,
            ) from None
