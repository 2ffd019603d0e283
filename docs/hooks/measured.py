"""The measured results of ``benchmarks/results`` as one page."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ORDER = ("accuracy", "toys", "stress", "speed", "step_time", "import_time", "cold_start", "growth", "deadlock")
"""What stands first; others follow by name."""
_TITLES = {
    "accuracy": "Accuracy",
    "toys": "The paper's toy cases",
    "stress": "Hard data",
    "speed": "Speed of a fit",
    "step_time": "Time of a training step",
    "import_time": "Time of the import",
    "cold_start": "The first fit in a new process",
    "growth": "Growth with the number of rows",
    "deadlock": "Deadlocks",
}
_HEADING = re.compile(r"^(#+) ", re.MULTILINE)
_IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?!https?:|#)[^)]*\)")


@dataclass
class Results:
    """Markdown, and the figures that it shows (name on the site to file)."""

    markdown: str
    figures: dict[str, Path] = field(default_factory=dict)


def collect(folder: Path) -> Results:
    """Return every table of a folder of results under a heading; links to files of the repository become text."""
    files = {file.stem: file for file in sorted(folder.glob("*.md"))}
    names = [name for name in ORDER if name in files] + [name for name in files if name not in ORDER]
    result = Results("")
    for name in names:
        text = files[name].read_text(encoding="utf-8").strip()
        title = re.match(r"# (.*)\n", text)
        if title is not None:
            text = text[title.end() :].strip()
        heading = _TITLES.get(name) or (name if title is None else title[1])
        text = _LINK.sub(r"\g<text>", _fitting(text))
        result.markdown += f"\n## {heading}\n\n{_with_figures(text, folder, result.figures)}\n"
    if not names:
        result.markdown = "\nThis copy of the repository holds no measured results.\n"
    return result


def read(text: str, section: re.Pattern[str], root: Path) -> Results:
    """Return a page with what benchmarks/reading.py says of the rows in the place of its marks, and its figures."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    reading, rows = (importlib.import_module(f"benchmarks.{name}") for name in ("reading", "rows"))
    folder = root / "benchmarks" / "results"
    found = rows.read(folder / "accuracy.csv")
    result = Results("")
    told = section.sub(lambda mark: reading.SECTIONS[mark[1]](found), text)
    # A figure of rows that are not there yet is not drawn, and leaves no gap.
    told = _IMAGE.sub(lambda image: image[0] if (folder / image["path"]).is_file() else "", told)
    result.markdown = _with_figures(told, folder, result.figures)
    return result


def _fitting(text: str) -> str:
    """Return text whose headings stand below the one that the page gives it."""
    levels = [len(found) for found in _HEADING.findall(text)]
    deeper = 3 - min(levels, default=3)
    return _HEADING.sub(lambda found: "#" * (len(found[1]) + deeper) + " ", text) if deeper > 0 else text


def _with_figures(text: str, folder: Path, figures: dict[str, Path]) -> str:
    def found(match: re.Match[str]) -> str:
        file = folder / match["path"]
        if not file.is_file():
            return match["alt"]
        figures[file.name] = file
        return f"![{match['alt']}]({file.name})"

    return _IMAGE.sub(found, text)
