"""An application without a network, and one that listens on this machine for the browser."""

import asyncio
import threading
import time

import httpx
import pytest
import uvicorn

from aligngp.serve import create_app
from pictures import park

HOST = "http://127.0.0.1:8321"


@pytest.fixture(scope="session")
def app():
    return create_app(park())


@pytest.fixture
def ask(app):
    def asked(method: str, path: str, app=app, **more) -> httpx.Response:
        async def call() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOST) as client:
                return await client.request(method, path, **more)

        return asyncio.run(call())

    return asked


@pytest.fixture(scope="session")
def served(app):
    """The port on which the application listens."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end, "the server does not start"
        time.sleep(0.02)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()
