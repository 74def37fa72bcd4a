"""Whether a config still describes the run in its folder: what decides its steps may not change in the middle."""

from dataclasses import asdict
from typing import Any

from configs.errors import shown
from configs.schema import Config
from exchange.types import Prompt
from pipeline.records.run_folder import RunFolder
from pipeline.records.run_state import RunState
from pipeline.records.settings import changed, read_settings
from rollout.data.model_files import architecture
from rollout.data.prompt_cursor import PromptCursor

ARCHITECTURE = "model.architecture"  # not a setting: it comes from the model's config.json
RENDERING = ("dataset.system_prompt", "dataset.prompt_suffix", "dataset.chat_template")  # of rows that stay the same
NEW_RUN = "choose another run.dir to start a new run"


def fingerprint(config: Config) -> dict[str, Any]:
    """The settings that a resumed run may not change."""
    return {
        "model.path": config.model.path,
        "model.dtype": config.model.dtype,
        ARCHITECTURE: architecture(config.model.path),
        "dataset.path": config.dataset.path,
        "dataset.split": config.dataset.split,
        "run.seed": config.run.seed,
        "train.batch_size": config.train.batch_size,
        "rollout.sampling.n_samples": config.rollout.sampling.n_samples,
        "actor.num_workers": config.actor.num_workers,
        "actor.deepspeed.zero_stage": config.actor.deepspeed.zero_stage,
        "actor.lora.rank": config.actor.lora.rank,
        "actor.lora.alpha": config.actor.lora.alpha,
        "actor.lora.target_modules": list(config.actor.lora.target_modules),
    }


def check_same_run(folder: RunFolder, restored: RunState, config: Config) -> None:
    """Raises ValueError: a setting differs that may not; names it."""
    now = fingerprint(config)
    for key, value in restored.fingerprint.items():
        if key in now and now[key] != value:
            remedy = "restore the model's config.json" if key == ARCHITECTURE else "give it the old value"
            raise ValueError(
                f"{key}={now.get(key)!r} differs from {value!r} of the run in {folder.root}; {remedy}, or {NEW_RUN}"
            )


def check_same_prompts(folder: RunFolder, restored: RunState, config: Config, prompts: list[Prompt]) -> None:
    """Compare what the run depends on: the data set's rows and the settings that make prompts of them.

    What a template renders is not compared, since that may depend on the clock.

    Raises:
        ValueError: names the setting that was changed, or the data set.
    """
    now = asdict(config)
    keys: tuple[str, ...] = RENDERING
    same_rows = True
    try:
        PromptCursor(prompts, config.run.seed).load_state_dict(restored.cursor)
    except ValueError:
        same_rows = False
        keys = (*(f"dataset.{name}" for name in now["dataset"]), "rollout.sampling.max_new_tokens")
    for key, old, new in changed(read_settings(folder), now, keys):
        raise ValueError(
            f"{key}={shown(new)} gives other prompts than those of the run in {folder.root}, where it was "
            f"{shown(old)}; give it the old value, or {NEW_RUN}"
        )
    if not same_rows:
        raise ValueError(
            f"dataset.path={config.dataset.path} holds other prompts than when the run in {folder.root} began; "
            f"restore the data set, or {NEW_RUN}"
        )
