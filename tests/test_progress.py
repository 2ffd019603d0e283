"""Progress is a bar where someone can see it, a line now and then elsewhere, and nothing where it is not wanted."""

import io
import sys

import pytest

from aligngp import progress
from aligngp.progress import watched


class Screen(io.StringIO):
    """A place for text that says whether it is a terminal."""

    def __init__(self, terminal: bool):
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def screen(monkeypatch):
    def made(terminal: bool) -> Screen:
        screen = Screen(terminal)
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        return screen

    return made


@pytest.mark.parametrize("shown, terminal", [(False, True), (False, False), (None, False)])
def test_nothing_is_shown_where_it_is_not_wanted(screen, shown, terminal):
    place = screen(terminal)
    with watched(shown) as opened:
        assert opened("training") is None
    assert place.getvalue() == ""


def test_nothing_is_shown_where_there_is_no_error_stream(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with watched(None) as opened:
        assert opened("training") is None


@pytest.mark.parametrize("shown", [True, None])
def test_a_bar_on_a_terminal(screen, shown):
    place = screen(True)
    with watched(shown) as opened:
        report = opened("task '[/b]'")  # not markup
        report(3, 10, -12.3456)
        report(10, 10, 4.5)
    text = place.getvalue()
    assert "task '[/b]'" in text
    assert "10/10" in text
    assert "objective 4.5" in text


def test_a_line_now_and_then_elsewhere(screen, monkeypatch):
    place, now = screen(False), [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with watched(True) as opened:
        report = opened("training")
        for second, done in ((1.0, 1), (4.9, 2), (5.0, 3), (6.0, 4), (10.1, 5), (10.2, 6)):
            now[0] = second
            report(done, 6, -100.0 / done)
    assert place.getvalue().splitlines() == [
        "training: 3/6, objective -33.3333, 5 s left",
        "training: 5/6, objective -20, 2 s left",
        "training: 6/6, objective -16.6667",
    ]


@pytest.mark.parametrize(
    "seconds, said", [(0.4, "0 s"), (99.4, "99 s"), (100.0, "2 min"), (5400.0, "90 min"), (9000.0, "2.5 h")]
)
def test_the_time_left_is_said_in_a_readable_unit(seconds, said):
    assert progress.duration(seconds) == said
