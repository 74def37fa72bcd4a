"""What the sampler's benchmarks serve: the quickstart's model, or another folder, in a real rollout worker."""

import random
from pathlib import Path

from actor.publish import publish
from actor.trainer import Trainer
from configs.loading.loader import load_config
from configs.schema import Config
from examples.quickstart.quickstart import PRESET, overrides, prepare
from exchange.types import Prompt, TensorMeta, WeightUpdate
from rollout.data.dataset import load_prompts
from rollout.data.tokenizer import load_tokenizer

SEED = 1


def quickstart_config(extra: list[str]) -> Config:
    """The quickstart's own config; its model and problems are made when missing."""
    from examples.quickstart.warm_start import WarmStart

    return load_config(PRESET, overrides(SEED, None, prepare(SEED, WarmStart()), extra))


def quickstart_prompts(config: Config, count: int) -> list[Prompt]:
    """The first training problems, tokenized as in a run."""
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    new = config.rollout.sampling.max_new_tokens
    prompts = load_prompts(config.dataset, tokenizer, max_new_tokens=new, max_model_len=None).prompts
    return prompts[:count]


def random_prompts(vocabulary: int, count: int, length: int) -> list[Prompt]:
    """Prompts of random tokens, for models whose words do not matter."""
    rng = random.Random(SEED)
    return [Prompt(f"p{i}", tuple(rng.randrange(vocabulary) for _ in range(length)), answer="") for i in range(count)]


def published(trainer: Trainer, version: int, folder: Path, probe: tuple[int, ...]) -> WeightUpdate:
    """What the trainer publishes, as the rollout worker takes it."""
    bucket_bytes = trainer.config.rollout.weight_sync.bucket_mib << 20
    fields = publish(trainer, version, str(folder), probe, bucket_bytes)
    return WeightUpdate(**fields | {"tensors": tuple(TensorMeta(**t) for t in fields["tensors"])})
