"""One self-contained HTML page: data, style, script and plotting library in one file, no network."""

import json
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipeline.report.payload import page_payload
from pipeline.report.run_data import RunData

SCRIPTS = ("decode", "theme", "tooltip", "plot", "bars", "drawing", "figures", "tokens", "samples", "page")
"""Order of `assets/*.js`: each may use those before it."""
LIBRARY = "vendor/uplot"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Nothing may be fetched, whatever text a model wrote into the page."""


def write_report(runs: Sequence[RunData], output: Path) -> Path:
    """Write the page of `runs`, aside and renamed, so that a browser never sees half of it.

    Raises:
        ValueError: the file cannot be written, or a run's trajectories cannot be read.
    """
    page = html_page(page_payload(runs), title=", ".join(run.name for run in runs))
    partial = output.with_name(output.name + ".partial")
    try:
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, output)
    except OSError as error:
        raise ValueError(f"{output} cannot be written ({error.strerror}); choose another file with -o") from None
    return output


def html_page(payload: Mapping[str, Any], title: str) -> str:
    """The whole page as text."""
    return _asset("assets/page.html").format(
        policy=POLICY,
        title=escape(title),
        style=_asset(f"{LIBRARY}/uPlot.min.css") + _asset("assets/report.css"),
        license=_asset(f"{LIBRARY}/LICENSE").strip(),
        library=_asset(f"{LIBRARY}/uPlot.iife.min.js"),
        script="\n".join(_asset(f"assets/{name}.js") for name in SCRIPTS),
        data=embedded_json(payload),
    )


def embedded_json(value: Any) -> str:
    """JSON that cannot end the script element around it, whatever its strings hold."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files("pipeline.report").joinpath(name).read_text(encoding="utf-8")
