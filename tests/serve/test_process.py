"""The command as a process of its own: it says where it listens, answers, and ends by Ctrl-C in good order."""

import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from pictures import park

# A shell may have started the tests with Ctrl-C ignored.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from aligngp.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent to a whole console on Windows")
def test_it_listens_until_it_is_interrupted(tmp_path):
    park().save(tmp_path / "model.agp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", COMMAND, "serve", str(tmp_path / "model.agp"), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 120
        while True:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            try:
                found = httpx.get(f"http://127.0.0.1:{port}/api/model", trust_env=False)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        assert [one["name"] for one in found.json()["tasks"]] == ["high", "low"]
        assert "server" not in found.headers
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert (process.returncode, err) == (0, "")
    assert f"Explorer: http://127.0.0.1:{port}/ (Ctrl-C ends it)" in out
