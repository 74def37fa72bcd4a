"""The quickstart: make a small model and its problems, train it, and show what it learned.

    python -m examples.quickstart.quickstart [--seed N] [--out FOLDER] [key=value ...]

Problems and warm-started model are made once per seed, under `.models/quickstart-seedN`. The training is the ordinary
one: `quickstart.yaml` with the seed's paths, as `proxrl train --config examples/quickstart/quickstart.yaml` runs it.
"""

import argparse
import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from configs.loading.loader import load_config
from pipeline.errors import one_sentence
from pipeline.fitting_table import FittingTable, plain_console
from pipeline.run.launch import launch

if TYPE_CHECKING:
    from examples.quickstart.warm_start import WarmStart
    from pipeline.records.summary import Summary

MODELS = Path(".models")
PRESET = Path(__file__).with_name("quickstart.yaml")
NUM_TRAIN, NUM_HELD_OUT = 8000, 512


def prepare(seed: int, settings: "WarmStart", models: Path = MODELS) -> Path:
    """The folder with `model`, `train.jsonl` and `held_out.jsonl` for `seed`, made when missing or out of date."""
    from examples.quickstart.problems import write_jsonl
    from examples.quickstart.warm_start import warm_start

    folder = models / f"quickstart-seed{seed}"
    recipe = json.dumps({"warm_start": asdict(settings), "train": NUM_TRAIN, "held_out": NUM_HELD_OUT})
    stamp = folder / "recipe.json"
    if stamp.exists() and stamp.read_text() == recipe:
        print(f"model and problems: {folder} (made before)", flush=True)
        return folder
    print(f"model and problems: making {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    write_jsonl(partial / "train.jsonl", seed, held_out=False, count=NUM_TRAIN)
    write_jsonl(partial / "held_out.jsonl", seed, held_out=True, count=NUM_HELD_OUT)
    warm_start(partial / "model", seed, settings)
    (partial / stamp.name).write_text(recipe)
    os.replace(partial, folder)
    return folder


def overrides(seed: int, out: str | None, folder: Path, extra: list[str]) -> list[str]:
    """What the command line adds to the preset, the user's own keys last."""
    return [
        f"run.seed={seed}",
        f"run.name=quickstart-seed{seed}",
        *([f"run.dir={out}"] if out else []),
        f"model.path={folder / 'model'}",
        f"dataset.path={folder / 'train.jsonl'}",
        f"eval.path={folder / 'held_out.jsonl'}",
        *extra,
    ]


def show(summary: "Summary", total_s: float) -> None:
    """Print the table of before and after, and where to look further."""
    console = plain_console()
    before, after = summary.eval_before or {}, summary.eval_after or {}
    header = ("", "before", "after", "change")
    table = FittingTable(header, f"{summary.name}: held-out problems, greedy decoding", numbers=True)
    if before and after:
        a, b = 100 * before["eval/reward"], 100 * after["eval/reward"]
        table.add_row("solved", f"{a:.1f} %", f"{b:.1f} %", f"{b - a:+.1f} points")
        a, b = before["eval/response_tokens"], after["eval/response_tokens"]
        table.add_row("tokens per answer", f"{a:.1f}", f"{b:.1f}", f"{b - a:+.1f}")
    console.print(table)
    console.print(f"{summary.num_steps} training steps in {summary.train_time_s:.0f} s; {total_s:.0f} s in all")
    console.print(f"metrics:    {summary.metrics}")
    console.print(f"checkpoint: {summary.checkpoint}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="seed of problems, model and training (default 1)")
    parser.add_argument("--out", default=None, help="folder of the run (default runs/quickstart-seedN)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config keys to change")
    arguments = parser.parse_args()
    started_s = time.monotonic()
    with one_sentence():
        from examples.quickstart.warm_start import WarmStart  # imports torch, which `--help` need not wait for

        folder = prepare(arguments.seed, WarmStart())
        config = load_config(PRESET, overrides(arguments.seed, arguments.out, folder, arguments.overrides))
        show(launch(config), time.monotonic() - started_s)


if __name__ == "__main__":
    main()
