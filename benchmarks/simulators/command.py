"""The command that every simulator has: which files, how many rows, how many runs at once."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import rows
from benchmarks.cases.files import OK, SAMPLES
from benchmarks.simulators import table
from benchmarks.simulators.table import Row, Simulator


@dataclass(frozen=True)
class File:
    """One file of samples or of a study: its rows for a size, what computes one, and what is said of it at the end.

    `prepare` returns the simulator, once and only if there are rows to compute: what all rows need is computed there.
    `needs` says what is not installed that the file cannot do without.
    """

    design: Callable[[int], list[Row]]
    prepare: Callable[[], Simulator]
    outputs: Sequence[str]
    size: int
    summary: Callable[[Sequence[Row]], str] | None = None
    needs: str = ""


def run(name: str, description: str | None, files: Mapping[str, File], arguments: list[str] | None) -> int:
    """Fill the files that are asked for, NAME_FILE.csv; 0 if every row came out well, 1 if not.

    Without a name all files are filled but for those that need what is not installed; one of those by name is an error.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.simulators.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="FILE", help=f"of {', '.join(files)} (default: all)")
    parser.add_argument("--rows", nargs="*", default=[], metavar="FILE=N", help="sizes other than the committed ones")
    parser.add_argument("--jobs", type=int, help="runs at once (default 1, or what joblib.parallel_config says)")
    parser.add_argument("--again", action="store_true", help="compute rows anew that failed")
    parser.add_argument("--out", type=Path, default=SAMPLES, help="folder of the files (the cases' data)")
    options = parser.parse_args(arguments)
    sizes = {key: file.size for key, file in files.items()}
    for entry in options.rows:
        key, _, number = entry.partition("=")
        if key not in files or not number.isdigit() or int(number) < 1:
            parser.error(f"--rows: expected FILE=N with FILE of {', '.join(files)} and N at least 1, came {entry}")
        sizes[key] = int(number)
    for key in options.what:
        if key not in files:
            parser.error(f"expected files of {', '.join(files)}, came {key}")
    chosen = options.what or [key for key in files if not files[key].needs]
    for key in options.what or ([] if chosen else files):
        if files[key].needs:
            parser.error(f"{key}: {files[key].needs}")
    for key in files:
        if files[key].needs and not options.what:
            print(f"{name}_{key}.csv is left out: {files[key].needs}")
    options.out.mkdir(parents=True, exist_ok=True)
    bad = 0
    for key in chosen:
        file, path = files[key], options.out / f"{name}_{key}.csv"
        wanted = file.design(sizes[key])
        table.fill(path, wanted, file.prepare, file.outputs, options.jobs, options.again, report=print)
        found = rows.read(path)
        failed = sum(row["status"] != OK for row in found)
        print(f"{path.name}: {len(found)} rows, {failed} of them not well")
        if file.summary:
            print(file.summary(found))
        bad += failed
    return 1 if bad else 0
