"""The cases of the accuracy benchmark, one dataset a file; each has `draw(seed)`, which returns an Instance."""

from collections.abc import Callable

from benchmarks.cases import (
    airfoil,
    airfoil_phasta,
    disk,
    exhaust,
    lossless,
    noisy,
    park,
    park_rotated,
    rotor_fea,
    sarcos_a,
    sarcos_b,
    supernova,
    unrelated,
)
from benchmarks.cases.instance import Instance

CASES: dict[str, Callable[[int], Instance]] = {
    "noisy": noisy.draw,
    "park": park.draw,
    "park_rotated": park_rotated.draw,
    "supernova": supernova.draw,
    "airfoil": airfoil.draw,
    "disk": disk.draw,
    "exhaust": exhaust.draw,
    "airfoil_phasta": airfoil_phasta.draw,
    "rotor_fea": rotor_fea.draw,
    "lossless": lossless.draw,
    "unrelated": unrelated.draw,
    "sarcos_b": sarcos_b.draw,
    "sarcos_a": sarcos_a.draw,
}
