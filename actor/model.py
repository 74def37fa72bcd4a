"""The trained policy: a Hugging Face body, a float32 head, and one way to score response tokens."""

import re
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils import is_flash_attn_2_available

from actor.attention import PACKED_ATTENTION, register_packed_attention
from actor.batch import MicroBatch
from actor.head import LogprobHead
from actor.logprobs import KeptTokens
from actor.lora import add_lora
from configs.actor_schema import ActorConfig
from configs.errors import refused
from configs.schema import ModelConfig

# Changes to the logits that the head does not compute: leaving one out would be a silent mismatch.
_UNSUPPORTED_LOGITS = (
    "final_logit_softcapping",
    "logits_soft_cap",
    "logits_scaling",
    "logit_scale",
    "lm_head_multiplier",
)
_COMPUTE_SOFTCAP = ("eager", "flash_attention_2")  # of attention scores; the others drop or refuse it


class PolicyNetwork(nn.Module):
    """Scores the response tokens of a micro-batch; training, proximal and reference passes all call it."""

    def __init__(self, causal_lm: PreTrainedModel, chunk_tokens: int) -> None:
        super().__init__()
        self.causal_lm = causal_lm
        lm_head = causal_lm.get_output_embeddings()
        if not isinstance(lm_head, nn.Linear):
            raise ValueError(f"model.path: {type(causal_lm).__name__} has no linear lm_head")
        causal_lm.set_output_embeddings(LogprobHead(lm_head, chunk_tokens))

    @property
    def inner(self) -> PreTrainedModel:
        """The Hugging Face model itself, beneath any adapter wrapper."""
        wrapped = self.causal_lm
        return wrapped.get_base_model() if hasattr(wrapped, "peft_config") else wrapped

    @property
    def shares_prompts(self) -> bool:
        """Whether its attention computes a prompt once for several completions (see `actor.packed_rows`)."""
        return bool(self.inner.config._attn_implementation == PACKED_ATTENTION)

    def forward(
        self, batch: MicroBatch, temperature: float = 1.0, want_entropy: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Logprobs [T] float32 of the response tokens and, when asked, the entropy [T] where each was chosen.

        Response token j is scored by the hidden state of the token before it, at logits/temperature.
        Only those rows go through the head.
        """
        model = self.inner
        output = model.base_model(
            input_ids=batch.input_ids[None],
            position_ids=batch.position_ids[None],
            use_cache=False,
            **_attention_arguments(model.config._attn_implementation, batch),
        )
        rows = output.last_hidden_state[0].index_select(0, batch.predictor_index)
        targets = batch.input_ids.index_select(0, batch.response_index)
        kept = None
        if batch.kept_token_ids is not None:
            kept = KeptTokens.of(batch.kept_token_ids, rows.device)
        return model.get_output_embeddings()(rows, targets, temperature, want_entropy, kept)


def _attention_arguments(implementation: str, batch: MicroBatch) -> dict[str, Any]:
    """What keeps the sequences of a row apart; sdpa and eager take it from the position ids."""
    if implementation == PACKED_ATTENTION:
        return {"row": batch.row}
    if implementation == "flash_attention_2":
        lengths = torch.tensor([0, *batch.row.sequence_lengths], device=batch.input_ids.device)
        ends, longest = lengths.cumsum(0).to(torch.int32), max(batch.row.sequence_lengths)
        return {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": longest, "max_length_k": longest}
    return {}


def load_policy(model: ModelConfig, actor: ActorConfig) -> PolicyNetwork:
    """The policy in `model.dtype` on the CPU, with adapters and gradient checkpointing as configured.

    Raises ConfigError for a model whose logits the trainer would not reproduce, and OSError from
    transformers when the path holds no model.
    """
    config = AutoConfig.from_pretrained(model.path, trust_remote_code=model.trust_remote_code)
    check_computable(model.path, config, actor.attn_implementation)
    without_noise(config)
    causal_lm = AutoModelForCausalLM.from_pretrained(
        model.path,
        config=config,
        dtype=getattr(torch, model.dtype),
        attn_implementation=_attention(actor),
        trust_remote_code=model.trust_remote_code,
    )
    return build_policy(causal_lm, actor)


def build_policy(causal_lm: PreTrainedModel, actor: ActorConfig) -> PolicyNetwork:
    """Wrap a loaded model: adapters, gradient checkpointing, float32 head."""
    if actor.gradient_checkpointing:
        causal_lm.gradient_checkpointing_enable({"use_reentrant": False})
    policy = PolicyNetwork(causal_lm, actor.logprob_chunk_tokens)
    if actor.lora.rank > 0:
        policy.causal_lm = add_lora(causal_lm, actor.lora)
    return policy.train()


def _attention(actor: ActorConfig) -> str:
    if actor.attn_implementation != "auto":
        return actor.attn_implementation
    if torch.cuda.is_available() and is_flash_attn_2_available():
        return "flash_attention_2"
    register_packed_attention()
    return PACKED_ATTENTION


def check_computable(path: str, config: PretrainedConfig, attention: str) -> None:
    """Refuse a model whose logits the trainer would not reproduce; `attention` is actor.attn_implementation.

    Raises:
        ConfigError: what the model's config asks for, and a remedy.
    """
    text = config.get_text_config()
    for name in _UNSUPPORTED_LOGITS:
        value = getattr(text, name, None)
        if value not in (None, 1, 1.0):
            why = f"changes its logits by {name}={value}, which the trainer's head does not compute"
            raise refused("model.path", path, why, "choose a model without it")
    value = getattr(text, "attn_logit_softcapping", None)
    if value is not None and attention not in _COMPUTE_SOFTCAP:
        raise refused(
            "actor.attn_implementation",
            attention,
            f"does not compute the model's attn_logit_softcapping={value}",
            "set actor.attn_implementation=eager",
        )


def without_noise(config: PretrainedConfig) -> None:
    """The sampler drops nothing and adds no noise, so neither may the trainer: any would break their agreement."""
    for name, value in list(config.to_dict().items()):
        if isinstance(value, float) and re.search(r"dropout|_pdrop$|layerdrop|jitter", name):
            setattr(config, name, 0.0)
