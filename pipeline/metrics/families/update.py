"""Metrics of the policy update: objective, ratios, reference and behavior-weight correction."""

from pipeline.metrics.docs import EXTREMES, STATISTICS, MetricDoc, MetricFamily

P = "ppo_actor/update/"
KL_LOW, KL_HIGH, KL_ALARM = 0.01, 0.1, 0.2  # as actor.kl judges a run

UPDATE = MetricFamily(
    "Policy update",
    "Over the response tokens in the loss, all minibatches and ranks together. The centre of the trust region is "
    "proximal_logprobs, or behavior_logprobs with `actor.use_decoupled_loss: false`.",
    (
        MetricDoc(f"{P}actor_loss/avg", "Policy loss of a minibatch, without KL and entropy terms."),
        MetricDoc(
            f"{P}importance_weight/{STATISTICS}",
            "Policy ratio; of the sequence under GSPO.",
            "r = exp(logprobs − centre)",
            "average 1.0; exactly 1 in the first minibatch",
        ),
        MetricDoc(
            f"{P}behave_imp_weight/{STATISTICS}",
            "Behavior weight after its correction.",
            "w = exp(proximal_logprobs − behavior_logprobs)",
            "average near 1; /max shows tokens that few corrections would leave alone",
        ),
        MetricDoc(f"{P}approx_kl/{STATISTICS}", "Log of the policy ratio.", "mean(logprobs − centre)", "near 0"),
        MetricDoc(
            f"{P}behave_approx_kl/{STATISTICS}",
            "Log of the behavior weight.",
            "mean(proximal_logprobs − behavior_logprobs)",
            "near 0",
        ),
        MetricDoc(
            f"{P}clip_ratio/avg",
            "Tokens whose loss the clip changed.",
            "count ÷ tokens",
            "0 with one minibatch and a decoupled loss; else a few per cent; a jump early in a run means that the "
            "halves disagree",
        ),
        MetricDoc(f"{P}dual_clip_ratio/avg", "Tokens whose loss the dual clip changed.", "count ÷ tokens", "near 0"),
        MetricDoc(
            f"{P}entropy/avg",
            "Entropy of the current policy in nats.",
            "−Σ p log p",
            "falls slowly; a collapse to 0 ends exploration",
        ),
        MetricDoc(
            f"{P}grad_norm/{STATISTICS}",
            "Gradient norm before clipping, over all ranks.",
            "‖g‖₂",
            "steady; spikes that grow come before a collapse",
            log=True,
        ),
        MetricDoc(f"{P}lr/avg", "Learning rate."),
        MetricDoc(
            f"{P}num_skipped_updates/avg",
            "Optimizer steps skipped for a gradient that was not finite or far larger than ever.",
            "",
            "0",
        ),
        MetricDoc(
            f"{P}num_outlier_updates/avg",
            "Of these, those with a norm far outside its history.",
            "count of ‖g‖₂ > max_grad_norm_factor × max(max_grad_norm, median of the last norms)",
            "0",
        ),
        MetricDoc(f"{P}m2_kept_fraction/avg", "Tokens that the second-moment filter keeps.", "count ÷ tokens"),
    ),
)

RL = MetricFamily(
    "Current against sampling policy",
    "What the published engine migration compares: staleness, engine mismatch and this step's update together.",
    (
        MetricDoc(
            "rl/clamp_log_ratio_new_old_indicator",
            "Ratios outside the clip range.",
            "share of exp(logprobs − behavior_logprobs) outside [1 − ε_low, 1 + ε_high]",
            "a few per cent",
        ),
        MetricDoc(
            "rl/kl_new_old",
            "KL(behavior ‖ current), third estimator.",
            "mean(e^x − 1 − x), x = logprobs − behavior_logprobs",
            "small and steady",
            log=True,
        ),
        MetricDoc(
            f"rl/ratio_new_old{EXTREMES}",
            "Current over sampling policy.",
            "exp(logprobs − behavior_logprobs)",
            "average within 1e-3 of 1",
        ),
        MetricDoc("rl/logprobs", "Current policy's logprobs of the sampled tokens.", "", "rises as entropy falls"),
        MetricDoc("rl/entropy", "As ppo_actor/update/entropy."),
        MetricDoc("rl/ess", "Effective sample size of that ratio.", "(Σw)² ÷ (n·Σw²)", "near 1"),
    ),
)

REFERENCE = MetricFamily(
    "Reference policy",
    "Recorded with `actor.kl.coef` above 0. log r = ref_logprobs − logprobs.",
    (
        MetricDoc("actor/kl_loss", "KL term of the loss before its coefficient."),
        MetricDoc(
            "actor/kl_k1",
            "KL to the reference, unbiased and noisy.",
            "mean(−log r)",
            "0.01 to 0.1",
            low=KL_LOW,
            high=KL_HIGH,
            alarm=KL_ALARM,
        ),
        MetricDoc(
            "actor/kl_k2",
            "KL to the reference, low variance.",
            "mean(½ (log r)²)",
            "0.01 to 0.1: healthy; below: hardly moves; above 0.2: drifts, check coefficient and reward",
            low=KL_LOW,
            high=KL_HIGH,
            alarm=KL_ALARM,
        ),
        MetricDoc(
            "actor/kl_k3",
            "KL to the reference, unbiased and never negative.",
            "mean((r − 1) − log r)",
            "0.01 to 0.1; far from kl_k2: the policy has left the reference",
            low=KL_LOW,
            high=KL_HIGH,
            alarm=KL_ALARM,
        ),
    ),
)

CORRECTION = MetricFamily(
    "Behavior-weight correction",
    "Of the units that one weight covers (tokens or sequences), before and after the correction.",
    (
        MetricDoc(
            "behavior_correction/filtered_fraction",
            "Tokens that the correction drops.",
            "count ÷ tokens",
            "small; a large part dropped hides a mismatch",
        ),
        MetricDoc("behavior_correction/ess_before", "Effective sample size before it.", "(Σw)² ÷ (n·Σw²)", "near 1"),
        MetricDoc("behavior_correction/ess_after", "Effective sample size after it."),
        MetricDoc("behavior_correction/max_weight_before", "Largest weight before it.", "", "", log=True),
        MetricDoc("behavior_correction/max_weight_after", "Largest weight after it.", "", "", log=True),
        MetricDoc("behavior_correction/chi2_before", "χ² before it.", "mean(w²) − 1", "near 0"),
        MetricDoc("behavior_correction/chi2_after", "χ² after it.", "mean(w²) − 1"),
    ),
)
