"""Compiled functions kept on disk, so that a second process need not compile them again.

JAX's own persistent compilation cache, in a folder of ours and switched on inside our own calls alone. A folder that
the caller has given to JAX is used instead, with the caller's settings. ``ALIGNGP_CACHE=off`` switches it off,
``ALIGNGP_CACHE_DIR`` names another folder.
"""

import hashlib
import os
import platform
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path

import jax
import jaxlib.utils
from jax.experimental.compilation_cache import compilation_cache

_OURS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,  # a fit makes many small functions, and they add up
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
_MOST_BYTES = 2**29
"""When a process finds more than this in the folder, it removes what is oldest until half of it is left."""


def folder(environment: Mapping[str, str]) -> Path | None:
    """Return where compiled functions are kept, None where they are not."""
    if environment.get("ALIGNGP_CACHE", "").strip().lower() in {"off", "0", "false", "no"}:
        return None
    if environment.get("ALIGNGP_CACHE_DIR"):
        root = Path(environment["ALIGNGP_CACHE_DIR"])
    elif sys.platform == "win32":
        root = Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "aligngp" / "cache"
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches" / "aligngp"
    else:
        root = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aligngp"
    return root / f"jax-{jax.__version__}-{_processor()}"


def _processor() -> str:
    """Return a short name of what code may be compiled for: a home folder can be shared by unlike machines."""
    flags = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(f"{platform.machine()} {platform.processor()} {flags}".encode()).hexdigest()[:12]


def _usable(place: Path | None) -> Path | None:
    """Return the folder, made and pruned, or None where nothing can be written."""
    if place is None:
        return None
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
        _prune(place)
    except OSError:
        return None
    return place


def _prune(place: Path) -> None:
    files = [(file.stat().st_mtime, file.stat().st_size, file) for file in place.iterdir() if file.is_file()]
    total = sum(size for _, size, _ in files)
    if total <= _MOST_BYTES:
        return
    for _, size, file in sorted(files):
        file.unlink(missing_ok=True)
        total -= size
        if total <= _MOST_BYTES // 2:
            return


class Cache:
    """On while anyone is inside.

    JAX's settings belong to the process: the first to enter makes them, the last to leave restores them, in whichever
    Python threads they are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._asked: tuple[str | None, ...] | None = None
        self._place: Path | None = None
        self._before: dict[str, object] = {}
        self._quiet = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._open()
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._before:
                for name, value in self._before.items():
                    jax.config.update(name, value)
                self._before = {}
                compilation_cache.reset_cache()  # else what the caller compiles would go to our folder too
                self._quiet.__exit__(None, None, None)
                _say(int(os.environ.get("TF_CPP_MIN_LOG_LEVEL") or 1))

    def _open(self) -> None:
        theirs = getattr(jax.config, "jax_compilation_cache_dir") is not None  # noqa: B009  (unknown to type checkers)
        if theirs or not getattr(jax.config, "jax_enable_compilation_cache"):  # noqa: B009
            return  # the caller has decided
        asked = tuple(os.environ.get(name) for name in ("ALIGNGP_CACHE", "ALIGNGP_CACHE_DIR", "XDG_CACHE_HOME"))
        if asked != self._asked:
            self._asked, self._place = asked, _usable(folder(os.environ))
        if self._place is None:
            return
        self._before = {name: getattr(jax.config, name) for name in ("jax_compilation_cache_dir", *_OURS)}
        for name, value in {"jax_compilation_cache_dir": str(self._place), **_OURS}.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        # Another process may be writing what is read here, and the disk may be full: then it is compiled as ever.
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
        _say(3)


def _say(level: int) -> None:
    """Set the lowest level of what jaxlib's C++ code prints: 0 all, 1 warnings, 2 errors, 3 what is fatal.

    It calls two preferences in code generation "features" that the machine lacks, an error for each function loaded.
    """
    set_level = getattr(jaxlib.utils, "absl_set_min_log_level", None)
    if set_level is not None:
        set_level(level)
