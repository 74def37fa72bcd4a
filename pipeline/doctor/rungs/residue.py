"""Residue: what is left between the two halves, held against rounding in this dtype.

Rounding does not depend on where a token stands. A difference that grows with the position, in a model whose RoPE is
scaled, comes from frequencies that the two halves compute differently.
"""

from collections.abc import Sequence

from transformers import AutoConfig

from configs.schema import Config
from exchange.types import Trajectory
from pipeline.doctor.bench import Bench
from pipeline.doctor.figures import figures_of
from pipeline.doctor.sample import Scores, behavior, masked
from pipeline.doctor.verdict import Verdict, failed, passed
from pipeline.preflight.architecture import rope_parameters

RUNG = "kernels and dtype"
GROWTH = 2.0
"""How many times as large the mean |δ| of the later half is where it grows with the position."""


async def residue(bench: Bench) -> Verdict:
    """Mean |δ| and its size relative to the logprobs, over the whole sample."""
    sample, limits = bench.sample, bench.limits
    trajectories = sample.trajectories
    figures = figures_of(masked(trajectories, sample.scores), behavior(trajectories))
    note = f"mean |δ| over {figures.num_tokens} tokens; relative {figures.relative:.2g}, largest {figures.max_abs:.2g}"
    figure, limit = figures.mean_abs, limits.residue
    if not figure <= limit or not figures.relative <= limits.relative:
        cause, key = _cause(bench.config, by_position(trajectories, sample.scores))
        return failed(RUNG, note, cause, key, figure, limit)
    return passed(RUNG, note, figure, limit)


def _cause(config: Config, halves: tuple[float, float]) -> tuple[str, str]:
    earlier, later = halves
    if (scaling := rope_scaling(config)) is not None and later >= GROWTH * earlier:
        grows = f"the mean |δ| grows with the position, from {earlier:.2g} to {later:.2g}"
        return f"{grows}: the position encoding ({scaling} RoPE) differs between trainer and engine", "model.path"
    left = f"what is left is more than rounding in {config.model.dtype}"
    return f"{left}, and no rung above explains it: kernels or precision differ", "model.dtype"


def by_position(trajectories: Sequence[Trajectory], scores: Scores) -> tuple[float, float]:
    """Mean |δ| of the earlier and of the later half of the sampled tokens, by their position in the sequence."""
    found = sorted(
        (len(t.prompt_token_ids) + i, abs(score - t.behavior_logprobs[i]))
        for t, row in zip(trajectories, scores, strict=True)
        for i, score in enumerate(row)
        if t.loss_mask[i]
    )
    sizes, middle = [size for _, size in found], len(found) // 2
    earlier, later = sizes[:middle], sizes[middle:]
    return sum(earlier) / max(1, len(earlier)), sum(later) / max(1, len(later))


def rope_scaling(config: Config) -> str | None:
    """Type of the model's RoPE scaling by its config.json; None without."""
    model = AutoConfig.from_pretrained(config.model.path, trust_remote_code=config.model.trust_remote_code)
    kinds = (rope.get("rope_type") for rope in rope_parameters(model.get_text_config()))
    return next((kind for kind in kinds if kind not in (None, "default")), None)
