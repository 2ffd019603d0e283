"""What the API takes and gives, with bounds: whatever is outside of them is refused before anything is computed."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MOST_ROWS, MOST_BYTES = 100_000, 10_000_000
"""Most rows in one request, and most bytes of its body."""

Name = Annotated[str, Field(min_length=1, max_length=1000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Row = Annotated[dict[str, Number], Field(max_length=10_000)]


class Body(BaseModel):
    """A request: nothing is converted, and what is not known is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Asked(Body):
    """Rows of a task, each with a value of every input."""

    task: Name
    rows: Annotated[list[Row], Field(min_length=1, max_length=MOST_ROWS, fail_fast=True)]
    latent: bool = Field(False, description="Predict the function without the noise.")
    interval: float = Field(0.95, gt=0, lt=1, description="Probability of the interval.")


class AskedSlice(Body):
    """One input varies, the others are held; where ``at`` names none, at the middle of the training rows."""

    task: Name
    at: Row = Field(default_factory=dict)
    input: Name
    points: int = Field(100, ge=2, le=200)


class AskedSurface(Body):
    """Two inputs vary, the others are held."""

    task: Name
    at: Row = Field(default_factory=dict)
    inputs: list[Name] = Field(min_length=2, max_length=2)
    points: int = Field(25, ge=2, le=40)


class Failure(BaseModel):
    """What went wrong."""

    error: str = Field(description="One sentence: what was expected, what came, what to do.")


class Input(BaseModel):
    """An input of a task; its units are those of the training rows, which the model does not know by name."""

    name: str
    lower: float
    upper: float
    middle: float


class TaskInfo(BaseModel):
    """A task."""

    name: str
    output: str
    rows: int = Field(description="Number of training rows.")
    inputs: list[Input]
    domain: str = Field(description="The task whose inputs are this task's common domain; its own name where it is.")


class ModelInfo(BaseModel):
    """The model."""

    aligngp: str = Field(description="The version that serves it.")
    common: str | None = Field(description="The common task; null where nothing is shared.")
    tasks: list[TaskInfo]
    settings: list[str] = Field(description="Keywords of AlignedGP that are not at their defaults.")
    note: str


class Aligned(BaseModel):
    """Rows in the common domain: mean and standard deviation a row, in its units."""

    names: list[str]
    mean: list[list[float]]
    sd: list[list[float]]


class Predicted(BaseModel):
    """Predictions, a number a row."""

    mean: list[float]
    std: list[float]
    lower: list[float]
    upper: list[float]
    aligned: Aligned
    warnings: list[str]


class Slice(BaseModel):
    """Predictions over one input, with the 95% interval."""

    input: str
    values: list[float]
    mean: list[float]
    lower: list[float]
    upper: list[float]


class Surface(BaseModel):
    """Predictions over two inputs: a list a value of the first, in it a number a value of the second."""

    inputs: list[str]
    values: list[list[float]]
    mean: list[list[float]]
    std: list[list[float]]
