"""A process that measures rows: on each line of standard input what, as JSON; on standard output the row, as JSON.

    {"case": "park", "model": "HSVLMC", "seed": 0, "iterations": null}

What libraries print goes to standard error. The process ends with its standard input, so also where its parent is
killed.
"""

import json
import os
import sys
import warnings

from aligngp.errors import AligngpWarning
from benchmarks import accuracy


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore", AligngpWarning)  # few rows, far rows: what the cases are about
    peer = accuracy.Worker()
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps(accuracy.measure(peer, **asked)), file=answers, flush=True)
    finally:
        peer.close()


if __name__ == "__main__":
    main()
