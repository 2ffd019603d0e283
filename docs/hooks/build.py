"""What MkDocs calls: tutorials from examples/, pages with code that is run, results, mathematics.

A page runs its code if its front matter says ``run: true``; a tutorial always does.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

HOOKS = Path(__file__).parent
sys.path.insert(0, str(HOOKS))

import execute  # noqa: E402
import mathematics  # noqa: E402
import measured  # noqa: E402
import scripts  # noqa: E402

ROOT = HOOKS.parents[1]
TUTORIALS = "tutorials/"
RESULTS = "<!-- benchmarks/results -->"
SECTION = re.compile(r"<!-- benchmarks: (\w+) -->")
"""What benchmarks/reading.py says of the rows."""
FETCHED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")


def on_files(files: Any, config: Any) -> Any:
    """Add a page for every script of examples/."""
    for script in sorted((ROOT / "examples").glob("*.py")):
        content = scripts.to_markdown(script.read_text(encoding="utf-8"))
        page = f"{TUTORIALS}{script.stem.replace('_', '-')}.md"
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Run a page's code, or put the measured results in."""
    source = page.file.src_uri
    tutorial = source.startswith(TUTORIALS)
    figures: dict[str, bytes] = {}
    if tutorial or page.meta.get("run"):
        stem = Path(source).stem
        file = ROOT / "examples" / f"{stem.replace('-', '_')}.py" if tutorial else ROOT / "docs" / source
        try:
            done = execute.execute(markdown, source, stem, file)
        except execute.ExampleError as error:
            raise PluginError(str(error)) from error
        markdown, figures = done.markdown, done.figures
    elif RESULTS in markdown:
        found = measured.collect(ROOT / "benchmarks" / "results")
        markdown = markdown.replace(RESULTS, found.markdown)
        figures = {name: path.read_bytes() for name, path in found.figures.items()}
    elif SECTION.search(markdown):
        found = measured.read(markdown, SECTION, ROOT)
        markdown = found.markdown
        figures = {name: path.read_bytes() for name, path in found.figures.items()}
    for name, content in figures.items():
        files.append(File.generated(config, str(Path(source).with_name(name).as_posix()), content=content))
    return markdown


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Turn TeX into MathML."""
    return mathematics.with_mathml(html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Refuse a page that would fetch something from another host."""
    found = FETCHED.search(output)
    if found is not None:
        raise PluginError(f"{page.file.src_uri}: it fetches from another host: {found[0]}")
    return output
