"""The examples in the package's docstrings run and say what they say."""

import doctest
import importlib
import pkgutil

import pytest

import aligngp

ELSEWHERE = {"aligngp.botorch"}
"""It needs PyTorch; its examples are a page of the documentation, which tests/test_botorch.py runs."""
EVERY = [module.name for module in pkgutil.walk_packages(aligngp.__path__, "aligngp.")]
MODULES = ["aligngp", *(name for name in EVERY if name not in ELSEWHERE)]
EXAMPLES = [
    test
    for name in MODULES
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if test.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_an_example_runs(example):
    report: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert failed == 0, "".join(report)
    assert tried == len(example.examples)


def test_the_front_door_has_an_example():
    assert "aligngp.estimator.AlignedGP" in {example.name for example in EXAMPLES}
