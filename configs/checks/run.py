"""Checks of the run, its data set, its evaluation and its trackers."""

import re

from configs.dataset_files import LOCAL_SPLIT, is_local_file
from configs.errors import ConfigError, refused
from configs.schema import Config, DatasetConfig, EvalConfig


def check_run_name(config: Config) -> None:
    name = config.run.name
    if "/" in name or "\\" in name:
        raise refused("run.name", name, "contains a slash", "put the folder into run.dir and keep a plain name")
    if not re.fullmatch(r"\w[\w.+=-]*", name):
        raise refused("run.name", name, "is not a plain name", "use letters, digits, '-', '_' and '.'")


def check_run_dir(config: Config) -> None:
    if config.run.dir is not None and not config.run.dir.strip():
        raise refused("run.dir", config.run.dir, "is empty", "use null for runs/NAME")


def check_address(config: Config) -> None:
    s = config.scheduler
    if s.address is not None and s.type == "local":
        raise refused(
            "scheduler.address", s.address, "is ignored under scheduler.type=local", "set scheduler.type=ray or drop it"
        )
    if s.address not in (None, "auto") and not re.fullmatch(r"[^/\s]+:\d{1,5}", str(s.address)):
        remedy = "write HOST:PORT as `ray start` prints it, and start the run on a machine of the cluster"
        raise refused("scheduler.address", s.address, "is no address of a cluster", remedy)


def check_model_path(config: Config) -> None:
    if not config.model.path.strip():
        raise refused("model.path", config.model.path, "is empty", "name a model's folder or hub name")


def check_dataset_file(config: Config) -> None:
    d = config.dataset
    if not d.path.strip():
        raise refused("dataset.path", d.path, "is empty", "name a local .jsonl file or a hub data set")
    if not is_local_file(d.path):
        return
    if d.name not in (None, DatasetConfig().name):
        raise refused("dataset.name", d.name, f"means nothing for the local file {d.path}", "set dataset.name=null")
    if d.split != LOCAL_SPLIT:
        raise refused(
            "dataset.split", d.split, f"does not exist in the local file {d.path}", f"use {LOCAL_SPLIT} or another file"
        )


def check_columns(config: Config) -> None:
    d = config.dataset
    for name in ("prompt_column", "answer_column"):
        if not getattr(d, name).strip():
            raise refused(f"dataset.{name}", getattr(d, name), "is empty", "name a column of the data set")
    if d.prompt_column == d.answer_column:
        raise refused(
            "dataset.answer_column",
            d.answer_column,
            "is the prompt column too, which gives the answer away",
            "name the column of the reference answer",
        )


def check_system_prompt(config: Config) -> None:
    d = config.dataset
    if d.system_prompt is not None and d.chat_template == "never":
        raise refused(
            "dataset.system_prompt",
            d.system_prompt,
            "is ignored under dataset.chat_template=never",
            "use chat_template=auto or drop it",
        )


def check_import_paths(config: Config) -> None:
    paths = {"reward.function": config.reward.function, "rollout.episode": config.rollout.episode}
    for key, path in paths.items():
        if path is not None and not re.fullmatch(r"([A-Za-z_][\w.]*|.*\.py):[A-Za-z_][\w.]*", path):
            remedy = "write module:function or file.py:function, such as my_task.reward:score"
            raise refused(key, path, "is no import path", remedy)


def check_eval_data(config: Config) -> None:
    e = config.eval
    if e.num_samples == 0:
        return
    if e.path is None and is_local_file(config.dataset.path):
        raise ConfigError(
            f"eval.path=null leaves no held-out data, because dataset.path={config.dataset.path} is one local file; "
            "set eval.path to another file or eval.num_samples=0.",
            "dataset.path",
        )
    if e.path is not None and is_local_file(e.path) and e.split not in (LOCAL_SPLIT, EvalConfig().split):
        raise refused("eval.split", e.split, f"does not exist in the local file {e.path}", f"use {LOCAL_SPLIT}")
    same_split = e.split == config.dataset.split or is_local_file(config.dataset.path)
    if (e.path or config.dataset.path) == config.dataset.path and same_split:
        raise refused(
            "eval.split", e.split, "evaluates on the rows that are trained on", "name another split or set eval.path"
        )


def check_trackers(config: Config) -> None:
    t = config.trackers
    for key, project in (("wandb_project", t.wandb_project), ("trackio_project", t.trackio_project)):
        if project is not None and not project.strip():
            raise refused(f"trackers.{key}", project, "is empty", "name a project, or null for no tracker")
    if t.wandb_project is None and not t.wandb_offline:
        raise refused(
            "trackers.wandb_offline", False, "sends nothing without trackers.wandb_project", "name a project or drop it"
        )


RUN_CHECKS = (
    check_run_name,
    check_run_dir,
    check_address,
    check_model_path,
    check_dataset_file,
    check_columns,
    check_system_prompt,
    check_import_paths,
    check_eval_data,
    check_trackers,
)
