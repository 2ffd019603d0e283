"""In which line of a TOML file a key stands: tomllib does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

Keys = tuple[str | int, ...]
"""The way to a value: keys of tables, and positions in lists."""

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|\n|[\[\]{}=,.]|[^\s\[\]{}=,.#\"']+",
    re.DOTALL,
)


def find_lines(text: str) -> dict[Keys, int]:
    """Return the line (counted from 1) of every key and list item of a text that tomllib can read."""
    return _Lines(text).found


class _Lines:
    """One walk over the tokens of a valid text."""

    def __init__(self, text: str):
        self.found: dict[Keys, int] = {}
        self._tables: dict[Keys, int] = {}
        self._tokens = list(_tokens(text))
        self._at = 0
        table: Keys = ()
        while self._skip_blank():
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self) -> tuple[str, int]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _skip_blank(self) -> bool:
        while self._peek() == "\n" or self._peek().startswith("#"):
            self._at += 1
        return bool(self._peek())

    def _header(self) -> Keys:
        """Read ``[a.b]`` or ``[[a.b]]``, whose tables are numbered."""
        brackets = 0
        while self._peek() == "[":
            self._take()
            brackets += 1
        keys = self._keys("]", ())
        for _ in range(brackets - 1):
            self._take()
        if brackets == 2:
            number = self._tables.get(keys, -1) + 1
            self._tables[keys] = number
            keys = (*keys, number)
        return keys

    def _keys(self, end: str, table: Keys) -> Keys:
        """Read the keys up to the end sign, and note where each of them is first seen."""
        keys = table
        while True:
            token, line = self._take()
            if token == end:
                return keys
            if token != ".":
                keys = (*keys, _unquoted(token))
                self.found.setdefault(keys, line)

    def _pair(self, table: Keys) -> None:
        self._value(self._keys("=", table))

    def _value(self, keys: Keys) -> None:
        """Read a value: a list, a table in braces, or anything up to the end of the line, a comma or a bracket."""
        opening = self._peek()
        if opening in ("[", "{"):
            self._take()
            position = 0
            while self._skip_blank() and self._peek() not in ("]", "}"):
                if self._peek() == ",":
                    self._take()
                elif opening == "{":
                    self._pair(keys)
                else:
                    self.found[(*keys, position)] = self._tokens[self._at][1]
                    self._value((*keys, position))
                    position += 1
            self._take()
            return
        while self._peek() not in ("", "\n", ",", "]", "}"):
            self._take()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Give the tokens with their lines; space and what no token begins with is passed over."""
    line, last = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", last, match.start())
        last = match.start()
        yield match[0], line


def _unquoted(token: str) -> str:
    return next(iter(tomllib.loads(f"{token} = 0")))
