"""The ensemble runs inside `computing()`, as the package's public calls do."""

import pytest

from aligngp.runtime import computing


@pytest.fixture(autouse=True)
def _computing():
    with computing():
        yield
