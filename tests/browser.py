"""A headless Chromium over its DevTools protocol: what a page asks for, complains of, and looks like."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import websocket

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-port=0"
).split()
_SECONDS = 60

needs_browser = pytest.mark.skipif(PATH is None, reason="there is no Chromium: apt-get install chromium")


class Page:
    """One page, and everything that happened on it."""

    def __init__(self, socket: websocket.WebSocket):
        self._socket, self._number = socket, 0
        self.events: list[dict] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters) -> dict:
        """Call a method of the protocol; return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def look(self, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the window and the colours that are preferred."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, file: Path) -> None:
        """Load a file and wait until its figures are drawn."""
        self.visit(file.resolve().as_uri())

    def visit(self, url: str) -> None:
        """Load a page and wait until its figures are drawn."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.drawn !== undefined")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds on the page."""
        end = time.monotonic() + _SECONDS
        while not self.value(condition):
            assert time.monotonic() < end, f"{condition} did not come true; {self.complaints()}"
            time.sleep(0.05)

    def value(self, expression: str):
        """Return the value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for, itself and what stands in it left out."""
        asked = [event["params"]["request"]["url"] for event in self.events if event["method"].endswith("WillBeSent")]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console, violated policies and exceptions."""
        result = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                result.append(str(parameters["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                result.append(parameters["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                result.append(str(parameters["args"]))
        return result

    def screenshot(self, file: Path, whole: bool = False) -> None:
        """Write what is seen as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def pdf(self, file: Path) -> None:
        """Print the page."""
        file.write_bytes(base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"]))


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """Give a page of a browser of its own, whose profile stands in an empty folder."""
    assert PATH is not None
    command = [PATH, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end, port = time.monotonic() + _SECONDS, folder / "DevToolsActivePort"
        while not (port.is_file() and len(port.read_text().split()) == 2):
            assert process.poll() is None, "Chromium ended before it could be spoken to"
            assert time.monotonic() < end, "Chromium does not open its DevTools port"
            time.sleep(0.05)
        number, path = port.read_text().split()
        browser = _connected(f"ws://127.0.0.1:{number}{path}")
        browser.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
        targets = json.loads(browser.recv())["result"]["targetInfos"]
        (target,) = [one["targetId"] for one in targets if one["type"] == "page"]
        socket = _connected(f"ws://127.0.0.1:{number}/devtools/page/{target}")
        try:
            yield Page(socket)
        finally:
            socket.close()
            browser.send(json.dumps({"id": 2, "method": "Browser.close"}))
            browser.close()
    finally:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _connected(address: str) -> websocket.WebSocket:
    return websocket.create_connection(address, timeout=_SECONDS, suppress_origin=True)
