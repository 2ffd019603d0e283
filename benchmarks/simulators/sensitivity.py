"""Sobol indices by SALib: which inputs a simulator's output depends on."""

from collections.abc import Sequence

import numpy as np

from benchmarks.cases.files import OK
from benchmarks.simulators.table import Row, SimulationError, as_rows


def problem(names: Sequence[str], lower: np.ndarray, upper: np.ndarray) -> dict:
    """Return inputs and their bounds as SALib wants them."""
    return {"num_vars": len(names), "names": list(names), "bounds": np.column_stack([lower, upper]).tolist()}


def sobol_design(names: Sequence[str], lower: np.ndarray, upper: np.ndarray, base: int, seed: int) -> list[Row]:
    """Return Saltelli's rows: base (D + 2) of them."""
    from SALib.sample import sobol

    return as_rows(names, sobol.sample(problem(names, lower, upper), base, calc_second_order=False, seed=seed))


def sobol_indices(
    names: Sequence[str], lower: np.ndarray, upper: np.ndarray, outcomes: Sequence[Row], output: str
) -> list[tuple[str, float, float, float]]:
    """Return (input, first-order index, total index, its 95 % half width) from the computed rows, the largest first."""
    from SALib.analyze import sobol

    bad = [row["row"] for row in outcomes if row["status"] != OK]
    if bad:
        raise SimulationError(f"Sobol indices need every row of their design; not well came out: {bad}")
    values = np.array([float(row[output]) for row in outcomes])
    found = sobol.analyze(problem(names, lower, upper), values, calc_second_order=False, seed=0)
    order = np.argsort(found["ST"])[::-1]
    return [(names[i], float(found["S1"][i]), float(found["ST"][i]), float(found["ST_conf"][i])) for i in order]


def listing(indices: Sequence[tuple[str, float, float, float]]) -> str:
    """Return the indices as lines of text."""
    return "\n".join(
        f"{name:10s} first {first:7.4f}  total {total:7.4f} +- {half:.4f}" for name, first, total, half in indices
    )
