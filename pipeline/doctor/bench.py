"""One engine and one trainer rank of the job, and what the rungs do with them."""

import asyncio
import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from actor.batch import TrainSequence
from actor.packing import plan
from configs.schema import Config
from exchange.types import Group, Prompt, Sampling, UpdateReport
from pipeline.batch.batching import count
from pipeline.doctor.limits import LIMITS, Limits, limits_of
from pipeline.doctor.sample import Sample, Scores
from pipeline.doctor.sampler import Sampler, SamplerFailed
from pipeline.feed.feeder import train_sampling
from pipeline.workers.trainer_group import TrainerGroup

NUM_PROMPTS = 8
NUM_SAMPLES = 4
MAX_NEW_TOKENS = 64  # enough to see every cause, and a 135 M-parameter model samples it in half a minute


@dataclass
class Bench:
    """What every rung is given. `version` counts publications; the weights move in `advance` only."""

    config: Config
    prompts: Sequence[Prompt]
    tokenizer: Any
    sampler: Sampler
    trainer: TrainerGroup
    publish_folder: Path
    probe: tuple[int, ...]
    sampling: Sampling = field(init=False)
    version: int = -1
    report: UpdateReport | None = None  # of the newest update
    lost: str | None = None  # why the engine cannot be asked any more
    head_dtype: str | None = None  # of the engine; None where it does not tell
    num_published: int = 0  # tensors of the newest publication
    by_lag: dict[int, list[float]] = field(default_factory=dict)  # δ of the first sample at later versions
    _sample: Sample | None = None
    _names: itertools.count = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        job = train_sampling(self.config)
        self.sampling = replace(job, max_new_tokens=min(job.max_new_tokens, MAX_NEW_TOKENS))

    @property
    def limits(self) -> Limits:
        return limits_of(self.config)

    @property
    def decode_limit(self) -> float:
        """Of the engine against itself; a head of another type rounds more than the body does."""
        row = LIMITS.get(self.head_dtype or "", self.limits)
        return max(self.limits.decode_prefill, row.decode_prefill)

    @property
    def engine_args(self) -> dict[str, Any]:
        return dict(self.sampler.info.get("engine_args", {}))

    @property
    def sample(self) -> Sample:
        """The shared sample.

        Raises:
            SamplerFailed: there is none, because the engine could not take the trainer's weights.
        """
        if self._sample is None:
            raise SamplerFailed(self.lost or "nothing was sampled")
        return self._sample

    async def begin(self) -> None:
        """The trainer's weights as the next version on both sides, then the shared sample."""
        self._sample, self.lost, self.by_lag = None, None, {}
        try:
            await self.synchronize()
            self.head_dtype = (await self.sampler.describe_model()).get("head_dtype")
            await self.redraw()
        except SamplerFailed as failure:
            self.lost = str(failure)

    async def redraw(self) -> None:
        """Replace the shared sample by a fresh one."""
        self._sample = await self.draw(self.prompts[:NUM_PROMPTS], self.sampling, NUM_SAMPLES)

    async def synchronize(self) -> UpdateReport:
        """Publish the trainer's weights as the next version and load them into the engine, which verifies them."""
        folder = await self.publish()
        try:
            return await self.load()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def publish(self) -> Path:
        """The trainer's half of `synchronize`; the folder is the caller's to delete."""
        self.version += 1
        folder = self.publish_folder / f"v{self.version}"
        folder.mkdir()
        self._update = await self.trainer.publish(self.version, str(folder), self.probe)
        self.num_published = len(self._update.tensors)
        self.report = None
        return folder

    async def load(self) -> UpdateReport:
        """The engine's half of `synchronize`."""
        try:
            self.report = await self.sampler.update(self._update)
        except SamplerFailed as failure:
            self.lost = str(failure)
            raise
        return self.report

    async def train(self) -> None:
        """One optimizer step on the sample, its advantages +1 and −1 in turn so that every weight moves."""
        sequences = [
            replace(s, advantages=(1.0 if i % 2 else -1.0,) * len(s.response_token_ids))
            for i, s in enumerate(self.sample.sequences)
        ]
        shares = plan([sequences], 1, self.config.actor.max_tokens_per_microbatch)
        await self.trainer.step(self.version, shares, [count(sequences)])

    async def note_lag(self) -> None:
        """δ of the shared sample against the trainer as it is now: what staleness alone does."""
        sample = self.sample
        scores = await self.score(sample.sequences)
        rows = zip(sample.trajectories, scores, strict=True)
        self.by_lag[self.version - sample.version] = [
            s - b for t, row in rows for s, b, m in zip(row, t.behavior_logprobs, t.loss_mask, strict=True) if m
        ]

    async def draw(self, prompts: Sequence[Prompt], sampling: Sampling, n: int, name: str | None = None) -> Sample:
        """Fresh completions, scored by the trainer as it is now. Equal names give equal completions."""
        name = name or f"doctor-{next(self._names)}"
        calls = [self.sampler.generate(f"{name}-{i}", p, sampling, n) for i, p in enumerate(prompts)]
        drawn = await asyncio.gather(*calls)
        groups: tuple[Group, ...] = tuple(g for g, _ in drawn)
        sample = Sample(self.version, tuple(prompts), groups, tuple(r for _, r in drawn), [])
        return replace(sample, scores=await self.score(sample.sequences))

    async def score(self, sequences: Sequence[TrainSequence], parts: list[list[TrainSequence]] | None = None) -> Scores:
        """The trainer's logprobs at the job's temperature, by sequence; packed like a training batch by default."""
        share = parts or plan([sequences], 1, self.config.actor.max_tokens_per_microbatch)[0][0]
        scored = (await self.trainer.score([share]))[0]
        flat = [s for part in share for s in part]
        of_sequence = {id(s): list(row) for s, row in zip(flat, scored, strict=True)}
        return [of_sequence[id(s)] for s in sequences]

    async def score_by_engine(self, prompt: Sequence[int], response: Sequence[int]) -> list[float]:
        """The engine's teacher-forced logprobs at temperature 1 of the response, cut where its context ends."""
        room = int(self.engine_args.get("max_model_len") or len(prompt) + len(response) + 1) - 1
        ids = [*prompt, *response][:room]
        return list((await self.sampler.score(ids))[len(prompt) - 1 :])
