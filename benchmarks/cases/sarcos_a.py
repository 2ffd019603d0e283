"""sarcos_a: 20 rows of torque 4 on 21 inputs beside all 22892 rows of torque 7 on 16 principal components.

The paper has 44484 rows of torque 7: the whole training file, in which every test row is contained (see sarcos.py).
"""

import numpy as np

from benchmarks.cases import sarcos
from benchmarks.cases.instance import Instance, streams

TARGET_ROWS = 20


def draw(seed: int, components: int = sarcos.COMPONENTS, torque: int = 4) -> Instance:
    """Return the instance of a seed: N1=20, N2=22892, 4449 test rows; studies vary the components and the torque."""
    total = len(sarcos.arm().index)
    (stream,) = streams(seed, 1)
    rows = stream.choice(total, TARGET_ROWS, replace=False), np.arange(total)
    description = (
        f"Robot arm: 20 rows of torque {torque} on 21 inputs, 22892 of torque 7 on {components} principal components."
    )
    return sarcos.instance("sarcos_a", (f"tau{torque}",), rows, description, components, torque)
