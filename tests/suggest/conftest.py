"""Suggestions are found inside `computing()`, as the package's public calls do."""

import pytest

from aligngp.runtime import computing


@pytest.fixture(autouse=True)
def in_double_precision():
    with computing():
        yield
