"""The real engine and trainer with faults that can be switched on, for the doctor to find."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from actor.batch import TrainSequence
from actor.packed_rows import PackedRow
from actor.worker import TrainerWorker
from configs.schema import Config
from exchange.types import Prompt, Trajectory
from pipeline.doctor.recording_worker import RecordingWorker
from rollout.episodes.episodes import EpisodeContext, single_turn
from rollout.episodes.transcript import Transcript
from rollout.weights.receiver import load_checkpoint_format
from rollout.weights.worker_extension import WeightWorker
from tests.integration.faulty_weight_worker import _load_with_fault


class SwitchableWeightWorker(WeightWorker):
    """Faults of the load, of the sampler and of the head, inside the engine's process."""

    def switch(self, fault: str, name: str = "") -> None:
        receiver, runner = self.weight_transfer_engine, self.model_runner
        sampler = runner.sampler
        mode = "raw_logprobs" if fault == "raw_logprobs" else "processed_logprobs"
        sampler.logprobs_mode = sampler.topk_topp_sampler.logprobs_mode = mode
        head = torch.bfloat16 if fault == "bf16_head" else torch.float32
        runner.get_model().logits_processor.head_dtype = head

        def load(tensors: dict[str, torch.Tensor]) -> None:
            if fault == "stale":
                return
            if fault in ("stale_head", "zero"):
                _load_with_fault(receiver, tensors, fault, name)
            else:
                load_checkpoint_format(receiver.model, receiver.model_config, tensors.items())

        receiver.load = load


class FaultyRolloutWorker(RecordingWorker):
    """The doctor's worker over an engine whose process has the switches."""

    def __init__(self, config: Config, worker: int) -> None:
        from rollout.engines.v1_current import arguments as vllm_args

        vllm_args.WORKER_EXTENSION = f"{__name__}.SwitchableWeightWorker"
        super().__init__(config, worker)

    async def switch(self, fault: str, name: str = "") -> None:
        """Switch one fault on; "" switches all off and makes an engine that failed usable again."""
        engine = self._recorder._engine
        llm = engine._llm
        engine.failure = None
        engine._settled.set()
        await llm.collective_rpc("switch", args=(fault, name))
        self._episode = {"retokenized": retokenized, "end_not_scored": end_not_scored}.get(fault, single_turn)
        llm.__dict__.pop("update_weight_version", None)
        if fault == "wrong_label":
            right = llm.update_weight_version
            llm.update_weight_version = lambda version: right(str(int(version) - 1))


class FaultyTrainerWorker(TrainerWorker):
    """The trainer's rank, whose packing and temperature can be broken."""

    def switch(self, fault: str) -> None:
        """Switch one fault on; "" switches all off."""
        from actor import packing, trainer

        trainer.pack = broken_pack(packing.pack, fault)
        self._trainer.temperature = 1.0 if fault == "temperature" else self.config.rollout.sampling.temperature

    def set_temperature(self, temperature: float) -> None:
        self._trainer.temperature = temperature


def broken_pack(right: Callable[..., Any], fault: str) -> Callable[..., Any]:
    def pack(sequences: list[TrainSequence], share_prompts: bool) -> Any:
        if fault == "prompt":
            sequences = [replace(s, prompt_token_ids=s.prompt_token_ids[-1:]) for s in sequences]
        if fault == "renormalize":
            sequences = [replace(s, kept_token_ids=None) for s in sequences]
        # These two move along the row, where the token before is one of the same sequence only without shared prompts.
        batch = right(sequences, share_prompts and fault not in ("positions", "shift"))
        if fault == "shift":
            batch = replace(
                batch, response_index=batch.predictor_index, predictor_index=(batch.predictor_index - 1).clamp_min(0)
            )
        if fault == "positions":
            n = len(batch.input_ids)
            batch = replace(batch, position_ids=torch.arange(n), row=PackedRow.of([n]))
        return batch

    return pack


async def retokenized(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    """What the engine sampled, decoded and encoded again."""
    transcript = Transcript(prompt.token_ids)
    completion = await context.generate(transcript.token_ids)
    ids = context.encode(context.decode(completion.token_ids))
    n = len(completion.token_ids)
    ids = (*ids, *completion.token_ids)[:n]
    transcript.add_completion(replace(completion, token_ids=ids))
    return transcript.trajectory(await context.score(prompt, completion))


async def end_not_scored(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    """The end token is left out of the loss."""
    trajectory = await single_turn(prompt, context)
    if trajectory.finish_reason != "stop":
        return trajectory
    return replace(trajectory, loss_mask=(*trajectory.loss_mask[:-1], 0))
