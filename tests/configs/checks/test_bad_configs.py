"""Every config that cannot work is refused with one sentence that names the key, the value and the remedy."""

import pytest

from configs.checks.validate import CHECKS
from configs.errors import ConfigError
from configs.loading.loader import load_config
from configs.schema import Config
from tests.configs.good import GOOD

CORRECTION = "actor.behavior_correction"
KWARGS = "rollout.vllm_config.vllm_kwargs"

# (overrides, fragments that the sentence must hold)
UNKNOWN_KEYS = [
    ("actor.prox_logp_methd=reuse", "actor.prox_logp_methd=reuse", "actor.prox_logp_method"),
    ("vllm_config.use_v1=true", "put it under rollout", "rollout.vllm_config.use_v1"),
    ("vllm_config={use_v1: true}", "put it under rollout", "rollout.vllm_config"),
    ("actor.lr=1e-5", "nearest key is actor.optimizer.lr"),
    ("actor.kl_ctl=0.1", "actor.kl.coef"),
    ("rollout.temperature=1", "rollout.sampling.temperature"),
    ("n_samples=4", "put it under rollout.sampling"),
    ("modle.path=x", "nearest key is model.path"),
    ("num_generations=8", "rollout.sampling.n_samples"),
    ("zzzzzz=1", "the sections are run, scheduler, model"),
    ("actor.optimizer.learning_rate=1", "actor.optimizer.lr"),
]
WRONG_TYPES = [
    ("train.total_steps=ten", "train.total_steps=ten is not a whole number", "the command line"),
    ("train.batch_size=2.5", "train.batch_size=2.5 is not a whole number"),
    ("train.batch_size=null", "train.batch_size=null is not a whole number"),
    ("actor.num_workers=true", "actor.num_workers=true is not a whole number", "the default is 1"),
    ("actor.use_decoupled_loss=3", "is not true or false", "the default is true"),
    ("actor.use_decoupled_loss=maybe", "is not true or false"),
    ("actor.optimizer.lr=fast", "actor.optimizer.lr=fast is not a number"),
    ("actor.c_clip=big", "is not a number, or null"),
    ("rollout.sampling.stop_token_ids=3", "a list of whole numbers such as [1, 2]"),
    ("rollout.sampling.stop_token_ids=[a]", "a list of whole numbers such as [1, 2]"),
    (f"{KWARGS}=[1]", "is not a mapping of names to values"),
    ("actor=3", "actor=3 is a section", "actor.num_workers"),
    ("actor.kl=k2", "actor.kl=k2 is a section", "actor.kl.type"),
]
UNDECLARED_CHOICES = [
    ("actor.prox_logp_method=rollout", "recompute, reuse, loglinear, linear, metrics", "use_decoupled_loss=false"),
    ("actor.prox_logp_method=loglin", "the nearest is loglinear"),
    ("actor.objective=grpo", "ppo, gspo, cispo, reinforce, sapo", "baseline=group_mean"),
    ("actor.kl.type=k4", "k1, k2, k3, k3+, abs"),
    ("actor.kl.place=rewards", "the nearest is reward"),
    ("actor.loss_agg_mode=seq-mean", "the nearest is seq-mean-token"),
    ("actor.deepspeed.zero_stage=4", "one of 0, 1, 2, 3"),
    ("scheduler.type=null", "one of local, ray"),
    ("scheduler.type=slurm", "start Ray on the nodes and use ray"),
    ("model.dtype=bf16", "use bfloat16"),
    ("model.dtype=float16", "use bfloat16"),
    ("actor.attn_implementation=flash", "the nearest is flash_attention_2"),
]
OUT_OF_RANGE = [
    ("rollout.sampling.temperature=0", "rollout.sampling.temperature=0.0 must be > 0", "no logprob to train on"),
    ("rollout.sampling.temperature=-1", "must be > 0"),
    ("rollout.sampling.top_p=1.5", "must be > 0 and ≤ 1", "use 1 to keep every token"),
    ("rollout.sampling.top_k=-1", "must be ≥ 0", "use 0 to keep every token"),
    ("rollout.sampling.n_samples=0", "must be ≥ 1"),
    ("rollout.sampling.max_new_tokens=0", "must be ≥ 1"),
    ("rollout.max_head_offpolicyness=-1", "use 0 for synchronous training"),
    ("rollout.weight_sync.probe_tokens=1", "the first token has no logprob"),
    ("actor.eps_clip=0", "actor.eps_clip=0.0 must be > 0 and < 1"),
    ("actor.eps_clip=1.2", "must be > 0 and < 1"),
    ("actor.eps_clip_higher=-0.1", "use null for eps_clip"),
    ("actor.c_clip=1", "actor.c_clip=1.0 must be > 1", "use null for no dual clip"),
    ("actor.c_clip=0.5", "must be > 1"),
    ("actor.optimizer.lr=-1e-5", "actor.optimizer.lr=-1e-05 must be ≥ 0"),
    ("actor.optimizer.lr=.nan", "actor.optimizer.lr=nan must be ≥ 0"),
    ("actor.advantage.reward_bias=.inf", "must be finite"),
    ("actor.optimizer.beta2=1", "must be ≥ 0 and < 1"),
    ("actor.optimizer.max_grad_norm_factor=1", "max_grad_norm_factor=1.0 must be > 1", "use null"),
    ("actor.kl.coef=-0.1", "use 0 for no KL term"),
    ("actor.advantage.gamma=1.1", "must be ≥ 0 and ≤ 1"),
    ("train.total_steps=0", "must be ≥ 1"),
    ("checkpoint.keep=0", "must be ≥ 1"),
    ("dataset.limit=0", "use null for all rows"),
    (f"{CORRECTION}.mode=truncate {CORRECTION}.upper=0.5", "must be ≥ 1", "on-policy"),
    (f"{CORRECTION}.mode=mask {CORRECTION}.lower=1.5", "must be ≥ 0 and ≤ 1", "on-policy"),
]
PROXIMAL = [
    (
        "actor.use_decoupled_loss=false actor.prox_logp_method=loglinear",
        "no proximal policy",
        "use_decoupled_loss=true",
    ),
    (
        "actor.use_decoupled_loss=false actor.prox_logp_method=linear",
        "actor.prox_logp_method=linear",
        "use_decoupled_loss=true",
    ),
    ("actor.use_decoupled_loss=false actor.prox_logp_method=reuse", "use_decoupled_loss=true"),
    ("actor.use_decoupled_loss=false actor.prox_logp_method=metrics", "use_decoupled_loss=true"),
    ("actor.prox_version_clock=step", "actor.prox_version_clock=step has no effect", "loglinear or linear or metrics"),
    ("actor.prox_logp_method=reuse actor.prox_version_clock=lagged", "only the approximations count versions"),
    (
        "actor.prox_logp_method=loglinear actor.prox_version_clock=lagged rollout.max_head_offpolicyness=0",
        "the behavior policy everywhere",
    ),
]
OBJECTIVE = [
    (f"{CORRECTION}.upper=2", f"{CORRECTION}.mode=none", "nothing is bounded"),
    (f"{CORRECTION}.mode=truncate", f"needs {CORRECTION}.upper"),
    (f"{CORRECTION}.mode=truncate {CORRECTION}.lower=0.5", f"needs {CORRECTION}.upper"),
    (f"{CORRECTION}.mode=mask", f"needs {CORRECTION}.lower or"),
    (f"{CORRECTION}.mode=mask {CORRECTION}.lower=1 {CORRECTION}.upper=1", "is not below"),
    (f"actor.use_decoupled_loss=false {CORRECTION}.mode=truncate {CORRECTION}.upper=2", "no behavior weight"),
    (
        f"actor.objective=gspo {CORRECTION}.mode=truncate {CORRECTION}.upper=2 {CORRECTION}.level=sequence",
        "is ignored by actor.objective=gspo",
    ),
    ("actor.objective=gspo actor.c_clip=3", "actor.c_clip=3.0 is ignored by actor.objective=gspo"),
    ("actor.objective=reinforce actor.eps_clip=0.3", "is ignored by actor.objective=reinforce"),
    ("actor.sapo_temperature_pos=2", "is ignored by actor.objective=ppo"),
    ("actor.m2_threshold=0.04 actor.prox_logp_method=loglinear", "actor.m2_threshold"),
    ("actor.loss_agg_mode=token-sum-const", "needs actor.loss_agg_const", "256"),
    ("actor.loss_agg_const=100", "actor.loss_agg_mode=token-mean", "no other aggregation divides by it"),
    ("actor.kl.type=k3", "actor.kl.type=k3 has no effect under actor.kl.coef=0.0"),
    ("actor.kl.place=reward", "no KL term without a coefficient"),
    ("actor.kl.reset_ref_every=5", "no reference model without a KL coefficient"),
    ("actor.kl.coef=0.01 actor.kl.place=reward actor.kl.type=k3+", "use k3"),
    ("actor.kl.coef=0.01 actor.kl.reset_ref_every=10", "never happens within train.total_steps=10"),
]
ADVANTAGE = [
    ("rollout.sampling.n_samples=1", "n_samples=1 makes every advantage 0", "baseline=group_mean"),
    ("rollout.sampling.n_samples=1 actor.advantage.baseline=leave_one_out", "baseline=leave_one_out"),
    ("rollout.sampling.n_samples=1 actor.advantage.baseline=none", "scale=group_std"),
    (
        "rollout.sampling.n_samples=1 actor.advantage.baseline=none actor.advantage.scale=none "
        "actor.advantage.zero_variance=resample",
        "zero_variance=resample",
    ),
    ("actor.advantage.overlong_buffer=256", "max_new_tokens=256"),
    ("actor.advantage.overlong_penalty=2", "no penalty without a buffer"),
    ("actor.advantage.overlong_buffer=8 actor.advantage.overlong_penalty=0", "do nothing"),
]
TRAINER = [
    ("actor.ppo_n_minibatches=9", "above train.batch_size=8", "use 8 or fewer"),
    ("actor.ppo_n_minibatches=3", "does not divide train.batch_size=8", "use 2, or a batch of 6 or 9"),
    ("actor.num_workers=65", "above the 64 sequences of a minibatch"),
    ("actor.max_tokens_per_microbatch=700", "= 768", "no sequence is cut"),
    ("actor.attn_implementation=flash_attention_2 model.dtype=float32", "model.dtype=float32"),
    ("actor.optimizer.warmup_steps=10", "is not below train.total_steps=10"),
    ("actor.optimizer.min_lr_ratio=0.1", "schedule=constant", "use linear or cosine"),
    ("actor.deepspeed.offload_optimizer=true", "zero_stage=0", "use stage 1, 2 or 3"),
    ("actor.lora.rank=8 actor.lora.dropout=0.1", "actor.lora.dropout=0.1", "differ from the sampler's", "use 0"),
    ("actor.lora.alpha=8", "no effect under actor.lora.rank=0"),
    ("actor.lora.rank=8 actor.lora.target_modules=[]", "leaves nothing to train"),
]
ENGINE = [
    ("rollout.engine=vllm-v2", "the nearest is vllm-v1"),
    ("rollout.weight_sync.pause_mode=wait", "rollout.engine=vllm-v1", "vllm-0.18.1-v1"),
    ("rollout.weight_sync.clear_cache=true", "is not a way in which"),
    ("rollout.episode=my_episode", "write module:function or file.py:function"),
    ("rollout.vllm_config.use_v1=false", "contradicts rollout.engine=vllm-v1", "vllm-0.8.5-v0"),
    ("rollout.engine=vllm-0.8.5-v0", "use_v1=true contradicts", "vllm-v1"),
    (f"{KWARGS}.logprobs_mode=raw_logprobs", "ignore the temperature", "use processed_logprobs", "allow_disagreement"),
    (f"{KWARGS}.enable-prefix-caching=true", f"{KWARGS}.enable_prefix_caching=true", "use false"),
    (f"{KWARGS}.async_scheduling=true", "inside an engine step", "use false"),
    (f"{KWARGS}.disable_cascade_attn=false", "use true"),
    (f"{KWARGS}.hf_overrides={{head_dtype: bfloat16}}", "head_dtype: float32"),
    (f"{KWARGS}.hf_overrides.rope_theta=10", "in the engine only"),
    (f"{KWARGS}.quantization=fp8", "rounds the weights in the engine only"),
    (f"{KWARGS}.kv_cache_dtype=fp8", "rounds keys and values", "use auto"),
    (f"{KWARGS}.speculative_config={{method: ngram}}", "draft-verified"),
    (f"{KWARGS}.generation_config=auto", "use vllm"),
    (f"{KWARGS}.dtype=float16", "differs from model.dtype=bfloat16", "set model.dtype"),
    (f"{KWARGS}.load_format=dummy", "random weights"),
    (f"{KWARGS}.max_num_seq=8", "is not an argument of vLLM 0.32", "max_num_seqs"),
    (f"{KWARGS}.model=other", "set model.path"),
    (f"{KWARGS}.tensor-parallel-size=2", "set rollout.tensor_parallel_size"),
    (f"{KWARGS}.seed=2", "set run.seed"),
    (f"{KWARGS}.temperature=0.5", "set rollout.sampling.temperature"),
    (f"{KWARGS}.max_model_len=200", "leaves no room for a prompt"),
    (f"{KWARGS}.max_model_len=700", "max_prompt_tokens + rollout.sampling.max_new_tokens = 768"),
    (f"{KWARGS}.max_model_len=long", "is not a length in tokens"),
    (f"{KWARGS}.max_model_len=800 eval.max_new_tokens=512", "eval.max_new_tokens=512"),
    ("rollout.allow_disagreement=[enable_prefix_cachin]", "did you mean enable_prefix_caching?"),
    ("rollout.engine=vllm-0.18.1-v1 rollout.sampling.top_p=0.9", "does not return", "vllm-v1"),
    ("rollout.sampling.stop_token_ids=[-1]", "negative id"),
    ("rollout.sampling.stop_token_ids=[2,2]", "twice"),
    ("rollout.num_workers=4 rollout.max_concurrent_rollouts=3", "rollout.num_workers=4", "raise it to 4"),
    ("rollout.max_head_offpolicyness=0 rollout.max_concurrent_rollouts=4", "synchronous batch", "raise it to 8"),
]
RUN = [
    ("run.name=a/b", "contains a slash", "run.dir"),
    ("run.name=..", "is not a plain name"),
    ("run.dir=' '", "is empty"),
    ("scheduler.address=auto", "ignored under scheduler.type=local"),
    ("scheduler.type=ray scheduler.address=head", "is no address of a cluster", "HOST:PORT"),
    (
        "scheduler.type=ray scheduler.address=ray://head:10001",
        "is no address of a cluster",
        "on a machine of the cluster",
    ),
    ("model.path=", "is empty"),
    ("dataset.path=data/a.jsonl", "leaves no held-out data", "eval.num_samples=0"),
    ("dataset.path=data/a.jsonl eval.path=data/a.jsonl", "trained on"),
    ("eval.split=train", "trained on"),
    ("eval.path=data/b.jsonl eval.split=validation", "does not exist in the local file"),
    ("dataset.path=data/a.jsonl eval.path=data/b.jsonl dataset.name=socratic", "dataset.name=null"),
    ("dataset.path=data/a.jsonl eval.path=data/b.jsonl dataset.split=test", "dataset.split=test does not exist"),
    ("dataset.answer_column=question", "gives the answer away"),
    ("dataset.prompt_column=''", "dataset.prompt_column='' is empty"),
    ("dataset.system_prompt=hello dataset.chat_template=never", "chat_template=never"),
    ("reward.function=my_reward", "write module:function or file.py:function"),
    ("reward.function=tasks/my_reward:score", "is no import path"),
    ("trackers.wandb_offline=false", "without trackers.wandb_project"),
    ("trackers.wandb_project=' '", "is empty"),
    ("trackers.trackio_project=' '", "is empty"),
]
NO_OVERRIDE = [
    ("actor.eps_clip", "is not key=value", "actor.eps_clip=VALUE"),
    ("--actor.eps_clip=0.1", "write actor.eps_clip=0.1"),
    ("+actor.eps_clip=0.1", "write actor.eps_clip=0.1"),
    ("actor.optimizer.lr=[1", "is not valid YAML", "quotes"),
    ("run.dir=${no.such.key}", "run.dir refers to something that does not exist"),
]
TABLE = [
    *UNKNOWN_KEYS,
    *WRONG_TYPES,
    *UNDECLARED_CHOICES,
    *OUT_OF_RANGE,
    *PROXIMAL,
    *OBJECTIVE,
    *ADVANTAGE,
    *TRAINER,
    *ENGINE,
    *RUN,
    *NO_OVERRIDE,
]


def overrides_of(text: str) -> list[str]:
    """Overrides are separated by spaces that a new key follows."""
    parts: list[str] = []
    for word in text.split(" "):
        if parts and ("=" not in word or parts[-1].count("{") > parts[-1].count("}")):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


@pytest.mark.parametrize("case", TABLE, ids=[case[0] for case in TABLE])
def test_refused(case: tuple[str, ...]) -> None:
    overrides, *fragments = case
    with pytest.raises(ConfigError) as caught:
        load_config(None, [*GOOD, *overrides_of(overrides)])
    message = str(caught.value)
    assert all(fragment in message for fragment in fragments), message
    assert "\n" not in message and message[-1] in ".?", message


def test_the_smallest_config_is_accepted() -> None:
    assert load_config(None, GOOD).train.batch_size == 8


def test_all_missing_values_are_named_together() -> None:
    with pytest.raises(ConfigError, match=r"model.path, train.total_steps, train.batch_size have no value; set model"):
        load_config(None)
    with pytest.raises(ConfigError, match=r"train.batch_size has no value; set train.batch_size=VALUE"):
        load_config(None, GOOD[:2])


def first_refusing(config: Config) -> str | None:
    for check in CHECKS:
        try:
            check(config)
        except ConfigError:
            return check.__name__
    return None


def test_every_check_refuses_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configs.loading.loader.validate", lambda config: None)
    cross_field = [*OUT_OF_RANGE, *PROXIMAL, *OBJECTIVE, *ADVANTAGE, *TRAINER, *ENGINE, *RUN]
    refusing = {first_refusing(load_config(None, [*GOOD, *overrides_of(case[0])])) for case in cross_field}
    assert refusing == {check.__name__ for check in CHECKS}
