"""The Ray shell of one trainer rank. What it does lives in `actor.trainer`; here are processes only."""

import os
import socket
import warnings
from typing import Any

import torch

from actor.batch import Denominators, TrainSequence
from actor.process_group import LOOPBACK, device, join, leave, open_meeting_point
from configs.schema import Config
from exchange.freed_memory import give_back_when_due

_MIB = 1 << 20


class TrainerWorker:
    """One rank as a Ray actor. All ranks must be called alike: most methods hold collectives."""

    def __init__(self, config: Config, rank: int, world_size: int) -> None:
        self.config, self.rank, self._world_size = config, rank, world_size
        self._listening: socket.socket | None = None  # rank 0's meeting point, until the ranks have met
        self._trainer: Any = None
        self._sender: Any = None  # the `WeightSender` of rank 0, where weights are broadcast

    def meeting_point(self, loopback: bool) -> tuple[str, int]:
        """Rank 0: address and port where the ranks meet; kept open for `start`.

        It is the address by which Ray's other nodes reach this one, or with `loopback` one of this machine alone.
        """
        address = LOOPBACK
        if not loopback:
            import ray

            address = ray.util.get_node_ip_address()
        self._listening = open_meeting_point(address)
        return address, int(self._listening.getsockname()[1])

    def start(self, address: str, port: int) -> dict[str, Any]:
        """Join the other ranks at rank 0's meeting point and load the model; returns what the run records."""
        warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
        torch.set_num_threads(self._num_threads())
        torch.manual_seed(self.config.run.seed)
        join(self.rank, self._world_size, address, port, self._listening)
        import deepspeed
        import transformers

        from actor.model import load_policy
        from actor.trainer import Trainer

        self._trainer = Trainer(self.config, load_policy(self.config.model, self.config.actor), device())
        policy = self._trainer.policy
        return {
            "rank": self.rank,
            "pid": os.getpid(),
            "device": str(device()),
            "num_threads": torch.get_num_threads(),
            "num_parameters": sum(getattr(p, "ds_numel", p.numel()) for p in policy.parameters()),
            "num_trained_parameters": sum(
                getattr(p, "ds_numel", p.numel()) for p in policy.parameters() if p.requires_grad
            ),
            "attn_implementation": policy.inner.config._attn_implementation,
            "zero_stage": self._trainer.engine.zero_optimization_stage(),
            "versions": {
                "torch": torch.__version__,
                "deepspeed": deepspeed.__version__,
                "transformers": transformers.__version__,
            },
        }

    def train_step(
        self, version: int, minibatches: list[list[list[TrainSequence]]], denominators: list[Denominators]
    ) -> dict[str, Any]:
        """See `Trainer.train_step`: `metrics` (this rank's part) and `timings`."""
        result: dict[str, Any] = self._started.train_step(version, minibatches, denominators)
        give_back_when_due(version)
        return result

    def score(self, sequences: list[list[TrainSequence]], of_reference: bool = False) -> list[list[float]]:
        """See `Trainer.score`."""
        return self._started.score(sequences, of_reference)

    def publish(self, version: int, directory: str | None, probe_token_ids: tuple[int, ...]) -> dict[str, Any]:
        """See `actor.publish.publish`; buckets of `rollout.weight_sync.bucket_mib`."""
        from actor.publish import publish

        return publish(self._started, version, directory, tuple(probe_token_ids), self._bucket_bytes)

    def transfer_endpoint(self, sender: str, loopback: bool) -> tuple[str, int]:
        """Rank 0: where a new group meets; `sender` is the import path of a `WeightSender`."""
        if self._sender is None:
            from actor.weight_sender import make_sender

            self._sender = make_sender(sender)
        return self._sender.endpoint(loopback)

    def join_transfer(self, address: str, port: int, world_size: int, limit_s: float) -> None:
        """Rank 0: form the group. Raises TimeoutError."""
        assert self._sender is not None, "transfer_endpoint() comes first"
        self._sender.join(address, port, world_size, limit_s)

    def broadcast(self, limit_s: float) -> None:
        """See `actor.weight_sender.broadcast`; buckets as in `publish`."""
        from actor.weight_sender import broadcast

        broadcast(self._started.engine, self._sender, self._bucket_bytes, limit_s)

    def save_policy(self, directory: str) -> None:
        """See `actor.policy_files.save_policy`."""
        from actor.policy_files import save_policy

        save_policy(self._started.engine, self.config.model, directory)

    def save_state(self, directory: str) -> None:
        """See `actor.trainer_state.save_state`."""
        from actor.trainer_state import save_state

        save_state(self._started, directory)

    def load_state(self, directory: str) -> None:
        """See `actor.trainer_state.load_state`."""
        from actor.trainer_state import load_state

        load_state(self._started, directory)

    def close(self) -> None:
        """Leave the process group; the actor can then be ended."""
        self._trainer = None
        leave()

    @property
    def _started(self) -> Any:
        assert self._trainer is not None, "start() has not been called"
        return self._trainer

    @property
    def _bucket_bytes(self) -> int:
        return self.config.rollout.weight_sync.bucket_mib * _MIB

    def _num_threads(self) -> int:
        """`actor.num_threads`, else what the run gave this process through OMP_NUM_THREADS."""
        if self.config.actor.num_threads > 0:
            return self.config.actor.num_threads
        return int(os.environ.get("OMP_NUM_THREADS", "0")) or torch.get_num_threads()
