"""Parity studies in YAML: the shipped ones resolve, broken ones are refused in a sentence."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.errors import ConfigError
from pipeline.parity import runner
from pipeline.parity.runner import skipped, study_jobs, variant_config
from pipeline.parity.spec import load_spec

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = sorted((ROOT / "configs" / "parity").glob("*.yaml"))
FAKE_ROOT = Path("/study")


def content(**changes: Any) -> dict[str, Any]:
    reference = {"name": "v0", "role": "reference", "seeds": [1, 2]}
    return {"config": "base.yaml", "variants": [reference, {"name": "v1", "role": "final"}]} | changes


def write(folder: Path, value: Any) -> Path:
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(value))
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_every_variant_of_the_shipped_studies_is_a_valid_run(path: Path) -> None:
    spec = load_spec(path, [])
    configs = {v.name: variant_config(spec, v) for v in spec.variants}
    engines = {name: c.rollout.engine for name, c in configs.items()}
    assert engines[spec.reference.name] == "vllm-0.8.5-v0" and engines["current_engine"] == "vllm-v1"
    assert {c.model.path for c in configs.values()} == {configs["v1_final"].model.path}
    assert {c.actor.objective for c in configs.values()} == {"gspo"}
    assert all(c.rollout.sampling.temperature != 1 for c in configs.values())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_the_chain_takes_back_one_default_of_the_first_attempt_after_the_other(path: Path) -> None:
    spec = load_spec(path, [])
    rollouts = [variant_config(spec, v).rollout for v in spec.chain]
    names = [v.name for v in spec.chain]
    assert names == ["v1_initial", "v1_processed_logprobs", "v1_runtime_defaults", "v1_inflight_update", "v1_final"]
    kwargs = [r.vllm_config.vllm_kwargs for r in rollouts]
    left_to_engine = [
        sum(k in kw and kw[k] is None for k in ("logprobs_mode", "enable_prefix_caching")) for kw in kwargs
    ]
    assert left_to_engine == [2, 1, 0, 0, 0]
    assert [r.weight_sync.pause_mode for r in rollouts] == ["abort", "abort", "abort", "keep", "keep"]
    assert [kw.get("hf_overrides") == {"head_dtype": None} for kw in kwargs] == [True, True, True, True, False]
    assert [len(r.allow_disagreement) for r in rollouts] == [4, 3, 0, 0, 0]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_no_other_preset_changes_a_shipped_study(path: Path, tmp_path: Path) -> None:
    spec = load_spec(path, [])
    for folder in ("configs", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for preset in (p for p in tmp_path.rglob("*.yaml") if "parity" not in p.parts):
        preset.write_text("rollout: {max_concurrent_rollouts: 999}\nmodel: {path: other}\n")
    changed = load_spec(tmp_path / path.relative_to(ROOT), [])
    for variant in spec.variants:
        assert variant_config(changed, variant) == variant_config(spec, variant), variant.name


def test_what_needs_a_gpu_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_spec(ROOT / "configs" / "parity" / "cpu.yaml", [])
    monkeypatch.setattr(runner, "num_gpus", lambda: 0)
    assert skipped(spec) == {"v1_batch_invariant": "needs a GPU, and this machine has none"}
    assert "v1_batch_invariant" not in {j.variant for j in study_jobs(spec, FAKE_ROOT)}
    monkeypatch.setattr(runner, "num_gpus", lambda: 1)
    assert not skipped(spec) and "v1_batch_invariant" in {j.variant for j in study_jobs(spec, FAKE_ROOT)}


def test_jobs_differ_in_what_the_variant_says_and_first_seeds_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "num_gpus", lambda: 1)
    spec = load_spec(ROOT / "configs" / "parity" / "cpu.yaml", ["train.total_steps=3"])
    jobs = study_jobs(spec, FAKE_ROOT)
    assert [j.seed for j in jobs] == sorted(j.seed for j in jobs)
    assert len({j.folder.root for j in jobs}) == len(jobs) == sum(len(v.seeds) for v in spec.variants)
    by_name = {(j.variant, j.seed): j for j in jobs}
    assert by_name["v0_reference", 2].folder.root == FAKE_ROOT / "v0_reference" / "seed-2"
    assert "rollout.engine=vllm-0.8.5-v0" in by_name["v0_reference", 2].overrides
    assert all("train.total_steps=3" in j.overrides for j in jobs)
    assert by_name["v1_batch_invariant", 1].env == {"VLLM_BATCH_INVARIANT": "1"}


def test_missing_environments_are_all_named_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROXRL_ENGINES", str(tmp_path))
    monkeypatch.setattr(runner, "num_gpus", lambda: 0)
    spec = load_spec(ROOT / "configs" / "parity" / "cpu.yaml", [])
    with pytest.raises(ConfigError) as refusal:
        runner.check_ready(spec)
    lines = str(refusal.value).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("v0_reference: ") and "`proxrl engines create vllm-0.8.5 --cpu`" in lines[0]
    assert lines[1].startswith("v1_initial, ") and "`proxrl engines create vllm-0.18.1 --cpu`" in lines[1]


REFERENCE = {"name": "v0", "role": "reference", "seeds": [1, 2]}
FINAL = {"name": "v1", "role": "final"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"limits": 2}, "'limits' is not a key; did you mean limit?"),
        ({"limit": 0}, "limit=0.0 is not a distance"),
        ({"variants": [REFERENCE, FINAL, {"role": "repair"}]}, "every variant needs a name"),
        ({"variants": [REFERENCE, FINAL | {"role": "last"}]}, "role=last is none of reference, initial"),
        ({"variants": [REFERENCE, FINAL | {"seed": 1}]}, "variant v1: 'seed' is not a key; did you mean seeds?"),
        ({"variants": [REFERENCE]}, "0 variants have role=final; exactly one must"),
        (
            {"variants": [REFERENCE, FINAL, FINAL | {"name": "v 1"}, FINAL | {"name": "v_1"}]},
            "two variants are named v_1",
        ),
        ({"variants": [REFERENCE | {"seeds": [1]}, FINAL]}, "give it two or more, whose spread"),
    ],
)
def test_broken_studies_are_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_spec(write(tmp_path, content(**changes)), [])
    assert sentence in str(refusal.value)


def test_a_runs_config_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"names no variants; name a parity study, such as configs/parity/cpu\.yaml"):
        load_spec(write(tmp_path, {"train": {}}), [])
