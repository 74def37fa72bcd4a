"""Is the model where `model.path` says, whole, and one that the run can use?"""

import json
from pathlib import Path
from typing import Any

from configs.errors import refused
from configs.schema import Config
from pipeline.head_size import check_head_size

WEIGHTS = ("*.safetensors", "*.bin")
FETCHED_BY = {
    "SmolLM2-135M-Instruct": "fetch it with `make smollm2`",
    "quickstart": "make it with `make quickstart`",
}
"""What the folders are called that a command of the project fills, or those above them."""


def check_model_folder(config: Config) -> None:
    """Refuse a local folder that is missing or not a whole model; a hub name is left to the download.

    Raises:
        ConfigError: what is missing and how to get it.
    """
    path = config.model.path
    folder = Path(path)
    if not folder.exists():
        if path.startswith((".", "/", "~")) or path.count("/") > 1:
            known = (command for name, command in FETCHED_BY.items() if any(p.startswith(name) for p in folder.parts))
            remedy = next(known, "name an existing folder or a model on the hub")
            raise refused(
                "model.path", path, f"does not exist in {Path.cwd()}" if path[0] != "/" else "does not exist", remedy
            )
        return
    if not folder.is_dir():
        raise refused("model.path", path, "is a file", "name the folder that holds the model")
    if not (folder / "config.json").is_file():
        raise refused("model.path", path, "holds no config.json", "name a folder saved by transformers")
    if not any(any(folder.glob(pattern)) for pattern in WEIGHTS):
        raise refused("model.path", path, "holds no weights (*.safetensors)", "copy or save them there")
    model = _read_config(folder)
    _check_context(config, model)
    check_head_size(config, model)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise refused(
            "model.path", folder, f"holds an unreadable config.json ({error})", "save the model again"
        ) from None
    return content if isinstance(content, dict) else {}


def _check_context(config: Config, model: dict[str, Any]) -> None:
    context = model.get("max_position_embeddings")
    answer = config.rollout.sampling.max_new_tokens
    longest = config.dataset.max_prompt_tokens + answer
    if isinstance(context, int) and longest > context:
        raise refused(
            "rollout.sampling.max_new_tokens",
            answer,
            f"and dataset.max_prompt_tokens={config.dataset.max_prompt_tokens} exceed the model's context of {context}",
            f"lower one of them so that their sum is at most {context}",
        )
