"""The models of the accuracy benchmark: their names, and what each is told about an instance.

The paper's models are configured as its appendix says (5000 Adam iterations). HSVLMC comes with three weights on
KL[q(X-bar) || p(X-bar)]: 1 (the paper's bound), 1/(N D) of the mapped task (`KL/ND`) and 0 (`KL0`). The appendix starts
lengthscales at 0.1, short for a mapping of standardised inputs: `l1` starts the mapping's at 1, all else equal.
"""

from collections.abc import Callable
from typing import Any

import aligngp as agp
from aligngp.errors import SettingError
from aligngp.findings import alignment
from benchmarks.cases.instance import Instance

Settings = Callable[[Instance], dict[str, Any]]

PAPER = {
    "SOGP": agp.paper.sogp,
    "HSVLMC-g0": agp.paper.hsvlmc_g0,
    "HSVLMC-EM": agp.paper.hsvlmc_em,
    "HSVLMC": agp.paper.hsvlmc,
    "HSVLMC-free": agp.paper.hsvlmc_free,
    "IMC": agp.paper.imc,
}
THE_PAPERS_FOUR = ("SOGP", "HSVLMC-g0", "HSVLMC-EM", "HSVLMC")


def share(instance: Instance) -> dict[str, Any]:
    """Return the weight 1/(N D): N rows of the mapped tasks, D columns of the common domain."""
    rows = sum(len(instance.tasks[task][1]) for task in instance.mappings)
    return {"mapping_kl_weight": 1.0 / (rows * len(instance.names[instance.common]))}


def nothing(instance: Instance) -> dict[str, Any]:
    """Return the weight 0: the bound of a two-layer deep GP."""
    return {"mapping_kl_weight": 0.0}


def long(weight: Settings | None) -> Settings:
    """Return a weight's settings with the mapping's lengthscale from 1."""
    return lambda instance: {"initial_mapping_lengthscale": 1.0, **(weight(instance) if weight else {})}


WEIGHTED: dict[str, Settings] = {
    "HSVLMC-KL/ND": share,
    "HSVLMC-KL0": nothing,
    "HSVLMC-l1": long(None),
    "HSVLMC-l1-KL/ND": long(share),
    "HSVLMC-l1-KL0": long(nothing),
}
"""HSVLMC with something else than the paper's weight and lengthscale."""
VARIANTS: dict[str, tuple[str, Settings]] = {
    **{name: ("HSVLMC", settings) for name, settings in WEIGHTED.items()},
    "HSVLMC-EM-l1": ("HSVLMC-EM", long(None)),
}
"""A model of the paper with settings that differ."""
OURS = ("auto", "auto, no mapping", "exact GP")
"""agp.AlignedGP with its defaults: with the case's prior mapping, with agp.Learned(), on the target task alone."""
BOTORCH = {"BoTorch heterogeneous": "heterogeneous", "BoTorch imputation": "imputation"}
MODELS = (*PAPER, *VARIANTS, *BOTORCH, *OURS)
ALONE = ("SOGP", "exact GP")
"""Models of one task: each target has a fit of its own."""


def applies(instance: Instance, model: str) -> bool:
    """Whether a model can be asked: BoTorch's align tasks by equal column names."""
    return model not in BOTORCH or all(instance.shared_columns(target) for target in instance.targets)


def nu_g0(gp: agp.AlignedGP, task: str) -> float | None:
    """Return the prior variance of the aligned inputs of a task, None of a model that has none."""
    try:
        return alignment.nu_g0(gp, task)
    except SettingError:
        return None
