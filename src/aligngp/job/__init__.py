"""Jobs: which files hold the tasks, what is known of them, and with which settings they are fitted (``job.toml``).

``job_schema.json`` beside this file describes the same to editors.
"""

from __future__ import annotations

from pathlib import Path

from aligngp.job.contents import Job, Source
from aligngp.job.read import read_job
from aligngp.job.write import as_used

SCHEMA = Path(__file__).with_name("job_schema.json")
"""The JSON schema of job files."""

__all__ = ["SCHEMA", "Job", "Source", "as_used", "read_job"]
