"""Checks of the sampler: engine, engine arguments, sampling, staleness and length budgets."""

from configs.checks.engine_arguments import ENGINE_ARGUMENTS
from configs.checks.engines import ENGINES_ARE_V1, ENGINES_WITH_PAUSE_MODES, NATIVE_ENGINE
from configs.checks.pinned import KWARGS_KEY, merge_engine_args, underscored
from configs.errors import ConfigError, refused
from configs.nearest import nearest
from configs.schema import Config


def check_engine(config: Config) -> None:
    engine = config.rollout.engine
    if engine not in ENGINES_ARE_V1:
        close = nearest(engine, ENGINES_ARE_V1)
        remedy = f"the nearest is {close}" if close else f"use {NATIVE_ENGINE}"
        raise refused("rollout.engine", engine, f"is not one of {', '.join(ENGINES_ARE_V1)}", remedy)


def check_use_v1(config: Config) -> None:
    engine, use_v1 = config.rollout.engine, config.rollout.vllm_config.use_v1
    if use_v1 != ENGINES_ARE_V1[engine]:
        other = next(name for name, is_v1 in ENGINES_ARE_V1.items() if is_v1 == use_v1)
        raise refused(
            "rollout.vllm_config.use_v1", use_v1, f"contradicts rollout.engine={engine}", f"use rollout.engine={other}"
        )


def check_update_path(config: Config) -> None:
    sync, engine = config.rollout.weight_sync, config.rollout.engine
    if sync.backend == "nccl" and engine != NATIVE_ENGINE:
        remedy = f"use auto or shared_memory, or rollout.engine={NATIVE_ENGINE}"
        raise refused("rollout.weight_sync.backend", "nccl", f"has no receiver in rollout.engine={engine}", remedy)
    given = {"pause_mode": (sync.pause_mode, "keep"), "clear_cache": (sync.clear_cache, False)}
    for name, (value, only) in given.items():
        if value != only and engine not in ENGINES_WITH_PAUSE_MODES:
            raise refused(
                f"rollout.weight_sync.{name}",
                value,
                f"is not a way in which rollout.engine={engine} updates",
                f"leave it out or use rollout.engine={ENGINES_WITH_PAUSE_MODES[0]}",
            )


def check_engine_arguments(config: Config) -> None:
    merge_engine_args(config.rollout)  # refuses what is set elsewhere or breaks agreement


def check_argument_names(config: Config) -> None:
    if config.rollout.engine != NATIVE_ENGINE:
        return  # other versions have other arguments; their own process refuses an unknown one
    for name, value in underscored(config.rollout.vllm_config.vllm_kwargs).items():
        if name not in ENGINE_ARGUMENTS:
            close = nearest(name, ENGINE_ARGUMENTS)
            remedy = f"the nearest is {close}" if close else "see the engine's own list of arguments"
            raise refused(f"{KWARGS_KEY}.{name}", value, "is not an argument of vLLM 0.32", remedy)


def check_engine_dtype(config: Config) -> None:
    dtype = underscored(config.rollout.vllm_config.vllm_kwargs).get("dtype", config.model.dtype)
    if dtype != config.model.dtype and "dtype" not in config.rollout.allow_disagreement:
        raise refused(
            f"{KWARGS_KEY}.dtype",
            dtype,
            f"differs from model.dtype={config.model.dtype}",
            "set model.dtype for both halves, or name dtype in rollout.allow_disagreement to accept the mismatch",
        )


def check_context_length(config: Config) -> None:
    limit = underscored(config.rollout.vllm_config.vllm_kwargs).get("max_model_len")
    if limit is None:
        return
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise refused(f"{KWARGS_KEY}.max_model_len", limit, "is not a length in tokens", "give a whole number")
    longest = config.rollout.sampling.max_new_tokens
    if limit <= longest:
        raise refused(
            f"{KWARGS_KEY}.max_model_len",
            limit,
            f"leaves no room for a prompt beside rollout.sampling.max_new_tokens={longest}",
            "raise it or lower the other",
        )
    needed = config.dataset.max_prompt_tokens + longest
    if limit < needed:
        raise refused(
            f"{KWARGS_KEY}.max_model_len",
            limit,
            f"is below dataset.max_prompt_tokens + rollout.sampling.max_new_tokens = {needed}",
            f"raise it to {needed} or lower one of the two",
        )
    eval_tokens = config.eval.max_new_tokens or 0
    if config.eval.num_samples and limit < config.dataset.max_prompt_tokens + eval_tokens:
        raise refused(
            "eval.max_new_tokens", eval_tokens, f"does not fit beside a prompt into max_model_len={limit}", "lower it"
        )


def check_truncated_sampling(config: Config) -> None:
    s = config.rollout.sampling
    truncated = {"top_p": s.top_p < 1, "top_k": s.top_k > 0}
    for name, on in truncated.items():
        if on and config.rollout.engine != NATIVE_ENGINE:
            raise refused(
                f"rollout.sampling.{name}",
                getattr(s, name),
                f"needs the kept tokens, which rollout.engine={config.rollout.engine} does not return",
                f"keep every token or use rollout.engine={NATIVE_ENGINE}",
            )


def check_stop_tokens(config: Config) -> None:
    ids = config.rollout.sampling.stop_token_ids
    if any(i < 0 for i in ids):
        raise refused("rollout.sampling.stop_token_ids", ids, "holds a negative id", "name ids of the vocabulary")
    if len(set(ids)) < len(ids):
        raise refused("rollout.sampling.stop_token_ids", ids, "names an id twice", "keep each once")


def check_concurrency(config: Config) -> None:
    r = config.rollout
    if r.max_concurrent_rollouts < r.num_workers:
        raise refused(
            "rollout.max_concurrent_rollouts",
            r.max_concurrent_rollouts,
            f"leaves some of rollout.num_workers={r.num_workers} without a group",
            f"raise it to {r.num_workers} or more",
        )
    if r.max_head_offpolicyness == 0 and r.max_concurrent_rollouts < config.train.batch_size:
        raise refused(
            "rollout.max_concurrent_rollouts",
            r.max_concurrent_rollouts,
            f"splits the synchronous batch of train.batch_size={config.train.batch_size} into several waves",
            f"raise it to {config.train.batch_size} or more",
        )


def check_lagged_clock(config: Config) -> None:
    if config.rollout.max_head_offpolicyness == 0 and config.actor.prox_version_clock == "lagged":
        raise ConfigError(
            "actor.prox_version_clock=lagged under rollout.max_head_offpolicyness=0 makes the approximation the "
            "behavior policy everywhere; use minibatch, or raise the staleness bound.",
            "actor.prox_version_clock",
        )


ROLLOUT_CHECKS = (
    check_engine,
    check_use_v1,
    check_update_path,
    check_engine_arguments,
    check_argument_names,
    check_engine_dtype,
    check_context_length,
    check_truncated_sampling,
    check_stop_tokens,
    check_concurrency,
    check_lagged_clock,
)
