"""What happens during a run, for the log file; warnings also as one line each for who watches."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aligngp.errors import AligngpWarning

log = logging.getLogger("aligngp")


class Journal(logging.Handler):
    """Lines with their times, kept until there is a file for them, then written at once."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self.lines: list[str] = []
        self._file: Path | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, and write it where there is a file."""
        self.lines.append(self.format(record))
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(self.lines[-1] + "\n")

    def write_to(self, file: Path) -> None:
        """Write what was said so far, and from now on every line."""
        self._file = file
        file.write_text(self.text(), encoding="utf-8")

    def stop(self) -> None:
        """Write no more."""
        self._file = None

    def text(self) -> str:
        """Return all lines."""
        return "".join(line + "\n" for line in self.lines)


@contextmanager
def journal() -> Iterator[Journal]:
    """Keep what the logger ``aligngp`` says and what is warned of; an error is the last line."""
    kept, level = Journal(), log.level
    with warnings.catch_warnings():
        warnings.simplefilter("always", AligngpWarning)
        before = warnings.showwarning

        def show(message, category, *where, **more):
            if issubclass(category, AligngpWarning):
                log.warning("%s", message)
                print(f"aligngp: warning: {message}", file=sys.stderr)
            else:
                before(message, category, *where, **more)

        warnings.showwarning = show
        log.addHandler(kept)
        log.setLevel(logging.INFO)
        try:
            yield kept
        except BaseException as error:
            log.error("%s: %s", type(error).__name__, error)
            raise
        finally:
            log.removeHandler(kept)
            log.setLevel(level)
