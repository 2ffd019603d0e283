"""The complete table of the accuracy benchmark, cases by models, in Markdown and in LaTeX."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks import rows
from benchmarks.cases import CASES
from benchmarks.cases.published import PUBLISHED
from benchmarks.compare import Rows, Scores, Seeds, scores, values
from benchmarks.models import THE_PAPERS_FOUR

MODELS = (*THE_PAPERS_FOUR, "auto", "HSVLMC-free", "IMC", "BoTorch heterogeneous", "BoTorch imputation",
          "auto, no mapping", "exact GP")  # fmt: skip
TITLES = {"smse": "SMSE", "smll": "SMLL"}
LATEX_HEAD = r"""% Made by: aligngp benchmark tables. Mean and standard deviation over the seeds; lowest mean bold.
% Grey lines are the paper's numbers, of instances that are not ours. In brackets: seeds that lack. Needs xcolor.
"""


def cases(found: Scores) -> list[str]:
    """Return the cases that have rows, in their order."""
    return [case for case in CASES if any(case == one for one, _ in found)]


def markdown(found: Rows, models: Sequence[str] = MODELS) -> str:
    """Return a table for each score: a case a line, below it the paper's numbers where it has some."""
    return "\n".join(
        f"{TITLES[key]}, mean ± standard deviation, the lowest mean bold:\n\n"
        + rows.markdown(("case", *models), _lines(scores(found), models, key, _in_markdown))
        for key in TITLES
    )


def latex(found: Rows, models: Sequence[str] = MODELS) -> str:
    """Return the same as a tabular for each score."""
    parts = [LATEX_HEAD]
    for key, title in TITLES.items():
        body = _lines(scores(found), models, key, _in_latex)
        heading = " & ".join((title, *(rf"\texttt{{{_escaped(model)}}}" for model in models)))
        lines = [f"{' & '.join((_escaped(line[0]), *line[1:]))} \\\\" for line in body]
        table = [rf"\begin{{tabular}}{{l{'r' * len(models)}}}", r"\hline", f"{heading} \\\\", r"\hline", *lines]
        parts.append("\n".join([*table, r"\hline", r"\end{tabular}", ""]))
    return "\n".join(parts)


Cell = Callable[[float, float, int, str, bool, str], str]
"""Mean, deviation, seeds that lack, score, whether it is the lowest, whose number it is: as text."""


def _lines(found: Scores, models: Sequence[str], key: str, cell: Cell) -> list[list[str]]:
    lines = []
    for case in cases(found):
        there = {model: found[case, model] for model in models if (case, model) in found}
        most = max((len(seeds) for seeds in there.values()), default=0)
        means = {model: values(seeds, key).mean() for model, seeds in there.items()}
        best = min(means, key=lambda model: means[model], default="")
        cells = [_ours(there.get(model), most, key, model == best, cell) for model in models]
        lines.append([case, *cells])
        at = 0 if key == "smse" else 2
        published = [PUBLISHED.get((case, model)) for model in models]
        if any(published):
            said = [cell(*numbers[at : at + 2], 0, key, False, "paper") if numbers else "" for numbers in published]
            lines.append(["paper", *said])
    return lines


def _ours(seeds: Seeds | None, most: int, key: str, best: bool, cell: Cell) -> str:
    if seeds is None:
        return ""
    found = values(seeds, key)
    return cell(float(np.mean(found)), float(np.std(found)), most - len(found), key, best, "ours")


def _digits(key: str) -> int:
    return 3 if key == "smse" else 2


def _in_markdown(mean: float, deviation: float, lacking: int, key: str, best: bool, whose: str) -> str:
    text = f"{mean:.{_digits(key)}f} ± {deviation:.{_digits(key)}f}"
    text = f"*{text}*" if whose == "paper" else f"**{text}**" if best else text
    return text + (f" ({lacking} seeds fewer)" if lacking else "")


def _in_latex(mean: float, deviation: float, lacking: int, key: str, best: bool, whose: str) -> str:
    digits = _digits(key)
    number = rf"\mathbf{{{mean:.{digits}f}}}" if best else f"{mean:.{digits}f}"
    text = rf"${number}_{{\pm {deviation:.{digits}f}}}" + (rf"^{{({-lacking})}}$" if lacking else "$")
    return rf"{{\color{{gray}}{text}}}" if whose == "paper" else text


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")
