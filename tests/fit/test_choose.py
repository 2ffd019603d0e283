"""Which inference is chosen, said in one line, and refused where it cannot be had."""

import logging
from dataclasses import replace

import pytest

import aligngp as agp
from aligngp.fit.choose import EXACT_ROWS, MOST_EXACT_ROWS, Problem, choose
from aligngp.settings import Settings

SMALL = Problem(rows=(6, 100), uncertain=(), inducing=(30, 30), latents=2, closed=True)
CALIBRATED = replace(SMALL, uncertain=(6,))
LARGE = replace(SMALL, rows=(20, 23_000), inducing=(100, 100))


@pytest.mark.parametrize(
    "settings, problem, expected, reason",
    [
        ({}, SMALL, "exact", "106 rows, known aligned inputs"),
        ({"num_inducing": 30}, SMALL, "collapsed", "106 rows and 60 inducing"),
        ({}, replace(SMALL, rows=(6, EXACT_ROWS)), "collapsed", "506 rows"),
        ({}, CALIBRATED, "collapsed", "106 rows"),
        ({"expectation": "sampled"}, CALIBRATED, "svi", "sampled"),
        ({"kernel": "matern32"}, replace(CALIBRATED, closed=False), "svi", "sampled"),
        ({}, replace(CALIBRATED, uncertain=(5000,)), "svi", "psi statistics"),
        ({}, LARGE, "svi", "23020 rows"),
        ({"batch_size": 10}, SMALL, "svi", "batch_size is given"),
    ],
)
def test_auto(settings, problem, expected, reason, caplog):
    with caplog.at_level(logging.INFO, logger="aligngp"):
        assert choose(Settings(**settings), problem, "training") == expected
    (record,) = caplog.records
    assert record.message.startswith(f"training: inference {expected} (")
    assert reason in record.message


@pytest.mark.parametrize("asked", ["exact", "collapsed", "svi", "adam"])
def test_what_is_asked_for_is_done(asked, caplog):
    with caplog.at_level(logging.INFO, logger="aligngp"):
        assert choose(Settings(inference=asked), SMALL, "training") == asked
    assert caplog.records == []


@pytest.mark.parametrize(
    "settings, problem, message",
    [
        ({"inference": "exact"}, CALIBRATED, "needs aligned inputs that are known.*calibration='none'"),
        (
            {"inference": "exact"},
            replace(SMALL, rows=(1, MOST_EXACT_ROWS)),
            f"at most {MOST_EXACT_ROWS} rows.*got {MOST_EXACT_ROWS + 1}.*'collapsed' or 'svi'",
        ),
        ({"inference": "collapsed", "kernel": "matern32"}, replace(CALIBRATED, closed=False), "kernel='matern32'"),
        ({"inference": "collapsed", "expectation": "sampled"}, CALIBRATED, "expectation='sampled'.*inference='svi'"),
        ({"inference": "exact", "batch_size": 5}, SMALL, "batch_size=5.*Leave it out"),
        ({"inference": "collapsed", "batch_size": 5}, SMALL, "batch_size=5"),
        ({"inference": "adam", "hyperparameters": "map"}, SMALL, "hyperparameters='map'"),
    ],
)
def test_what_cannot_be_had_is_refused(settings, problem, message):
    with pytest.raises(agp.SettingError, match=message):
        choose(Settings(**settings), problem, "training")
