"""Composition, overrides, origins and the way back to a file."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.loading.loader import load_config, load_with_origins, save_config
from configs.private_file import write_private
from tests.configs.good import GOOD

DOCUMENT_BLOCK = """\
model: {path: some/model}
train: {total_steps: 10, batch_size: 8}
actor:
  use_decoupled_loss: true
  prox_logp_method: loglinear
scheduler:
  type: local
rollout:
  vllm_config:
    use_v1: true
    vllm_kwargs:
      logprobs-mode: processed_logprobs
      enable-prefix-caching: false
      async-scheduling: false
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_blocks_of_the_documents_are_accepted(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "a.yaml", DOCUMENT_BLOCK), ["scheduler.type=local"])
    assert config.actor.use_decoupled_loss is True
    assert config.actor.prox_logp_method == "loglinear"
    assert config.rollout.vllm_config.vllm_kwargs == {
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": False,
        "async_scheduling": False,
    }


def test_the_block_at_the_top_level_is_told_where_it_belongs(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "vllm_config:\n  use_v1: true\n")
    with pytest.raises(ConfigError, match=r"vllm_config=\{use_v1: true\}.*put it under rollout.*a.yaml:1"):
        load_config(path, GOOD)


def test_a_file_lies_over_its_bases_and_later_bases_over_earlier_ones(tmp_path: Path) -> None:
    write(tmp_path, "bases/one.yaml", "actor: {eps_clip: 0.1, entropy_coef: 0.1}\ntrain: {total_steps: 1}\n")
    write(tmp_path, "bases/two.yaml", "_base_: deeper/three.yaml\nactor: {eps_clip: 0.2}\n")
    write(tmp_path, "bases/deeper/three.yaml", "model: {path: m}\nactor: {eps_clip: 0.3, c_clip: 3}\n")
    path = write(tmp_path, "top.yaml", "_base_: [bases/one.yaml, bases/two.yaml]\ntrain:\n  batch_size: 8\n")
    loaded = load_with_origins(path, ["train.total_steps=7"])
    actor = loaded.config.actor
    assert (actor.eps_clip, actor.entropy_coef, actor.c_clip) == (0.2, 0.1, 3.0)
    assert loaded.config.train.total_steps == 7
    assert loaded.origin("actor.eps_clip") == f"{tmp_path}/bases/two.yaml:2"
    assert loaded.origin("actor.c_clip") == f"{tmp_path}/bases/deeper/three.yaml:2"
    assert loaded.origin("train.batch_size") == f"{path}:3"
    assert loaded.origin("train.total_steps") == "the command line"
    assert loaded.origin("run.seed") == "default"


def test_engine_arguments_merge_over_bases_in_either_spelling(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", DOCUMENT_BLOCK)
    path = write(
        tmp_path,
        "top.yaml",
        "_base_: base.yaml\nrollout: {vllm_config: {vllm_kwargs: {max_num_seqs: 8, async_scheduling: true}},\n"
        "  allow_disagreement: [async-scheduling]}\n",
    )
    kwargs = load_config(path, ["rollout.vllm_config.vllm_kwargs.max-num-seqs=16"]).rollout.vllm_config.vllm_kwargs
    assert kwargs["async_scheduling"] is True and kwargs["max_num_seqs"] == 16
    assert kwargs["enable_prefix_caching"] is False
    assert not any("-" in name for name in kwargs)


def test_a_wrong_value_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "# comment\nactor:\n  kl:\n    coef: high\n")
    with pytest.raises(ConfigError, match=r"actor.kl.coef=high is not a number; .*\(from .*a.yaml:4\)"):
        load_config(path, GOOD)


def test_a_failed_check_names_where_the_value_was_set(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "actor:\n  c_clip: 0.5\n")
    with pytest.raises(ConfigError, match=r"a.yaml:2\)"):
        load_config(path, GOOD)
    with pytest.raises(ConfigError, match=r"from the command line\)"):
        load_config(path, [*GOOD, "actor.c_clip=0.1"])


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("run.name=123", "name", "123"),
        ("run.name=1e5", "name", "1e5"),
        ("run.name='quoted'", "name", "quoted"),
        ("run.dir=null", "dir", None),
        ("run.dir=runs/x=y", "dir", "runs/x=y"),
    ],
)
def test_text_is_taken_as_typed(override: str, key: str, value: object) -> None:
    assert getattr(load_config(None, [*GOOD, override]).run, key) == value


def test_text_may_hold_what_yaml_would_take_for_something_else() -> None:
    config = load_config(None, [*GOOD, "dataset.prompt_suffix=Answer: #### [x]", "actor.optimizer.lr=1e-5"])
    assert config.dataset.prompt_suffix == "Answer: #### [x]"
    assert config.actor.optimizer.lr == 1e-5
    assert load_config(None, [*GOOD, "dataset.prompt_suffix="]).dataset.prompt_suffix == ""


def test_a_section_can_be_overridden_as_a_mapping() -> None:
    config = load_config(None, [*GOOD, "actor={use_decoupled_loss: false, kl: {coef: 0.5}}"])
    assert config.actor.use_decoupled_loss is False and config.actor.kl.coef == 0.5


def test_scientific_notation_in_a_file_is_a_number(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "actor: {optimizer: {lr: 1e-6, eps: 1E-8}}\n")
    optimizer = load_config(path, GOOD).actor.optimizer
    assert (optimizer.lr, optimizer.eps) == (1e-6, 1e-8)


def test_interpolation_and_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    config = load_config(None, [*GOOD, "model.path=~/m", "run.name=x", "run.dir=out/${run.name}"])
    assert config.model.path == "/home/someone/m"
    assert config.run.dir == "out/x"


def test_a_saved_config_reads_back_equal(tmp_path: Path) -> None:
    overrides = ["dataset.prompt_suffix=\\${x} ä", "rollout.vllm_config.vllm_kwargs.max-num-seqs=4", "actor.c_clip=3"]
    config = load_config(None, [*GOOD, *overrides])
    assert config.dataset.prompt_suffix == "${x} ä"
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]
    assert (tmp_path / "config.yaml").stat().st_mode & 0o777 == 0o600


def test_a_private_file_replaces_what_a_crash_left(tmp_path: Path) -> None:
    (tmp_path / "config.yaml.partial").write_text("half of")
    (tmp_path / "config.yaml.partial").chmod(0o644)
    write_private(tmp_path / "config.yaml", "whole")
    assert (tmp_path / "config.yaml").read_text() == "whole"
    assert (tmp_path / "config.yaml").stat().st_mode & 0o777 == 0o600


def test_loading_does_not_leak_between_configs() -> None:
    first = load_config(None, [*GOOD, "rollout.vllm_config.vllm_kwargs.max_num_seqs=4"])
    first.rollout.allow_disagreement.append("dtype")
    second = load_config(None, GOOD)
    assert second.rollout.vllm_config.vllm_kwargs == {} and second.rollout.allow_disagreement == []
