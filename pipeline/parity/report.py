"""Writes what a study found: `parity.html`, `figure-N.png` and `parity.json` in the study's folder."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pipeline.jobs.queue import Job
from pipeline.parity.page import study_page
from pipeline.parity.plots import draw_figures
from pipeline.parity.results import StudyResult, study_result
from pipeline.parity.runner import skipped
from pipeline.parity.spec import ParitySpec
from pipeline.parity.verdicts import claims, final_is_inside, not_compared
from pipeline.records.json_lines import finite
from pipeline.records.run_folder import write_json


def write_study(spec: ParitySpec, jobs: Sequence[Job], root: Path, command: str) -> tuple[StudyResult, Path]:
    """The result and the page's path."""
    result = study_result(spec, jobs, skipped(spec))
    figures = draw_figures(result, root)
    page = root / "parity.html"
    partial = page.with_name(page.name + ".partial")
    partial.write_text(study_page(result, figures, command), encoding="utf-8")
    os.replace(partial, page)
    write_json(root / "parity.json", finite(_plain(result)))
    return result, page


def _plain(result: StudyResult) -> dict[str, object]:
    return {
        "final_is_inside": final_is_inside(result),
        "not_compared": not_compared(result),
        "limit": result.spec.limit,
        "distances": {
            f"{variant}/{panel}": asdict(d) | {"inside": d.inside} for (variant, panel), d in result.distances.items()
        },
        "means": {v.variant.name: v.raw_means for v in result.variants},
        "eval_rewards": {v.variant.name: v.eval_rewards for v in result.variants},
        "claims": [asdict(c) for c in claims(result)],
    }
