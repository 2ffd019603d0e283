"""The sections of the page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from aligngp.findings.known import Known
from aligngp.findings.view import output_name
from aligngp.parameters import resolve
from aligngp.parts import one_history
from aligngp.report import figures, reproduce, words
from aligngp.report.content import MOST_INPUTS, Content
from aligngp.report.markup import Markup, bullets, figure, joined, number, section, table, tag
from aligngp.summary import tables
from aligngp.transfer import TransferReport

_SCORES = ("smse", "smll", "rmse", "nlpd", "crps")
_KEPT = {"left out": "training, left out", "held out": "training, held out", "test": "test"}


def sections(content: Content) -> Iterator[tuple[str, str, Markup]]:
    """Give anchor, title and HTML of every section that has something to say."""
    for anchor, title, build in (
        ("found", "In short", _found),
        ("warnings", "Worth knowing", _warnings),
        ("data", "The data", _data),
        ("scores", "How well it predicts", _scores),
        ("calibration", "Can the intervals be trusted?", _calibration),
        ("transfer", "What the tasks learn from each other", _transfer),
        ("mapping", "The way to the common domain", _mapping),
        ("inputs", "What the inputs do", _inputs),
        ("model", "Inside the model", _model),
        ("reproduce", "How to reproduce", reproduce.reproduce),
    ):
        parts = build(content)
        if parts:
            yield anchor, title, section(anchor, title, *parts)


def _found(content: Content) -> list[Markup]:
    return [tag("p", words.data(content)), tag("p", words.model(content)), bullets(words.found(content))]


def _warnings(content: Content) -> list[Markup]:
    told = [*content.warnings, *content.missing]
    return [bullets(told)] if told else []


def _data(content: Content) -> list[Markup]:
    rows, inputs = [], []
    for task in content.names:
        part, at = content.part(task)
        schema, (mean, variance) = part.frame.tasks[at], part.frame.training_outputs[at]
        role = "common domain" if at == part.frame.common else f"mapped by {part.frame.priors[at].label}"
        if len(part.frame.tasks) == 1:
            role = "on its own inputs"
        scale = float(part.frame.outputs[at].scale[0])
        values = (mean, np.sqrt(variance), np.sqrt(part.noise(at)) * scale)
        rows.append((task, role, output_name(content.gp, task), str(part.rows[at]), *map(number, map(float, values))))
        for d, column in enumerate(schema.columns):
            inputs.append((task, column, *_range(content, task, d)))
    headings = ("task", "role", "output", "rows", "output mean", "output sd", "noise sd")
    named = ("lowest", "mean", "highest") if content.tables else ("mean", "sd")
    return [
        table(headings, rows, numeric=3),
        table(("task", "input", *named), inputs, "Inputs of the training rows", numeric=2),
    ]


def _range(content: Content, task: str, column: int) -> list[str]:
    if task in content.tables:
        values = content.tables[task].X[:, column]
        return [number(float(value)) for value in (values.min(), values.mean(), values.max())]
    part, at = content.part(task)
    scaler = part.frame.inputs[at]
    return [number(float(scaler.mean[column])), number(float(scaler.scale[column]))]


def _scores(content: Content) -> list[Markup]:
    found = [one[task] for task in content.names for one in (content.test, content.left_out) if task in one]
    if not found:
        return []
    rows = []
    for one in found:
        scores = one.scores()
        inside = f"{scores['coverage95']:.0%}"
        rows.append((one.task, f"{len(one.y)} {_KEPT[one.kept]}", *(number(scores[name]) for name in _SCORES), inside))
    note = (
        "Lower is better, but for the last column, which should be 95%. SMSE is the squared error over the variance of "
        "the training outputs, SMLL and NLPD judge the predictive densities, RMSE and CRPS have the output's units."
    )
    headings = ("task", "rows", *(name.upper() for name in _SCORES), "inside 95%")
    drawn = [
        figure(
            _caption(one, "predicted against observed") + figures.thinned(len(one.y)),
            figures.observed(one, output_name(content.gp, one.task)),
        )
        for one in found
    ]
    return [table(headings, rows, numeric=2), tag("p", note, class_="soft"), _side_by_side(drawn)]


def _calibration(content: Content) -> list[Markup]:
    found = [one for task in content.names if (one := content.scored(task)) is not None]
    if not found:
        return []
    drawn = []
    for one in found:
        coverage, pit = figures.coverage(one), figures.pit(one)
        drawn.append(figure(_caption(one, "share of outputs inside intervals of each probability"), coverage))
        drawn.append(figure(_caption(one, "where outputs stand in their predictive distributions"), pit))
    note = (
        "Where intervals are right, the curve follows the diagonal (within the band, for that many rows) and the "
        "histogram is flat. A curve above the diagonal means intervals that are too wide, one below it too narrow ones."
    )
    return [tag("p", note), _side_by_side(drawn)]


def _transfer(content: Content) -> list[Markup]:
    if len(content.names) == 1 or not content.gp.settings.shared:
        return []
    parts = [] if content.transfer is None else _transfer_scores(content.transfer, several=len(content.names) > 2)
    caption = "Correlation of the tasks' functions"
    drawn = figure(caption, figures.correlation(content.names, content.gp.task_correlation()))
    return [*parts, _side_by_side([drawn])]


def _transfer_scores(report: TransferReport, several: bool) -> list[Markup]:
    rows = []
    for entry in (*report.rows, *(report.together if several else ())):
        source = "all others" if entry.source is None else entry.source
        sides = ((score, side) for score in ("smse", "nlpd", "crps") for side in ("with", "without"))
        values = [number(getattr(entry, f"{score}_{side}")) for score, side in sides]
        rows.append((entry.task, source, entry.verdict.removeprefix("makes "), f"{entry.rows} {entry.scored}", *values))
    scores = [heading for score in ("SMSE", "NLPD", "CRPS") for heading in (f"{score} with", "without")]
    caption = "Scores of each task with and without a source (lower is better)"
    headings = ("task", "source", "verdict", "rows", *scores)
    return [bullets(report.sentences), table(headings, rows, caption, numeric=4)]


def _mapping(content: Content) -> list[Markup]:
    drawn, told = [], []
    for task, found in content.alignments.items():
        part, _ = content.part(task)
        common = content.tables[part.frame.names[part.frame.common]]
        told.append(words.mapping(found))
        caption = f"{task}: training rows in the common domain, by the prior mapping and as the model has them"
        drawn.append(figure(caption, *figures.aligned(found, common, content.tables[task].y)))
        drawn.append(figure(f"{task}: what calibration adds to the prior mapping", figures.residual(found)))
    return [bullets(told), _side_by_side(drawn)] if drawn else []


def _inputs(content: Content) -> list[Markup]:
    drawn = []
    for task in content.names:
        output, rows = output_name(content.gp, task), content.tables.get(task)
        variants = [figures.prediction(one, output, rows) for one in content.sweeps[task]]
        part, at = content.part(task)
        more = len(part.frame.tasks[at].columns) - MOST_INPUTS
        caption = f"{task}: prediction over one input, the others at their means"
        drawn.append(figure(caption + (f" (the first {MOST_INPUTS} inputs)" if more > 0 else ""), *variants))
        if task in content.relevances:
            caption = f"{task}: how much each input can move the output, by the fitted lengthscales"
            drawn.append(figure(caption, figures.relevance(content.relevances[task])))
    return [_side_by_side(drawn)]


def _model(content: Content) -> list[Markup]:
    parts = content.gp._distinct()
    found = tables([(part.frame, resolve(part.model), part.rows) for part in parts])
    drawn = []
    if not content.mixture:
        history = one_history([part.fitted.history for part in parts])
        drawn.append(figure("The objective while training", figures.objective(history)))
    if content.terms:
        drawn.append(figure("The terms of the objective at the end", figures.terms(dict(content.terms))))
    return [*(_from_rich(one) for one in found[1:]), _side_by_side(drawn)]


def _from_rich(source: Table) -> Markup:
    """Return a table of ``gp.summary()`` as HTML."""
    headings = [_text(column.header) for column in source.columns]
    rows = zip(*([_text(cell) for cell in column.cells] for column in source.columns), strict=True)
    return table(headings, rows, _text(source.title))


def _text(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell or "")


def _caption(one: Known, what: str) -> str:
    return f"{one.task}: {what}, {len(one.y)} rows ({_KEPT[one.kept]})"


def _side_by_side(drawn: list[Markup]) -> Markup:
    return tag("div", joined(drawn), class_="figures") if drawn else Markup("")
