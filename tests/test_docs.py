"""The documentation: its code runs, and what builds it does what it says. The site itself: `make docs`."""

import re
import sys
from pathlib import Path

import pytest

from aligngp.ensemble.fit import MARGINALIZED_ROWS
from aligngp.ensemble.sources import POSTERIOR_ROWS
from aligngp.fit.choose import EXACT_ROWS, MOST_EXACT_ROWS
from aligngp.parts import ENSEMBLE_ROWS
from aligngp.prediction import JOINT_ROWS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "hooks"))

import execute  # noqa: E402
import measured  # noqa: E402
import scripts  # noqa: E402

PAGES = ["index.md", "troubleshooting.md", "how-to/own-mapping.md", "how-to/no-mapping.md", "how-to/save-and-load.md"]
"""Those that run in seconds; the build runs them all."""


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page):
    text = (ROOT / "docs" / page).read_text()
    assert text.startswith("---\nrun: true\n---\n"), "the build runs only pages that ask for it"
    done = execute.execute(text, page, "page")
    assert "{ .text .output }" in done.markdown
    assert all(png.startswith(b"\x89PNG") for png in done.figures.values())


def test_every_page_stands_in_the_navigation():
    named = set(re.findall(r"\S+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    tutorials = {f"tutorials/{script.stem.replace('_', '-')}.md" for script in (ROOT / "examples").glob("*.py")}
    assert named == pages | tutorials


def test_limits_that_pages_name_are_those_of_the_code():
    which, many = ((ROOT / "docs" / page).read_text() for page in ("which-model.md", "how-to/many-rows.md"))
    assert f"one task with at most {ENSEMBLE_ROWS} rows" in which
    assert f"up to {EXACT_ROWS} rows in all ({MOST_EXACT_ROWS} on request)" in which
    assert f"Up to {MARGINALIZED_ROWS} rows of a task it averages" in which
    assert f"| one task has at most {ENSEMBLE_ROWS} | " in many
    assert f"a sample of the rows, {POSTERIOR_ROWS} in all" in many
    assert f"limited to {JOINT_ROWS} at a time" in many


def test_printed_lines_and_figures_stand_below_their_code():
    text = """First.

```python
import matplotlib.pyplot as plt

print("one  ")
plt.plot([0, 1])
plt.xlabel("x")
plt.ylabel("y")
```

```python no-run
1 / 0
```

```python
print(plt.get_fignums())
```
"""
    done = execute.execute(text, "page.md", "page")
    below = "```\n\n``` { .text .output }\none\n```\n\n![Figure: y against x](page-1.png)\n\n```python\n1 / 0\n```\n\n"
    assert below in done.markdown
    assert done.markdown.endswith("\n\n``` { .text .output }\n[]\n```\n"), "a figure that was shown is closed"
    assert list(done.figures) == ["page-1.png"]


def test_code_that_fails_is_named():
    with pytest.raises(execute.ExampleError, match=r"page\.md, example 2: ZeroDivisionError"):
        execute.execute("```python\nx = 1\n```\n\n```python\nx / 0\n```\n", "page.md", "page")


def test_our_warnings_are_shown_and_others_are_errors():
    code = "```python\nimport warnings, aligngp\nwarnings.warn('look', aligngp.AligngpWarning)\n```\n"
    assert "\nAligngpWarning: look\n" in execute.execute(code, "page.md", "page").markdown
    with pytest.raises(execute.ExampleError, match="UserWarning: look"):
        execute.execute(code.replace("aligngp.AligngpWarning", "UserWarning"), "page.md", "page")


def test_long_sentences_are_wrapped_and_tables_are_not():
    sentence, row = "word " * 30, "a  b " * 30
    printed = execute.execute(f"```python\nprint({sentence!r})\nprint({row!r})\n```\n", "page.md", "page").markdown
    lines = printed.split("{ .text .output }\n")[1].splitlines()[:-1]
    assert " ".join(line.strip() for line in lines[:-1]) == sentence.strip()
    assert max(len(line) for line in lines[:-1]) <= execute.WIDTH
    assert lines[-1] == row.rstrip()


def test_cells_become_text_and_code():
    script = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\n\n\n# %%\n# a comment\nprint(x)\n"
    expected = "# Title\n\nText.\n\n```python\nx = 1\n```\n\n```python\n# a comment\nprint(x)\n```\n"
    assert scripts.to_markdown(script) == expected


def test_measured_results_get_headings_and_their_figures(tmp_path):
    (tmp_path / "speed.md").write_text(
        "# Old\n\n## Part\n\n![times](speed.png) and [rows](speed.csv), ![gone](no.png)\n"
    )
    (tmp_path / "accuracy.md").write_text("From `python -m x`.\n\n# Part\n\n| a |\n| - |\n")
    (tmp_path / "speed.png").write_bytes(b"")
    found = measured.collect(tmp_path)
    assert found.markdown.split("\n") == [
        "", "## Accuracy", "", "From `python -m x`.", "", "### Part", "", "| a |", "| - |", "",
        "## Speed of a fit", "", "### Part", "", "![times](speed.png) and rows, gone", "",
    ]  # fmt: skip
    assert found.figures == {"speed.png": tmp_path / "speed.png"}
    assert "no measured results" in measured.collect(tmp_path / "nowhere").markdown


def test_a_page_says_what_the_rows_say_and_shows_the_figures_that_there_are():
    text = "Before.\n\n<!-- benchmarks: time -->\n\n![Park](figures/park.png)\n\n![None](figures/none.png)\n\nAfter.\n"
    found = measured.read(text, re.compile(r"<!-- benchmarks: (\w+) -->"), ROOT)
    assert re.search(r"Before\.\n\nAll \d{4,} fits together took \d+\.\d hours", found.markdown)
    assert "![Park](park.png)" in found.markdown and "none.png" not in found.markdown
    assert found.figures == {"park.png": ROOT / "benchmarks" / "results" / "figures" / "park.png"}


def test_every_mark_of_the_benchmarks_page_has_a_section():
    from benchmarks.reading import SECTIONS

    marks = re.findall(r"<!-- benchmarks: (\w+) -->", (ROOT / "docs" / "benchmarks.md").read_text())
    assert sorted(marks) == sorted(SECTIONS)
