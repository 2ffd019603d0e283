"""The paper's three studies: cases in which one thing changes. A level that is a case of its own shares its rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks.cases import CASES
from benchmarks.cases.instance import Instance
from benchmarks.models import THE_PAPERS_FOUR

MODELS = (*THE_PAPERS_FOUR, "HSVLMC-l1-KL0", "auto")
"""What is compared: the paper's four, HSVLMC in its most flexible form, and the default."""
Draw = Callable[[int], Instance]


@dataclass(frozen=True)
class Study:
    """One study: `levels` has the name of a case for every value of what changes."""

    name: str
    title: str
    levels: Mapping[str, str]
    draws: Mapping[str, Draw] = field(default_factory=dict)
    """Of the levels that are no cases of their own, by their names."""


def found(cases: Mapping[str, Callable[..., Instance]]) -> tuple[Study, ...]:
    """Return the studies of the cases that there are."""
    studies = []
    if "airfoil" in cases:
        draws = {f"airfoil_n{rows}": partial(cases["airfoil"], rows=rows) for rows in (8, 16)}
        levels = {"N1 = 4": "airfoil", **{f"N1 = {name.removeprefix('airfoil_n')}": name for name in draws}}
        studies.append(Study("training_size", "Impact of N1, the target's rows: airfoil", levels, draws))
    if "sarcos_a" in cases:
        draws = {f"sarcos_a_d{number}": partial(cases["sarcos_a"], components=number) for number in (12, 8)}
        levels = {"D2 = 16": "sarcos_a", **{f"D2 = {name.removeprefix('sarcos_a_d')}": name for name in draws}}
        studies.append(Study("dimensions", "Impact of D2, the common domain's dimensions: sarcos_a", levels, draws))
        draws = {f"sarcos_a_tau{number}": partial(cases["sarcos_a"], torque=number) for number in (1, 3)}
        levels = {"torque 1": "sarcos_a_tau1", "torque 3": "sarcos_a_tau3", "torque 4": "sarcos_a"}
        studies.append(Study("correlation", "Impact of the correlation with torque 7: sarcos_a", levels, draws))
    return tuple(studies)


STUDIES = found(CASES)
VARIED: dict[str, Draw] = {name: draw for study in STUDIES for name, draw in study.draws.items()}
"""The studies' own cases."""
