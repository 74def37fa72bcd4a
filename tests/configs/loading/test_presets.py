"""The presets that come with the project load, and those for CPUs need no GPU."""

from pathlib import Path

import pytest

from configs.loading.loader import load_config
from configs.loading.presets import cpu_presets, presets

ROOT = Path(__file__).resolve().parents[3]
PROX_APPROX = {"": "loglinear", "_linear": "linear", "_metrics": "metrics", "_recompute": "recompute"}


@pytest.mark.parametrize("path", presets())
def test_every_preset_loads(path: str) -> None:
    load_config(path)


def test_descriptions_of_studies_are_no_presets() -> None:
    assert not any("ablate" in path or "parity" in path for path in presets())


@pytest.mark.parametrize(("suffix", "method"), PROX_APPROX.items())
def test_proximal_approximation_presets_differ_in_the_method_alone(suffix: str, method: str) -> None:
    config = load_config(ROOT / f"examples/experimental/prox_approx/gsm8k_grpo_prox_approx{suffix}.yaml")
    assert config.actor.prox_logp_method == method
    base = load_config(ROOT / "configs/gsm8k_qwen2.5_1.5b.yaml", [f"actor.prox_logp_method={method}"])
    base.run.name = config.run.name
    assert config == base
    assert config.train.total_steps == 300 and config.rollout.max_head_offpolicyness == 8


def test_cpu_presets_are_small_and_in_float32() -> None:
    assert any("smollm2" in path for path in cpu_presets())
    for path in cpu_presets():
        config = load_config(path)
        assert config.model.dtype == "float32" and config.scheduler.device != "gpu"
