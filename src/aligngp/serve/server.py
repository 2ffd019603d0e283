"""The server: uvicorn on one address, this machine's own unless remote ones are allowed."""

from __future__ import annotations

import socket
from contextlib import suppress

import uvicorn

from aligngp.errors import SettingError
from aligngp.estimator import AlignedGP
from aligngp.serve.app import application
from aligngp.serve.guard import is_loopback

CONNECTIONS = 64
"""Most connections at a time."""


def serve_forever(gp: AlignedGP, host: str, port: int, remote: bool) -> None:
    """Serve a fitted model until it is interrupted."""
    check_address(host, port, remote)
    configured = uvicorn.Config(
        application(gp, remote),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=32_768,
    )
    with suppress(KeyboardInterrupt):  # raised again once the server has ended in good order
        uvicorn.Server(configured).run()


def check_address(host: str, port: int, remote: bool) -> None:
    """Raise where an address may not be used, or is used already."""
    if not (is_loopback(host) or remote):
        raise SettingError(
            f"--host {host}: others could reach the model there, without a password and unencrypted. Use 127.0.0.1, "
            "or pass --allow-remote if this is meant."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except (OSError, OverflowError) as error:
            raise SettingError(
                f"--host {host} --port {port}: cannot be listened on ({error}). Pass another --port, or stop what "
                "listens there."
            ) from None


def address(host: str, port: int) -> str:
    """Return what is typed into a browser."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"
