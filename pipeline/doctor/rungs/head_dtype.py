"""The lm_head in float32 on both sides."""

from pipeline.doctor.bench import Bench
from pipeline.doctor.verdict import Verdict, failed, not_applicable, passed

RUNG = "lm_head dtype"
KEY = "rollout.vllm_config.vllm_kwargs.hf_overrides"


async def head_dtype(bench: Bench) -> Verdict:
    """What the engine's model says it multiplies its head in; the trainer's is always float32."""
    head = bench.head_dtype
    if head is None:
        return not_applicable(RUNG, "this engine does not tell the type of its lm_head")
    note = f"lm_head in {head} in the engine and in float32 in the trainer"
    if head != "float32":
        cause = f"the engine computes its lm_head in {head}, the trainer in float32; set head_dtype: float32"
        return failed(RUNG, note, cause, KEY)
    return passed(RUNG, note)
