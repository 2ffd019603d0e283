"""Pictures of the report and the explorer for docs/images: ``python docs/hooks/screenshots.py``, with Chromium."""

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
import uvicorn

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests")]

import aligngp as agp  # noqa: E402
from aligngp.serve import create_app  # noqa: E402
from browser import opened  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PORT = 8329


def fitted() -> tuple[agp.AlignedGP, pa.Table]:
    """The model of the quick start, and its test rows."""
    case = agp.datasets.park(seed=0)

    def table(rows: dict, task: str) -> pa.Table:
        return pa.table({**dict(zip(case.names[task], rows[task][0].T, strict=True)), "zeta": rows[task][1]})

    tasks = {"fine": table(case.tasks, "high"), "coarse": table(case.tasks, "low")}
    return agp.AlignedGP("coarse", progress=False).fit(tasks, output="zeta"), table(case.test, "high")


def main() -> None:
    """Write the pictures."""
    gp, test = fitted()
    server = uvicorn.Server(uvicorn.Config(create_app(gp), host="127.0.0.1", port=PORT, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    folder = Path(tempfile.mkdtemp())
    try:
        while not server.started:
            time.sleep(0.05)
        report = agp.report.write(gp, folder / "report.html", test={"fine": test})
        with opened(folder / "profile") as page:
            page.look(1280, 1000)
            page.open(report)
            page.screenshot(IMAGES / "report-desktop.png")
            page.value("document.querySelectorAll('section')[3].scrollIntoView()")
            page.screenshot(IMAGES / "report-figures.png")
            page.look(390, 844)
            page.open(report)
            page.screenshot(IMAGES / "report-phone.png")
            page.look(1280, 1010)
            page.visit(f"http://127.0.0.1:{PORT}/")
            time.sleep(3.0)  # slices and map come after the point
            page.screenshot(IMAGES / "explorer.png")
    finally:
        server.should_exit = True
        thread.join()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
