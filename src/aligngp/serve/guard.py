"""What stands before the application: who may ask, how much, how long, and what a browser may do with the answers."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import time
from collections.abc import Callable
from typing import Any

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_SECONDS = 30.0
"""Seconds in which the whole body of a request must arrive."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware: checks of Host and Origin, limits of the body, headers of every answer."""

    def __init__(self, app: ASGIApp, *, known: Callable[[str], bool], most_bytes: int):
        self._app, self._known, self._most = app, known, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        refused = self._refused(scope)
        if refused is not None:
            await _refuse(_guarded(send), *refused)
            return
        await self._app(scope, self._limited(receive), _guarded(send))

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason where a request is not even looked at."""
        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._known(host_name(hosts[0])):
            # A page of elsewhere can give its own name the address of this machine (DNS rebinding).
            return 400, "Host: this server does not go by that name. Open it under the address that it printed."
        for origin in (value for name, value in headers if name == b"origin"):
            if origin.lower() not in {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}:
                return 403, "Origin: another site may not ask this server. Open its own page."
        length = next((value for name, value in headers if name == b"content-length"), "0")
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > self._most:
            return 413, _too_large(self._most)
        return None

    def _limited(self, receive: Receive) -> Receive:
        size, end = 0, time.monotonic() + BODY_SECONDS
        whole = False

        async def limited() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()  # waits for the end of the connection
            try:
                message = await asyncio.wait_for(receive(), max(0.001, end - time.monotonic()))
            except TimeoutError:
                told = f"The body did not arrive within {BODY_SECONDS:.0f} seconds. Send it again."
                raise HTTPException(408, told) from None
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > self._most:
                raise HTTPException(413, _too_large(self._most))
            return message

        return limited


def host_name(header: str) -> str:
    """Return the host of a Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.rpartition(":")[0].lower() if header.count(":") == 1 else header.lower()


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine alone, without asking anyone."""
    if host.lower() == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def is_address_or_own_name(host: str) -> bool:
    """Tell whether a host is an IP address or this machine's name: what no page of elsewhere can take for itself."""
    return is_loopback(host) or _address(host) is not None or host in {socket.gethostname().lower()}


def _address(host: str) -> Any:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _too_large(most: int) -> str:
    return f"The body is larger than {most / 1e6:.0f} MB. Send it in parts."


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = {name.lower(): value for name, value in message.get("headers", ())}
            headers |= {name.encode(): value.encode() for name, value in HEADERS.items()}
            if message["status"] in (408, 413):  # what is still under way is not read
                headers[b"connection"] = b"close"
            message = {**message, "headers": list(headers.items())}
        await send(message)

    return guarded


async def _refuse(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
