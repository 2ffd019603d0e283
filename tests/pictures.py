"""Fitted models for the tests of figures, findings and the report: quick ones, each fitted once."""

from functools import cache

import aligngp as agp


@cache
def park() -> agp.AlignedGP:
    """The default model of Park's case; nobody may fit it again."""
    case = agp.datasets.park(num_low=20, num_test=30)
    tasks = {name: agp.Task(*case.tasks[name], names=case.names[name]) for name in case.tasks}
    return agp.AlignedGP(case.common, mappings=case.mappings, progress=False).fit(tasks)


@cache
def noisy() -> agp.AlignedGP:
    """The default model of the noisy case, whose common domain has one input."""
    case = agp.datasets.noisy(num_source=25)
    return agp.AlignedGP(case.common, mappings=case.mappings, progress=False).fit(case.tasks)


def from_file(gp: agp.AlignedGP, folder) -> agp.AlignedGP:
    """The same model without its training rows."""
    gp.save(folder / "model.agp")
    return agp.load(folder / "model.agp")
