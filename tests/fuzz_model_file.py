"""Coverage-guided fuzzing of the model file's reader, by hand: ``python tests/fuzz_model_file.py MODEL.agp [CORPUS]``.

Needs atheris, which is no dependency (``pip install atheris``). The bytes say what is changed in the description of the
model, which is then sealed with a right checksum, so that what stands behind it is reached; what is found becomes a
test in test_untrusted.py. Options of libFuzzer work, such as ``-max_total_time=60``.
"""

import json
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["aligngp.storage", "aligngp.archive", "aligngp.data.sealed"]):
    import aligngp as agp
    from aligngp import storage
    from aligngp.data import sealed

from strangers import changed, places

MODEL = Path(sys.argv.pop(1))
DESCRIPTION, TENSORS = storage.read(MODEL)
PLACE = Path(tempfile.mkdtemp()) / "model.agp"


WAYS = places(DESCRIPTION)[1:]


def value(data: atheris.FuzzedDataProvider):
    """Something that JSON can hold, or another part of the description."""
    kind = data.ConsumeIntInRange(0, 7)
    if kind == 0:
        return data.ConsumeInt(8)
    if kind == 1:
        return data.ConsumeRegularFloat()
    if kind == 2:
        return data.ConsumeUnicodeNoSurrogates(20)
    if kind == 3:
        return {"class": data.PickValueInList(sorted(storage._CLASSES)), "fields": {}}
    if kind == 4:
        return {"tensor": data.PickValueInList(sorted(TENSORS))}
    if kind == 5:
        return data.PickValueInList([None, True, [], {}, {"tuple": []}, places])
    node = DESCRIPTION
    for key in data.PickValueInList(WAYS):
        node = node[key]
    return node


def one(content: bytes) -> None:
    """Read one file; anything but our own error is a find."""
    data = atheris.FuzzedDataProvider(content)
    said = json.loads(json.dumps(DESCRIPTION))
    for _ in range(data.ConsumeIntInRange(1, 3)):
        ways = places(said)[1:]
        said = changed(said, ways[data.ConsumeIntInRange(0, len(ways) - 1)], value(data))
    for file in (sealed.seal(json.dumps(said), TENSORS), content):
        PLACE.write_bytes(file)
        try:
            agp.load(PLACE)
        except agp.ModelFileError:
            pass


atheris.Setup(sys.argv, one)
atheris.Fuzz()
