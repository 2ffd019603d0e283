"""A fit that several processes or several devices do together, run by test_devices.py: prints its numbers as JSON."""

import json
import sys

import aligngp as agp
from aligngp.data.processes import start
from streams import table


def main(folder: str, processes: int, process: int, port: int, devices: str) -> None:
    """Fit, and print the predictions, the bounds and what this process read."""
    if processes > 1:
        start(f"127.0.0.1:{port}", processes, process)
    import jax

    from aligngp.data.parquet import Dataset

    read, seen = Dataset.read, set()

    def counted(self, group):
        seen.add(int(group))
        return read(self, group)

    Dataset.read = counted
    tasks = {
        "fine": table(40, seed=2, dimensions=3),
        "coarse": agp.Parquet(f"{folder}/coarse.parquet", stream=True, shards=2),
    }
    gp = agp.AlignedGP(
        "coarse", calibration="none", residual=True, inference="svi", num_inducing=8, max_iterations=100,
        batch_size={"coarse": 64, "fine": 20}, patience=1000, progress=False,
    )  # fmt: skip
    gp.fit(tasks, output="zeta", devices=devices or None)
    new = table(50, seed=7).select(["x1", "x2"])
    found = gp.predict("coarse", new)
    said = {
        "mean": found.mean.tolist(),
        "variance": found.variance.tolist(),
        "objective": gp.history.objective.tolist(),
        "devices": jax.device_count(),
        "processes": jax.process_count(),
        "groups": sorted(seen),
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5])
