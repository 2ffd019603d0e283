"""An environment of its own for each peer: `python benchmarks/peers/environment.py gpflow`.

Peers pin versions that the package itself must not be held to (GPflow needs NumPy 1), so each lives in
`.benchmark-envs/<peer>`, made from `requirements-<peer>.txt` with the standard library alone.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parents[1] / ".benchmark-envs"
MARK = "requirements.sha256"


def peers() -> list[str]:
    """Names that have a requirements file here."""
    return sorted(path.stem.removeprefix("requirements-") for path in HERE.glob("requirements-*.txt"))


def requirements_of(peer: str) -> Path:
    """The file that pins everything the peer needs; a name without one is an error that lists the names."""
    path = HERE / f"requirements-{peer}.txt"
    if not path.is_file():
        raise ValueError(f"There is no peer {peer!r}; peers with a requirements file: {', '.join(peers())}.")
    return path


def python_of(peer: str) -> Path:
    """Where the peer's interpreter stands once `ensure` has run."""
    requirements_of(peer)
    return ENVIRONMENTS / peer / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def fingerprint(peer: str) -> str:
    """What an environment was made from: the requirements and the interpreter's version."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}\n".encode()
    return hashlib.sha256(version + requirements_of(peer).read_bytes()).hexdigest()


def is_current(peer: str) -> bool:
    """Whether the environment exists and was made from the requirements as they are now."""
    mark = ENVIRONMENTS / peer / MARK
    return python_of(peer).exists() and mark.is_file() and mark.read_text().strip() == fingerprint(peer)


def ensure(peer: str) -> Path:
    """Make the environment unless it is current; returns its interpreter."""
    python = python_of(peer)
    if is_current(peer):
        return python
    home = ENVIRONMENTS / peer
    if home.exists():
        shutil.rmtree(home)  # what is left of other pins would stay importable
    venv.create(home, with_pip=True)
    # --no-deps: the file is complete, and pip must not add what it leaves out on purpose
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # pip may print; the only line on our standard output is the interpreter's path
    subprocess.run([*install, "--requirement", str(requirements_of(peer))], check=True, stdout=sys.stderr)
    (home / MARK).write_text(fingerprint(peer) + "\n")  # written last: a broken install is made again
    return python


def main() -> int:
    """Read the peer's name, make its environment, print its interpreter."""
    parser = argparse.ArgumentParser(description="Make a peer's environment and print its interpreter.")
    parser.add_argument("peer", choices=peers())
    try:
        print(ensure(parser.parse_args().peer))
    except subprocess.CalledProcessError as error:
        print(f"pip could not install the pinned requirements (exit code {error.returncode}).", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
