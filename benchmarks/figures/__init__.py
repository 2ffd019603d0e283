"""The paper's figures redrawn: box plots and violins from rows, what needs a fitted model from single fits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aligngp.plots.canvas import pyplot
from benchmarks import rows, studies
from benchmarks.cases import CASES
from benchmarks.compare import Scores, Variances, of_shared_seeds, scores, variances
from benchmarks.figures import boxes, fits, single

TOYS = ("noisy", "park")
REAL = ("airfoil", "disk", "supernova", "sarcos_a", "sarcos_b", "exhaust")
"""The paper's other cases."""
DPI = 110


def draw(out: Path, say: Callable[[str], None], again: bool = False) -> list[Path]:
    """Draw all figures of a file of rows into the folder figures beside it; return their files."""
    folder = out.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    found = rows.read(out)
    learned = variances(found, rows.read(rows.RESULTS / "toys.csv"))
    toys = {key: values for key, values in learned.items() if key[0] in TOYS and key[1] in single.LEARNING}
    figures = from_rows(scores(found), toys)
    kept = fits.kept(folder / "fits.json", say, again)
    figures |= {"noisy": single.noisy(kept["noisy"]), "park": single.park(kept["park"])}
    return [_saved(figure, folder / f"{name}.png") for name, figure in figures.items()]


def from_rows(found: Scores, learned: Variances) -> dict[str, Any]:
    """Return the figures of rows by their names; one whose rows are not there is left out."""
    further = [case for case in CASES if case not in (*TOYS, *REAL)]
    groups = {
        "boxes_toys": ("The toy cases", {case: case for case in TOYS}, boxes.MODELS),
        "boxes_real": ("The paper's other cases", {case: case for case in REAL}, boxes.MODELS),
        "boxes_further": ("Further cases", {case: case for case in further}, boxes.MODELS),
    }
    for study in studies.STUDIES:
        groups[f"study_{study.name}"] = (study.title, dict(study.levels), studies.MODELS)
    drawn = {}
    for name, (title, levels, models) in groups.items():
        there = {label: case for label, case in levels.items() if _there(found, case)}
        study = name.startswith("study_")
        shown = of_shared_seeds(found, tuple(there.values()), models) if study else found
        if there:
            drawn[name] = boxes.boxes(shown, there, title, models, shared=study)
    return drawn | ({"nu_g0": single.violins(learned)} if learned else {})


def _there(found: Scores, case: str) -> bool:
    return any(one == case for one, _ in found)


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    pyplot().close(figure)
    return path
