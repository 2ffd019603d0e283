"""A long training completes on two cores, whatever the version of jaxlib."""

import os

import pytest

# 5000 iterations take about a minute; fewer on a slow machine: ALIGNGP_STRESS_ITERATIONS=1000 make test
ITERATIONS = int(os.environ.get("ALIGNGP_STRESS_ITERATIONS", "5000"))
LIMIT = 500.0


@pytest.mark.jaxlib
def test_a_long_training_completes_on_two_cores():
    from benchmarks.deadlock import measure

    row = measure(ITERATIONS, LIMIT)
    assert row["finished"], (
        f"{ITERATIONS} iterations of HSVLMC did not end within {LIMIT:g} s on {row['cores']} cores with jaxlib "
        f"{row['jaxlib']}: a deadlock in LAPACK calls (see 'No batched LAPACK' in CONTRIBUTING.md), or a slow machine "
        "(set ALIGNGP_STRESS_ITERATIONS lower)."
    )
