"""Files as strangers may write them: valid ones with some of their contents changed."""

import json
from typing import Any

import numpy as np
from hypothesis import strategies as st

from aligngp.data import sealed

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        [
            [],
            {},
            [[[]]],
            {"tensor": "nothing"},
            {"tensor": 3},
            {"tuple": [1]},
            {"tuple": 5},
            {"class": "Model", "fields": {}},
            {"class": "Nominal", "fields": {}},
            {"class": "os.system", "fields": {"command": "true"}},
            {"class": "SquaredExponential", "fields": {"lengthscale": 1.0, "variance": -1.0}},
            {"foreign": "Kernel", "leaves": []},
        ]
    ),
)


def places(node: Any, way: tuple = ()) -> list[tuple]:
    """The ways to all values inside of a description."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [way, *(place for key, value in inside for place in places(value, (*way, key)))]


def changed(node: Any, way: tuple, value: Any) -> Any:
    """A description with another value there; a value that is ``places`` is left out."""
    if not way:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    if len(way) == 1 and value is places:
        del copy[way[0]]
    else:
        copy[way[0]] = changed(node[way[0]], way[1:], value)
    return copy


def other(value: np.ndarray, way: int) -> np.ndarray:
    """What may come in an array's place, one of WAYS."""
    flat = value.ravel()
    found = (
        lambda: flat[:1],
        lambda: np.zeros(0),
        lambda: np.full(value.shape, np.nan),
        lambda: np.zeros((*value.shape, 2)),
        lambda: value.astype(np.int8),
        lambda: value.astype(np.float16),
        lambda: np.concatenate([flat, flat]),
        lambda: -np.abs(value) - 1.0,
    )
    with np.errstate(all="ignore"):
        return found[way]()


WAYS = 8


def descriptions(description: dict, tensors: dict[str, np.ndarray]) -> st.SearchStrategy[bytes]:
    """Model files whose checksum is right, with one or two changes to description or arrays."""

    @st.composite
    def made(draw) -> bytes:
        said, arrays = json.loads(json.dumps(description)), dict(tensors)
        for _ in range(draw(st.integers(1, 2))):
            if draw(st.booleans()):
                ways = places(said)[1:]
                way = ways[draw(st.integers(0, len(ways) - 1))]
                said = changed(said, way, draw(st.one_of(VALUES, st.just(places))))
            else:
                name = sorted(arrays)[draw(st.integers(0, len(arrays) - 1))]
                arrays[name] = other(arrays[name], draw(st.integers(0, WAYS - 1)))
        return sealed.seal(json.dumps(said), {name: np.array(one, order="C") for name, one in arrays.items()})

    return made()


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """Files with some bytes changed, cut out, put in twice, or the end lost."""

    @st.composite
    def made(draw) -> bytes:
        return _damaged(draw, content)

    return made()


def _damaged(draw, content: bytes) -> bytes:
    result = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(result) - 1)))
        size = draw(st.integers(1, 64))
        way = draw(st.sampled_from(["change", "cut", "twice", "end", "insert"]))
        if way == "change":
            result[at : at + size] = draw(st.binary(min_size=size, max_size=size))
        elif way == "cut":
            del result[at : at + size]
        elif way == "twice":
            result[at:at] = result[at : at + size]
        elif way == "insert":
            result[at:at] = draw(st.binary(max_size=size))
        else:
            del result[at:]
    return bytes(result)
