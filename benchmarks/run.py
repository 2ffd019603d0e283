"""All benchmarks: ``python -m benchmarks.run`` (several hours), ``--short`` (a few minutes, into build/benchmarks).

Each benchmark is a module of its own with a command of its own; this one calls them after one another. The long form
writes benchmarks/results and goes on where it stopped.
"""

import argparse
import subprocess
import sys
from pathlib import Path

LONG = (
    ("aligngp.cli", "benchmark", "--resume"),
    ("benchmarks.toys", "--protocols", "train", "paper"),
    ("benchmarks.step_time",),
    ("benchmarks.speed",),
    ("benchmarks.growth",),
    ("benchmarks.cold_start",),
    ("benchmarks.deadlock",),
)


def short(folder: Path) -> tuple[tuple[str, ...], ...]:
    """Return the short form: one seed, one round, rows apart from the committed ones."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = ("--cases", "noisy", "--models", "paper", "--models", "auto", "--repeats", "1", "--resume")
    return (
        ("aligngp.cli", "benchmark", "rows", *cases, "--out", str(folder / "accuracy.csv")),
        ("benchmarks.toys", "--repeats", "1", "--out", str(folder / "toys.csv")),
        ("benchmarks.step_time", "--rounds", "1", "--scale", "0.3", "--out", str(folder / "step_time.csv")),
        ("benchmarks.speed", "--short", "--out", str(folder / "speed.csv")),
        ("benchmarks.growth", "--short", "--out", str(folder / "growth.csv")),
        ("benchmarks.cold_start", "--rounds", "1", "--out", str(folder / "cold_start.csv")),
    )


def main() -> int:
    """Run the benchmarks; the first that fails ends the run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    for module, *options in short(Path("build/benchmarks")) if arguments.short else LONG:
        print(f"== python -m {module} {' '.join(options)}", flush=True)
        code = subprocess.run([sys.executable, "-m", module, *options], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
