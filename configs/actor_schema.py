"""Config of the trained policy: objective, proximal policy, corrections, optimizer, DeepSpeed."""

from dataclasses import dataclass, field
from typing import Literal

from configs.fields import doc


@dataclass
class KLConfig:
    type: Literal["k1", "k2", "k3", "k3+", "abs"] = doc("k2", "Estimator of KL(current ‖ reference).")
    coef: float = doc(0.0, "Weight of the KL term; 0 loads no reference model.")
    place: Literal["loss", "reward"] = doc("loss", "Add the KL to the loss or subtract it from token rewards.")
    reset_ref_every: int = doc(0, "Steps after which the reference becomes the current policy; 0 never.")


@dataclass
class BehaviorCorrectionConfig:
    mode: Literal["none", "truncate", "mask"] = doc("none", "What is done with behavior weights outside the bounds.")
    level: Literal["token", "sequence", "geometric"] = doc("token", "What one behavior weight covers.")
    lower: float | None = doc(None, "Lower bound of the weight; null means none.")
    upper: float | None = doc(None, "Upper bound of the weight; null means none.")
    token_veto: float | None = doc(None, "Drop a sequence that holds a token whose weight is below this.")


@dataclass
class AdvantageConfig:
    baseline: Literal["group_mean", "leave_one_out", "batch_mean", "none"] = doc(
        "group_mean", "What is subtracted from rewards."
    )
    scale: Literal["group_std", "batch_std", "none"] = doc("group_std", "What centred rewards are divided by.")
    gamma: float = doc(1.0, "Discount of token-level rewards.")
    lam: float = doc(1.0, "λ of generalized advantage estimation over token-level rewards.")
    reward_scale: float = doc(1.0, "Rewards are multiplied by this, after the bias.")
    reward_bias: float = doc(0.0, "Added to each reward before scaling.")
    reward_clip: float | None = doc(None, "Rewards are clipped to ± this after scaling; null means never.")
    overlong_buffer: int = doc(0, "Tokens before max_new_tokens in which a soft penalty grows; 0 means none.")
    overlong_penalty: float = doc(1.0, "Penalty at max_new_tokens when overlong_buffer is set.")
    mask_truncated: bool = doc(False, "Leave completions that hit max_new_tokens out of the loss.")
    zero_variance: Literal["keep", "filter", "resample"] = doc(
        "keep", "Groups with equal rewards: keep, leave out of the loss, or replace by new groups."
    )


@dataclass
class OptimizerConfig:
    lr: float = doc(1e-6, "Peak learning rate.")
    weight_decay: float = doc(0.01, "AdamW weight decay.")
    beta1: float = doc(0.9, "AdamW β1.")
    beta2: float = doc(0.999, "AdamW β2.")
    eps: float = doc(1e-8, "AdamW ε.")
    max_grad_norm: float = doc(1.0, "Gradient norm clip; 0 means none.")
    max_grad_norm_factor: float | None = doc(
        100.0,
        "Skip an update whose gradient norm exceeds this many times the larger of max_grad_norm and the median of the "
        "last 100 applied updates, after at least 20; null never.",
    )
    max_skipped_steps: int = doc(
        10, "Stop after so many steps in a row without a usable gradient, the batch saved for `replay`; 0 never."
    )
    schedule: Literal["constant", "linear", "cosine"] = doc("constant", "Learning-rate schedule after warm-up.")
    warmup_steps: int = doc(0, "Training steps of linear warm-up.")
    min_lr_ratio: float = doc(0.0, "Final learning rate of linear and cosine as a fraction of lr.")


@dataclass
class DeepSpeedConfig:
    zero_stage: Literal[0, 1, 2, 3] = doc(
        0,
        "ZeRO stage; bfloat16 trains on sharded float32 master weights, so 0 runs as stage 1 there (summary.json tells "
        "the stage that ran).",
    )
    offload_optimizer: bool = doc(False, "Keep optimizer states in host memory (ZeRO 1 to 3, GPUs).")


@dataclass
class LoraConfig:
    rank: int = doc(0, "LoRA rank; 0 trains all weights.")
    alpha: float = doc(32.0, "LoRA α.")
    dropout: float = doc(0.0, "LoRA dropout; other than 0 breaks train-inference agreement and is refused.")
    target_modules: list[str] = doc(["q_proj", "k_proj", "v_proj", "o_proj"], "Modules that get an adapter.")


@dataclass
class ActorConfig:
    num_workers: int = doc(1, "Trainer ranks.")
    objective: Literal["ppo", "gspo", "cispo", "reinforce", "sapo"] = doc("ppo", "Policy objective.")
    use_decoupled_loss: bool = doc(True, "Decoupled PPO: proximal and behavior policy kept apart.")
    prox_logp_method: Literal["recompute", "reuse", "loglinear", "linear", "metrics"] = doc(
        "recompute", "How the proximal log-probabilities are obtained."
    )
    prox_version_clock: Literal["minibatch", "step", "lagged"] = doc(
        "minibatch", "Version of the current policy that loglinear and linear assume."
    )
    eps_clip: float = doc(0.2, "Lower clip range ε_low of the policy ratio.")
    eps_clip_higher: float | None = doc(None, "Upper clip range ε_high; null means eps_clip.")
    c_clip: float | None = doc(None, "Dual clip for negative advantages, > 1; null means none.")
    sapo_temperature_pos: float = doc(1.0, "SAPO gate temperature for positive advantages.")
    sapo_temperature_neg: float = doc(1.05, "SAPO gate temperature for negative advantages.")
    m2_threshold: float | None = doc(None, "M2PO: mask tokens until the second moment of log-ratios is below this.")
    loss_agg_mode: Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "token-sum-const"] = doc(
        "token-mean", "How token losses become one number."
    )
    loss_agg_const: float | None = doc(None, "Constant that token-sum-const divides each sequence by.")
    entropy_coef: float = doc(0.0, "Weight of the entropy bonus.")
    ppo_n_minibatches: int = doc(1, "Optimizer steps a training step.")
    max_tokens_per_microbatch: int = doc(
        4096, "Token budget of one packed micro-batch; a prompt counts for each of its completions."
    )
    logprob_chunk_tokens: int = doc(256, "Rows of the lm_head computed at a time; memory is chunk × vocabulary.")
    gradient_checkpointing: bool = doc(False, "Recompute activations in the backward pass.")
    attn_implementation: Literal["auto", "sdpa", "eager", "flash_attention_2"] = doc(
        "auto",
        "auto takes flash attention on GPUs where installed; elsewhere sdpa, a prompt computed once for all of its "
        "completions in a micro-batch.",
    )
    num_threads: int = doc(0, "CPU threads of one trainer rank; 0 lets the run divide the machine's cores.")
    timeout_s: float = doc(3600.0, "Longest a call of the trainer may take before the run ends at its last checkpoint.")
    kl: KLConfig = field(default_factory=KLConfig)
    behavior_correction: BehaviorCorrectionConfig = field(default_factory=BehaviorCorrectionConfig)
    advantage: AdvantageConfig = field(default_factory=AdvantageConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    deepspeed: DeepSpeedConfig = field(default_factory=DeepSpeedConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
