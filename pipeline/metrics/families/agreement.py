"""Metrics of how far sampler and trainer are apart, and of the weight update that keeps them together."""

from pipeline.metrics.docs import MetricDoc, MetricFamily

BUCKET = "mismatch/{bucket}"

AGREEMENT = MetricFamily(
    "Agreement of sampler and trainer",
    "δ = proximal_logprobs − behavior_logprobs. Each is recorded over all tokens (`mismatch/…`), for sequences that "
    "lived under one version by lag (`mismatch/lag_{k}/…`) and for tokens sampled after an update within their own "
    "sequence (`mismatch/stale_kv/…`). Lag 0 measures the engine alone; lag ≥ 1 adds staleness.",
    (
        MetricDoc(
            f"{BUCKET}abs_logp_diff",
            "Mean absolute difference of the log-probabilities.",
            "mean |δ|",
            "lag 0: 1e-6 to 1e-4 in float32, 1e-3 to 1e-2 in bfloat16; it grows with the lag",
            log=True,
        ),
        MetricDoc(
            f"{BUCKET}rel_logp_diff",
            "Mean relative difference.",
            "mean |δ| ÷ |behavior_logprobs|",
            "below 1 % at lag 0",
            log=True,
        ),
        MetricDoc(
            f"{BUCKET}kl_k1",
            "KL(behavior ‖ proximal), first estimator.",
            "mean(−δ)",
            "lag 0: around 0, of both signs",
        ),
        MetricDoc(
            f"{BUCKET}kl_k3",
            "KL(behavior ‖ proximal), third estimator.",
            "mean(e^δ − 1 − δ)",
            "near 0; read it beside the other direction, for rare tokens can explode in one",
            log=True,
        ),
        MetricDoc(f"{BUCKET}kl_k1_reverse", "KL(proximal ‖ behavior) on the same samples.", "mean(e^δ · δ)"),
        MetricDoc(
            f"{BUCKET}kl_k3_reverse",
            "KL(proximal ‖ behavior), third estimator.",
            "mean(1 − e^δ + e^δ · δ)",
            "near 0",
            log=True,
        ),
        MetricDoc(
            f"{BUCKET}prob_diff_mean",
            "Mean difference of the probabilities.",
            "mean |p_proximal − p_behavior|",
            "lag 0: as abs_logp_diff",
            log=True,
        ),
        MetricDoc(
            f"{BUCKET}prob_diff_max",
            "Largest difference of a probability.",
            "max |p_proximal − p_behavior|",
            "a few tokens near 1 at lag 0: one kernel differs badly",
            log=True,
        ),
        MetricDoc(
            f"{BUCKET}prob_corr",
            "Pearson's correlation of the probabilities.",
            "corr(p_proximal, p_behavior)",
            "lag 0: above 0.99",
        ),
        MetricDoc(
            f"{BUCKET}ess",
            "Effective sample size of w = e^δ, as a fraction of the tokens.",
            "(Σw)² ÷ (n·Σw²)",
            "near 1; at 0.5 half of the batch is worth nothing",
        ),
        MetricDoc(f"{BUCKET}chi2", "χ² divergence of the two policies.", "mean(w²) − 1", "near 0"),
    ),
)

WEIGHT_SYNC = MetricFamily(
    "Weight updates",
    "Of the slowest worker, for the version that was published the step before. Requests go on around the pause.",
    (
        MetricDoc("weight_sync/publish_s", "The trainer's turn: gather, write, score the probe."),
        MetricDoc("weight_sync/pause_s", "Until the engine was paused, requests kept."),
        MetricDoc("weight_sync/load_s", "Loading the weights."),
        MetricDoc("weight_sync/verify_s", "Checking what was loaded, and the probe."),
        MetricDoc("weight_sync/resume_s", "Until the engine ran again."),
        MetricDoc(
            "weight_sync/probe_mean_abs_diff",
            "A fixed sequence, scored by engine and trainer with the new weights.",
            "mean |engine − trainer|",
            "below rollout.weight_sync.probe_limit (1e-3 in float32, 0.1 in bfloat16), or the worker is replaced",
            log=True,
        ),
        MetricDoc("weight_sync/probe_max_abs_diff", "The largest difference of the probe.", "", "", log=True),
        MetricDoc("weight_sync/num_workers", "Workers that proved the update.", "", "rollout.num_workers"),
        MetricDoc("weight_sync/num_tensors_checked", "Tensors whose content was compared.", "", "all of the model's"),
    ),
)
