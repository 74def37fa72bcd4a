"""What is evaluated: the newest checkpoint of a run, one checkpoint, or a model; and on which problems."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.loading.loader import load_config
from configs.schema import Config
from pipeline.records.checkpoints import POLICY, Checkpoint, CheckpointStore
from pipeline.records.run_folder import RunFolder

NO_JOB = ("train.total_steps=1", "train.batch_size=1")  # nothing is trained, yet a config has to say
GSM8K_TEST = ("eval.num_samples=1319",)


@dataclass(frozen=True)
class Target:
    """`config.model.path` is the policy; `config.eval_dataset` the problems."""

    name: str
    config: Config


def resolve_target(target: str, config_file: Path | None, overrides: Sequence[str]) -> Target:
    """Find the policy that `target` names and the config that goes with it.

    A run's own config says how its policy is evaluated; `config_file` takes its place. A model without either gets
    GSM8K's test problems.

    Raises:
        ValueError: there is no such folder, the run has no whole checkpoint, or the checkpoint is damaged.
        ConfigError: the config cannot be used.
    """
    path = Path(target).expanduser()
    run = RunFolder(path)
    if run.config.is_file() and run.checkpoints.is_dir():
        return _of_checkpoint(_newest(run), config_file or run.config, overrides)
    if (path / POLICY).is_dir():
        checkpoint = Checkpoint(path)
        if damage := checkpoint.damage():
            raise ValueError(f"{path} is damaged ({damage}); name another checkpoint of the run")
        recorded = RunFolder(path.resolve().parents[1]).config
        return _of_checkpoint(checkpoint, config_file or (recorded if recorded.is_file() else None), overrides)
    if not path.exists() and len(path.parts) > 1 and path.parent.is_dir():
        raise ValueError(f"{target} does not exist; name a run's folder, a checkpoint's, or a model")
    name = path.resolve().name if path.exists() else target.replace("/", "_")
    return _with_model(name, target, config_file, overrides)


def _newest(run: RunFolder) -> Checkpoint:
    checkpoint, passed_over = CheckpointStore(run.checkpoints).newest_whole()
    for sentence in passed_over:
        print(sentence)
    if checkpoint is None:
        raise ValueError(
            f"{run.root} holds no whole checkpoint yet; wait for one (checkpoint.every), or name a model folder"
        )
    return checkpoint


def _of_checkpoint(checkpoint: Checkpoint, config_file: Path | None, overrides: Sequence[str]) -> Target:
    name = f"{checkpoint.path.resolve().parents[1].name}-{checkpoint.path.name}"
    return _with_model(name, str(checkpoint.policy), config_file, overrides)


def _with_model(name: str, model: str, config_file: Path | None, overrides: Sequence[str]) -> Target:
    defaults = (*NO_JOB, *GSM8K_TEST) if config_file is None else ()
    return Target(name, load_config(config_file, [*defaults, *overrides, f"model.path={model}"]))
