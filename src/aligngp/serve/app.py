"""The application: the routes of the page and of the API, and every error as one sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from aligngp.errors import AligngpError
from aligngp.estimator import AlignedGP
from aligngp.serve import contract
from aligngp.serve.answers import Answers, Busy
from aligngp.serve.guard import Guard, is_address_or_own_name, is_loopback
from aligngp.serve.notes import as_header, one_sentence, told_of_validation

log = logging.getLogger("aligngp")

SECONDS = 60.0
"""Seconds after which an answer is given up."""
_REASONS = {
    400: "The request cannot be read, or names another host.",
    403: "The request comes from another site.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    422: "The request makes no sense to this model.",
    500: "The server failed.",
    503: "Other predictions took too long.",
    504: "The prediction took too long.",
}
_SAID = {
    "Not Found": "There is no such page. The API is described in /api/openapi.json.",
    "Method Not Allowed": "This method is not allowed here. The API is described in /api/openapi.json.",
    "There was an error parsing the body": "The body cannot be read as JSON. Send what /api/openapi.json describes.",
}
"""What the libraries below say, in other words."""
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": contract.Failure, "description": reason} for status, reason in _REASONS.items()
}
_CSV: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The same rows with mean, std, lower and upper; warnings stand in a header as a JSON list.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
        "headers": {"X-Warnings": {"schema": {"type": "string"}}},
    },
    415: {"model": contract.Failure, "description": "The body is not declared as text/csv."},
}
_CSV_BODY = {"requestBody": {"required": True, "content": {"text/csv": {"schema": {"type": "string", "minLength": 1}}}}}
_PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


def application(gp: AlignedGP, remote: bool) -> FastAPI:
    """Return the ASGI application of a fitted model."""
    answers = Answers(gp)
    answers.model()  # what is not fitted is told now
    app = FastAPI(
        title="aligngp explorer",
        version=version("aligngp"),
        description="Predictions of one fitted model. Every error is a JSON object with one sentence.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
    )
    known = is_address_or_own_name if remote else is_loopback
    app.add_middleware(Guard, known=known, most_bytes=contract.MOST_BYTES)
    app.add_exception_handler(RequestValidationError, _misused)
    app.add_exception_handler(StarletteHTTPException, _failed)
    _add_page(app)
    _add_api(app, answers)
    _name_tasks(app, gp)
    return app


def _add_page(app: FastAPI) -> None:
    for path, (name, kind) in _PAGE.items():
        content = (files("aligngp.serve") / name).read_bytes()
        app.add_api_route(path, _giving(content, kind), methods=["GET"], include_in_schema=False)


def _giving(content: bytes, kind: str) -> Callable[[], Any]:
    async def give() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")

    return give


def _add_api(app: FastAPI, answers: Answers) -> None:
    @app.get("/api/model", responses=_FAILURES, response_model=contract.ModelInfo)
    async def model() -> Any:
        """Return the tasks, their inputs with ranges, and the settings."""
        return await _answer(answers.model)

    @app.post("/api/predict", responses=_FAILURES, response_model=contract.Predicted)
    async def predict(asked: contract.Asked) -> Any:
        """Predict a task at rows."""
        return await _answer(answers.predict, asked.task, asked.rows, asked.latent, asked.interval)

    @app.post("/api/slice", responses=_FAILURES, response_model=contract.Slice)
    async def slice(asked: contract.AskedSlice) -> Any:
        """Predict a task while one input varies over its range."""
        return await _answer(answers.slice, asked.task, asked.at, asked.input, asked.points)

    @app.post("/api/surface", responses=_FAILURES, response_model=contract.Surface)
    async def surface(asked: contract.AskedSurface) -> Any:
        """Predict a task while two inputs vary over their ranges."""
        return await _answer(answers.surface, asked.task, asked.at, asked.inputs, asked.points)

    @app.post("/api/csv", responses=_FAILURES | _CSV, response_class=Response, openapi_extra=_CSV_BODY)
    async def csv(request: Request, task: Annotated[str, Query(min_length=1, max_length=1000)]) -> Response:
        """Predict a task at the rows of a CSV table, and give them back with the predictions."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "text/csv":
            raise HTTPException(415, "Content-Type: expected text/csv. Send a CSV table with a line of column names.")
        content, told = await _answer(answers.csv, task, await request.body())
        named = {"content-disposition": 'attachment; filename="predictions.csv"'}
        return Response(content, media_type="text/csv", headers=named | as_header(told))


async def _answer(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what work says, done in a thread; whatever goes wrong has a status and a sentence."""
    try:
        with anyio.fail_after(SECONDS):
            return await anyio.to_thread.run_sync(partial(work, *arguments), abandon_on_cancel=True)
    except TimeoutError:
        told = f"The prediction took longer than {SECONDS:.0f} seconds. Ask for fewer rows."
        raise HTTPException(504, told) from None
    except Busy:
        raise HTTPException(503, "Other predictions take too long. Ask again.", {"Retry-After": "5"}) from None
    except (AligngpError, MemoryError) as error:
        raise HTTPException(422, str(error) or "The rows do not fit into memory. Send fewer.") from None
    except Exception:
        log.exception("the explorer failed")
        raise HTTPException(500, "The server failed; its terminal says why.") from None


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    said = _SAID.get(error.detail) or one_sentence(error.detail)
    return JSONResponse({"error": said}, error.status_code, error.headers)


async def _misused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"error": told_of_validation(error.errors())}, 422)


def _name_tasks(app: FastAPI, gp: AlignedGP) -> None:
    """Let the description of the API name the model's tasks."""
    described = app.openapi()
    for name in ("Asked", "AskedSlice", "AskedSurface"):
        described["components"]["schemas"][name]["properties"]["task"]["enum"] = list(gp.tasks)
    (task,) = described["paths"]["/api/csv"]["post"]["parameters"]
    task["schema"]["enum"] = list(gp.tasks)
    app.openapi_schema = described
