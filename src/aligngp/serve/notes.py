"""Sentences for a program that asks: short, on one line, and never what UTF-8 cannot hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_LONGEST = 1000
_MOST_WARNINGS, _LONGEST_WARNING = 5, 500


def one_sentence(text: object) -> str:
    """Return a text on one line that can be sent."""
    line = " ".join(str(text).split())
    return line[:_LONGEST].encode("utf-8", "replace").decode("utf-8")


def told_of_validation(errors: Sequence[Any]) -> str:
    """Return the first of what pydantic complains of: where, and what was expected."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return one_sentence(f"The body is not JSON: {first.get('ctx', {}).get('error', '')}.")
    where = ".".join(str(key)[:100] for key in first["loc"] if key not in ("body", "query")) or "the body"
    return one_sentence(f"{where}: {first['msg'].rstrip('.')}.")


def as_header(warnings: Sequence[str]) -> dict[str, str]:
    """Return warnings as a header: a JSON list in ASCII."""
    if not warnings:
        return {}
    short = [one_sentence(warning)[:_LONGEST_WARNING] for warning in warnings[:_MOST_WARNINGS]]
    return {"x-warnings": json.dumps(short)}
