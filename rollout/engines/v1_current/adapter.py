"""The adapter for vLLM 0.32's V1 engine: `AsyncLLM` behind `rollout.engines.engine.Engine`."""

import asyncio
import signal
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from configs.schema import Config
from exchange.types import Completion, Sampling, TransferPlace, UpdateReport, WeightUpdate
from rollout.data.tokenizer import eos_token_ids, load_tokenizer
from rollout.engines.start_failure import why_not_started
from rollout.engines.v1_current.arguments import KVShape, engine_args, kv_shape, require_whole_prompts
from rollout.environments.variables import apply_cpu_environment, apply_gpu_environment, load_our_plugin
from rollout.errors import EngineUnusable
from rollout.time_limit import Deadline
from rollout.weights.in_flight_update import InFlightUpdate

# An idle engine core has nothing to save, yet takes seconds to tear its interpreter down; it is killed after this.
CLOSE_GRACE_S = 0.5
CLOSE_TIMEOUT_S = 10.0
PROBE_PRIORITY = -1  # before every request that waits
LIVENESS_S = 0.2

T = TypeVar("T")


class VllmV1Engine:
    """See `rollout.engines.engine.Engine` for the contract and the invariant of `update`."""

    def __init__(self, config: Config, worker: int, first_version: int = 0) -> None:
        self._config = config
        self._worker = worker
        self.version = first_version
        self.engine_args: dict[str, Any] = {}
        self.model_facts: dict[str, str] = {}
        self.transfer: TransferPlace | None = None  # in the group joined last
        self.failure: EngineUnusable | None = None
        self._llm: Any = None
        self._end_token_ids: tuple[int, ...] = ()
        self._vocab_size = 0
        self._running: set[asyncio.Task[Any]] = set()
        self._settled = asyncio.Event()  # no version is waiting for its probe
        self._settled.set()
        self._updating = asyncio.Lock()
        self._num_scored = 0
        self._dead = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        limit = Deadline(self._config.rollout.startup_timeout_s)
        await self._open(limit)
        label = self._llm.update_weight_version(str(self.version))
        await limit.wait(self.while_alive(label), "the engine to label its first weights")
        account = self.while_alive(self._llm.collective_rpc("describe_model"))
        self.model_facts = (await limit.wait(account, "the engine's own account"))[0]
        self._require_fp32_head()
        if self.engine_args["weight_transfer_config"]["backend"] == "proxrl_shared_memory":
            await limit.wait(self.while_alive(self._init_transfer()), "the weight receiver to start")

    async def _open(self, limit: Deadline) -> None:
        what = f"the engine of rollout worker {self._worker} to start"
        try:
            await limit.wait(asyncio.to_thread(self._build), what)
        except (OSError, RuntimeError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise EngineUnusable(self._worker, why_not_started(error)) from error
        self._watching = asyncio.create_task(self._watch())
        slots = self.engine_args["max_num_seqs"] - 1  # one is kept for the probe
        self._slots = asyncio.Semaphore(max(1, slots))

    def _build(self) -> None:
        load_our_plugin()
        from vllm.platforms import current_platform

        on_cpu = current_platform.is_cpu()
        (apply_cpu_environment if on_cpu else apply_gpu_environment)()
        from transformers import AutoConfig
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        model = self._config.model
        hf_config = AutoConfig.from_pretrained(model.path, trust_remote_code=model.trust_remote_code)
        text_config = hf_config.get_text_config()
        tokenizer = load_tokenizer(model.path, model.trust_remote_code)
        self._end_token_ids = eos_token_ids(tokenizer, model.path)
        self._vocab_size = text_config.vocab_size
        self.engine_args = self._all_args(kv_shape(text_config) if on_cpu else None)
        args = dict(self.engine_args)
        if on_cpu and args["tensor_parallel_size"] == 1:
            from vllm.v1.executor.uniproc_executor import UniProcExecutor

            # The engine core does the work itself: one process less to start and to talk to at every step.
            args.setdefault("distributed_executor_backend", UniProcExecutor)
        self._llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**args))
        if on_cpu:
            require_whole_prompts(self._llm.vllm_config)

    def _all_args(self, shape: KVShape | None) -> dict[str, Any]:
        backend = self._config.rollout.weight_sync.backend
        name = "proxrl_nccl" if backend == "nccl" else "proxrl_shared_memory"
        return engine_args(self._config, shape) | {"weight_transfer_config": {"backend": name}}

    def _require_fp32_head(self) -> None:
        head = self.model_facts["head_dtype"]
        if head != "float32" and "hf_overrides" not in self._config.rollout.allow_disagreement:
            raise ValueError(
                f"the engine computes the lm_head of {self.model_facts['class']} in {head}, the trainer in float32; "
                "use a model with an unquantized lm_head, or name hf_overrides in rollout.allow_disagreement"
            )

    async def _init_transfer(self) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

        await self._llm.init_weight_transfer_engine(WeightTransferInitRequest(init_info={}))

    async def generate(self, request_id: str, prompt_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        from rollout.engines.sampling import check_kept_set, sampling_params, to_completion

        self._require_room(len(prompt_token_ids), sampling.max_new_tokens)
        check_kept_set(sampling, self._vocab_size)
        params = sampling_params(sampling, self._end_token_ids, self._vocab_size)
        async with self._slots:
            output = await self._request(request_id, prompt_token_ids, params)
        return await self._once_verified(to_completion(output.outputs[0], sampling, self._vocab_size))

    async def _once_verified(self, completion: Completion) -> Completion:
        """The completion, as soon as every version that it holds was proved."""
        if completion.versions and completion.versions[-1] > self.version:
            await self._settled.wait()
            self._require_usable()
        return completion

    async def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        from rollout.engines.sampling import score_params, to_scores

        self._require_room(len(token_ids), 1)
        self._num_scored += 1
        request_id = f"score-{self._num_scored}"
        output = await self._request(request_id, token_ids, score_params(), PROBE_PRIORITY)
        return to_scores(output.prompt_logprobs, token_ids)

    async def _request(self, request_id: str, prompt: Sequence[int], params: Any, priority: int = 0) -> Any:
        """The finished output of one request; ends with EngineUnusable when the engine fails meanwhile."""
        self._require_usable()
        task = asyncio.create_task(self._collect(request_id, prompt, params, priority))
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            self._require_usable()
            raise
        finally:
            self._running.discard(task)

    async def _collect(self, request_id: str, prompt: Sequence[int], params: Any, priority: int) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError

        output = None
        requested = self._llm.generate({"prompt_token_ids": list(prompt)}, params, request_id, priority=priority)
        try:
            async for partial in requested:
                output = partial
        except EngineDeadError:
            self._note_death(self._llm)
            self._require_usable()
        assert output is not None and output.finished
        return output

    async def while_alive(self, call: Awaitable[T]) -> T:
        """The result of a call to the engine. vLLM leaves a call unanswered whose engine process has died.

        Raises:
            EngineUnusable: the process is gone.
        """
        llm = self._llm
        answer, death = asyncio.ensure_future(call), asyncio.ensure_future(self._dead.wait())
        try:
            await asyncio.wait({answer, death}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done() and (answer.cancelled() or answer.exception() is None or not llm.errored):
                return await answer
            raise self._note_death(llm)
        finally:
            answer.cancel()
            death.cancel()

    async def _watch(self) -> None:
        llm = self._llm
        while not llm.errored:
            await asyncio.sleep(LIVENESS_S)
        self._note_death(llm)

    def _note_death(self, llm: Any) -> EngineUnusable:
        death = EngineUnusable(self._worker, f"its engine process {_end_of(llm)}")
        self.fail(death)
        self._dead.set()
        return death

    async def update(self, update: WeightUpdate) -> UpdateReport:
        async with self._updating:
            self._require_usable()
            if update.version <= self.version:
                raise ValueError(f"update to version {update.version}, but the engine is at version {self.version}")
            return await self._in_flight(update).run()

    def _in_flight(self, update: WeightUpdate) -> InFlightUpdate:
        return InFlightUpdate(self, self._llm, self._config, self._worker, update)

    def begin_unverified(self) -> None:
        """From here on tokens of a version that is not yet probed may be sampled."""
        self._settled.clear()

    def verified(self, version: int) -> None:
        """The probe of `version` agreed: completions that hold its tokens may leave."""
        self.version = version
        self._settled.set()

    def fail(self, failure: EngineUnusable) -> None:
        """Mark the engine unusable and end every request in flight; nothing it sampled gets out any more."""
        if self.failure is None:
            self.failure = failure
        for task in list(self._running):
            task.cancel()
        self._settled.set()

    def _require_usable(self) -> None:
        if self.failure is not None:
            raise EngineUnusable(self._worker, self.failure.reason) from self.failure
        if self._llm is None:
            raise EngineUnusable(self._worker, "its engine has not been started or was closed")

    def _require_room(self, num_prompt: int, num_new: int) -> None:
        self._require_usable()
        limit = self.engine_args["max_model_len"]
        if num_prompt + num_new > limit:
            raise ValueError(
                f"a prompt of {num_prompt} tokens leaves no room for {num_new} new ones in the engine's {limit}; "
                "lower dataset.max_prompt_tokens or rollout.sampling.max_new_tokens, or raise max_model_len"
            )

    async def close(self) -> None:
        llm, self._llm = self._llm, None
        if llm is None:
            return
        if self._watching is not None:
            self._watching.cancel()
        self.fail(EngineUnusable(self._worker, "it is closing"))
        if llm.output_handler is not None:
            llm.output_handler.cancel()  # else it reports the end of the engine core as a crash
        with suppress(TimeoutError):
            await Deadline(CLOSE_TIMEOUT_S).wait(asyncio.to_thread(llm.shutdown, CLOSE_GRACE_S), "the engine to end")


def _end_of(llm: Any) -> str:
    """How the engine's process ended, as the end of a sentence."""
    manager = llm.engine_core.resources.engine_manager
    codes = [code for process in getattr(manager, "processes", ()) if (code := process.exitcode) is not None]
    if not codes:
        return "died"
    return f"was killed by {signal.Signals(-codes[0]).name}" if codes[0] < 0 else f"died with exit code {codes[0]}"
