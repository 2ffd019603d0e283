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


def arrays(value: np.ndarray):
    """What may come in an array's place."""
    return st.sampled_from(
        [
            value.ravel()[:1],
            np.zeros(0),
            np.full(value.shape, np.nan),
            np.zeros((*value.shape, 2)),
            value.astype(np.int8),
            value.astype(np.float16),
            np.concatenate([value, value]) if value.ndim else np.zeros(3),
            -np.abs(value) - 1.0,
        ]
    )


@st.composite
def descriptions(draw, description: dict, tensors: dict[str, np.ndarray]) -> bytes:
    """A model file whose checksum is right, with one or two changes to its description or arrays."""
    description, tensors = json.loads(json.dumps(description)), dict(tensors)
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            way = draw(st.sampled_from(places(description)[1:]))
            description = changed(description, way, draw(st.one_of(VALUES, st.just(places))))
        else:
            name = draw(st.sampled_from(sorted(tensors)))
            tensors[name] = draw(arrays(tensors[name]))
    return sealed.seal(json.dumps(description), {name: np.array(one, order="C") for name, one in tensors.items()})


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """A file with some bytes changed, cut out, put in twice, or its end lost."""
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
