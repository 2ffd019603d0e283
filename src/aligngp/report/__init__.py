"""The report: a fitted model as one self-contained HTML page (extra ``report``); plotly is read when it is written."""

from aligngp.report.page import write

__all__ = ["write"]
