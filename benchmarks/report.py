"""All tables of the benchmark's rows: Markdown with paired tests, and LaTeX."""

from pathlib import Path

from aligngp.data.atomic import write_text
from benchmarks import accuracy_table, overview, rows


def tables(out: Path) -> list[Path]:
    """Write the tables of a file of rows beside it; return their files."""
    found = rows.read(out)
    markdown, latex = out.with_suffix(".md"), out.with_suffix(".tex")
    write_text(markdown, accuracy_table.tables(found))
    write_text(latex, overview.latex(found))
    return [markdown, latex]
