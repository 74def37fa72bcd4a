"""The shipped ablations: every variant is a config that would run."""

from pathlib import Path

import pytest

from configs.loading.loader import load_config
from pipeline.ablation.spec import load_spec

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "methods", "staleness"),
    [
        ("prox_logp_method.yaml", ["recompute", "reuse", "loglinear", "linear"], 8),
        ("prox_logp_method_qwen2.5_1.5b.yaml", ["recompute", "loglinear", "linear"], 8),
    ],
)
def test_every_variant_resolves_in_the_documents_setting(name, methods, staleness):
    spec = load_spec(ROOT / "configs" / "ablate" / name, [], None, [])
    configs = [load_config(spec.config, [*spec.overrides, *v.overrides]) for v in spec.variants]
    assert [c.actor.prox_logp_method for c in configs] == methods
    assert {c.rollout.max_head_offpolicyness for c in configs} == {staleness}
    assert all(c.actor.use_decoupled_loss for c in configs)
