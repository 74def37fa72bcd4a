"""The frozen reference policy of the KL term; it may be moved up to the current policy every k steps."""

from dataclasses import replace
from typing import Any

import torch

from actor.batch import MicroBatch
from actor.full_weights import iter_full_weights
from actor.model import PolicyNetwork, load_policy
from configs.actor_schema import LoraConfig
from configs.schema import Config

_BUCKET_BYTES = 256 << 20


class Reference:
    """A whole copy of the model on each rank, without gradients; scored by the same code as the policy."""

    def __init__(self, policy: PolicyNetwork, reset_every: int) -> None:
        self.policy = policy.requires_grad_(False)
        self.reset_every = reset_every
        self.was_reset = False

    @staticmethod
    def load(config: Config, device: torch.device) -> "Reference":
        """The model at `model.path`, as the run started from."""
        actor = replace(config.actor, lora=LoraConfig(), gradient_checkpointing=False)
        return Reference(load_policy(config.model, actor).to(device), config.actor.kl.reset_ref_every)

    @torch.no_grad()
    def logprobs(self, batch: MicroBatch, temperature: float) -> torch.Tensor:
        """Logprobs [T] of the response tokens."""
        return self.policy(batch, temperature)[0]

    def reset_when_due(self, version: int, engine: Any) -> None:
        """Copy the current policy when `version` is a multiple of `actor.kl.reset_ref_every`. Collective.

        Called after steps that were applied; a skipped one leaves the reference until the next multiple.
        """
        if self.reset_every == 0 or version % self.reset_every != 0:
            return
        own = dict(self.policy.inner.named_parameters())
        for bucket in iter_full_weights(engine, _BUCKET_BYTES):
            for name, tensor in bucket:
                own[name].data.copy_(tensor)
        self.was_reset = True
