"""Who may ask, how much, how long, and what goes wrong inside."""

import asyncio
import http.client
import json
import threading

import httpx
import pytest

import aligngp as agp
from aligngp.cli import main
from aligngp.serve import answers, create_app, guard, run, server
from aligngp.serve import app as application
from pictures import park

ROW = {"task": "low", "rows": [{"x3": 0.5, "x4": 0.5}]}
CSV = {"content-type": "text/csv"}


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost", "LOCALHOST:1", "[::1]:8321", "127.3.2.1"])
def test_names_of_this_machine(ask, host):
    assert ask("GET", "/api/model", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8321", "10.0.0.1", "127.0.0.1.evil.example", "", "[::1"]
)
@pytest.mark.parametrize("path", ["/", "/api/model"])
def test_other_names_are_refused(ask, host, path):
    answer = ask("GET", path, headers={"host": host})
    if host == "[::1":  # read as ::1, which it means
        assert answer.status_code == 200
        return
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Host: this server does not go by that name.")


@pytest.mark.parametrize("host, status", [("10.0.0.1:80", 200), ("localhost", 200), ("evil.example", 400)])
def test_a_remote_server_goes_by_addresses(ask, host, status):
    assert ask("GET", "/", app=create_app(park(), remote=True), headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "origin, status", [("http://127.0.0.1:8321", 200), ("http://evil.example", 403), ("null", 403)]
)
def test_other_sites_may_not_ask(ask, origin, status):
    answer = ask("POST", "/api/predict", json=ROW, headers={"origin": origin})
    assert answer.status_code == status
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/api/model", "/nowhere", "/docs", "/redoc"])
def test_every_answer_has_the_headers(ask, path):
    answer = ask("GET", path)
    assert {name: answer.headers[name] for name in guard.HEADERS} == guard.HEADERS
    if path in ("/nowhere", "/docs", "/redoc"):
        assert (answer.status_code, answer.json()["error"].split(".")[0]) == (404, "There is no such page")
    assert "unsafe" not in guard.POLICY


def test_the_page_takes_no_text_for_code(ask):
    text = ask("GET", "/").text + ask("GET", "/page.js").text
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        " style=",
        "http:",
    ):
        assert word not in text.replace("http://www.w3.org/2000/svg", "")


def test_methods(ask):
    answer = ask("GET", "/api/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"].startswith("This method is not allowed here.")
    assert ask("OPTIONS", "/api/predict", headers={"origin": "http://127.0.0.1:8321"}).status_code == 405


@pytest.mark.parametrize("path, kind", [("/api/predict", "application/json"), ("/api/csv?task=low", "text/csv")])
def test_a_body_that_is_too_large(ask, path, kind):
    async def parts():
        for _ in range(12):
            sent.append(1)
            yield b" " * 1_000_000

    sent: list[int] = []
    for more in ({"content": b" " * 10_000_001}, {"content": parts()}):  # by its length, and while it comes in
        answer = ask("POST", path, headers={"content-type": kind}, **more)
        assert answer.status_code == 413
        assert answer.json()["error"] == "The body is larger than 10 MB. Send it in parts."
        assert answer.headers["connection"] == "close"
    assert len(sent) == 11


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 30, "²"])
def test_lengths_that_are_none(app, length):
    said = asyncio.run(answered(app, [(b"host", b"localhost"), (b"content-length", length.encode("latin-1"))]))
    assert said[0]["status"] == 413


async def answered(app, headers) -> list[dict]:
    """The messages that answer a request of these headers, whose body never comes."""
    said: list[dict] = []

    async def receive():
        await asyncio.sleep(30)

    async def send(message):
        said.append(message)

    scope = {"type": "http", "method": "POST", "path": "/api/predict", "query_string": b"", "headers": headers}
    await app({**scope, "http_version": "1.1", "scheme": "http", "root_path": "", "raw_path": b""}, receive, send)
    return said


def test_a_body_that_does_not_come(app, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)
    said = asyncio.run(answered(app, [(b"host", b"localhost"), (b"content-type", b"application/json")]))
    assert said[0]["status"] == 408
    assert "did not arrive within" in json.loads(said[1]["body"])["error"]


def test_a_prediction_that_takes_too_long(ask, monkeypatch):
    wait = threading.Event()
    monkeypatch.setattr(application, "SECONDS", 0.05)
    monkeypatch.setattr(answers.Answers, "model", lambda self: wait.wait(10))
    try:
        answer = ask("GET", "/api/model")
    finally:
        wait.set()
    assert (answer.status_code, "Ask for fewer rows." in answer.json()["error"]) == (504, True)


def test_one_prediction_at_a_time(monkeypatch):
    monkeypatch.setattr(answers, "WAIT", 0.05)
    found = answers.Answers(park())
    with found._alone(), pytest.raises(answers.Busy):
        found.predict("low", ROW["rows"], False, 0.95)
    assert len(found.predict("low", ROW["rows"], False, 0.95)["mean"]) == 1


@pytest.mark.parametrize("error, status", [(answers.Busy(), 503), (RuntimeError("secret"), 500), (MemoryError(), 422)])
def test_what_fails_inside(ask, monkeypatch, error, status):
    def fail(self):
        raise error

    answer = ask("GET", "/api/model", app=_failing_later(monkeypatch, fail))
    assert answer.status_code == status
    assert "secret" not in answer.text
    assert answer.json()["error"].endswith(".")


def _failing_later(monkeypatch, fail):
    """An application whose model is described when it is made, and then no more."""
    calls = []

    def first_right(self):
        calls.append(1)
        return {} if len(calls) == 1 else fail(self)

    monkeypatch.setattr(answers.Answers, "model", first_right)
    return create_app(park())


# ---- the server ------------------------------------------------------------------------------------------------------


def test_it_answers_over_a_socket_and_cuts_off_what_is_too_large(served):
    assert httpx.post(f"http://127.0.0.1:{served}/api/predict", json=ROW, trust_env=False).status_code == 200
    connection = http.client.HTTPConnection("127.0.0.1", served, timeout=20)
    connection.putrequest("POST", "/api/csv?task=low")
    connection.putheader("Content-Type", "text/csv")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("connection")) == (413, "close")
    connection.close()


def test_hosts_that_others_reach_are_refused():
    for call in (lambda: run(park(), "0.0.0.0"), lambda: run(park(), "192.0.2.1", 80)):
        with pytest.raises(agp.SettingError, match=r"others could reach the model .* --allow-remote"):
            call()


def test_a_port_that_is_taken(served):
    with pytest.raises(agp.SettingError, match=rf"--port {served}: cannot be listened on"):
        server.check_address("127.0.0.1", served, False)
    assert server.address("::1", 80) == "http://[::1]:80/"


def test_the_command(monkeypatch, capsys, tmp_path):
    park().save(tmp_path / "model.agp")
    ran = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self: ran.append(self.config))
    monkeypatch.setattr(server, "check_address", lambda *given: None)
    for host, warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        arguments = [
            "aligngp",
            "serve",
            str(tmp_path / "model.agp"),
            "--host",
            host,
            "--port",
            "8399",
            "--allow-remote",
        ]
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        said = capsys.readouterr()
        assert f"Explorer: http://{host}:8399/ (Ctrl-C ends it)" in said.out
        assert "holds no training rows" in said.out
        assert ("whoever reaches" in said.err) is warned
        assert (ran[-1].host, ran[-1].port, ran[-1].proxy_headers) == (host, 8399, False)


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(agp.MissingPackageError, match=r'pip install "aligngp\[serve\]"'):
        create_app(park())
