"""The catalogue of recorded metrics. δ = proximal_logprobs − behavior_logprobs; sums run over response tokens."""

from pipeline.metrics.docs import EXTREMES, STATISTICS, MetricDoc, MetricFamily
from pipeline.metrics.families.agreement import AGREEMENT, WEIGHT_SYNC
from pipeline.metrics.families.proximal import PROXIMAL
from pipeline.metrics.families.update import CORRECTION, REFERENCE, RL, UPDATE

OUTCOME = MetricFamily(
    "Outcome",
    "What the run is for.",
    (
        MetricDoc(
            f"rl/reward{EXTREMES}",
            "Reward of the completions that the step trained on, before shaping.",
            "mean over completions",
            "rises; with equal rewards in every group nothing is learnt",
        ),
        MetricDoc(f"rl/shaped_reward{EXTREMES}", "Reward after bias, scale, clip and overlong penalty."),
        MetricDoc(f"rl/advantage{EXTREMES}", "Advantage of the tokens in the loss.", "", "mean near 0"),
        MetricDoc("eval/reward", "Mean reward on held-out problems.", "mean over problems", "rises with rl/reward"),
        MetricDoc("eval/stderr", "Its standard error.", "√(variance ÷ problems)"),
        MetricDoc("eval/num_problems", "Held-out problems that were answered and scored."),
        MetricDoc("eval/num_failed_rewards", "Held-out problems left out because their reward failed.", "", "0"),
        MetricDoc("eval/response_tokens", "Mean length of the held-out completions in tokens."),
        MetricDoc("rl/response_tokens", "Mean length of a completion in tokens.", "", "no sudden growth or collapse"),
        MetricDoc(
            "rl/truncated_fraction",
            "Completions that hit max_new_tokens.",
            "count ÷ completions",
            "near 0; raise rollout.sampling.max_new_tokens otherwise",
        ),
        MetricDoc(
            "rl/reward_failures",
            "Rewards and episodes that failed since the step before, those of dropped groups as well.",
            "",
            "0",
        ),
        MetricDoc(
            "advantages/num_zero_variance_groups",
            "Groups in which every reward is equal: they teach nothing.",
            "",
            "well below train.batch_size",
        ),
        MetricDoc("advantages/num_failed_rewards", "Completions left out because their reward failed.", "", "0"),
        MetricDoc("advantages/num_truncated", "Completions with a reward that hit max_new_tokens."),
        MetricDoc("advantages/num_sequences_outside_loss", "Completions masked by zero_variance or mask_truncated."),
    ),
)

STALENESS = MetricFamily(
    "Staleness and buffer",
    "Lag of a token = v − version(token), counted when it is consumed. Counts of drops run from the start of the run.",
    (
        MetricDoc(
            f"rl/lag{EXTREMES}",
            "Lag of the tokens in the loss.",
            "mean(v − version)",
            "at most rollout.max_head_offpolicyness",
        ),
        MetricDoc("rl/num_multi_version", "Completions that lived through a weight update."),
        MetricDoc(f"version_stats/behavior_version/{STATISTICS}", "Versions of the weights that sampled the tokens."),
        MetricDoc("version_stats/proximal_version/avg", "Version v of the proximal policy."),
        MetricDoc("version_stats/current_version/avg", "Version of the current policy, over minibatches.", "v + i/n"),
        MetricDoc(f"version_stats/lag/{STATISTICS}", "Lag of the tokens in the loss."),
        MetricDoc(
            "buffer/num_groups",
            "Groups that wait for the trainer.",
            "",
            "0 all the time: the trainer waits for the sampler; full all the time: the sampler waits",
        ),
        MetricDoc("buffer/num_running", "Groups in flight."),
        MetricDoc("buffer/num_dropped_stale", "Groups dropped at consumption, too old by then.", "", "rare"),
        MetricDoc(
            "buffer/num_dropped",
            "Groups given up for another reason: equal rewards (zero_variance: resample), prompts that timed out, "
            "or no episode that succeeded.",
        ),
        MetricDoc("buffer/num_requeued", "Prompts put back to be asked again.", "", "rare"),
        MetricDoc("buffer/num_worker_restarts", "Rollout workers replaced.", "", "0"),
    ),
)

SPEED = MetricFamily(
    "Time and speed",
    "Seconds are wall-clock time. A step is: wait for a batch, build it, train, wait for the workers' update, "
    "publish, write trajectories.",
    (
        MetricDoc("throughput/generated_tokens_per_s", "Tokens sampled in the step.", "tokens ÷ step time"),
        MetricDoc("throughput/trained_tokens_per_s", "Tokens trained on.", "tokens ÷ training time"),
        MetricDoc(
            "pipeline/bubble_fraction",
            "Part of the step in which the trainer waited.",
            "wait_batch ÷ step",
            "small; raise rollout.max_head_offpolicyness or add rollout workers otherwise",
        ),
        MetricDoc("timing/step_s", "The whole step."),
        MetricDoc("timing/wait_batch_s", "Waiting for enough groups."),
        MetricDoc("timing/build_batch_s", "Advantages and packing plan."),
        MetricDoc("timing/parity_s", "Scoring fresh completions at the trainer's own version (consistency.every)."),
        MetricDoc("timing/train_s", "The training step on all ranks."),
        MetricDoc("timing/pack_s", "Rank 0: packing micro-batches."),
        MetricDoc(
            "timing/proximal_forward_s",
            "Rank 0: forward passes at version v.",
            "",
            "0 under loglinear and linear, and under reuse with one minibatch",
        ),
        MetricDoc("timing/forward_backward_s", "Rank 0: forward, loss and backward passes."),
        MetricDoc("timing/optimizer_s", "Rank 0: optimizer steps."),
        MetricDoc("timing/proximal_record_s", "Rank 0: handing out the proximal logprobs that the step computed."),
        MetricDoc("timing/reference_reset_s", "Rank 0: making the current policy the reference."),
        MetricDoc(
            "timing/wait_update_s",
            "Waiting until the workers hold the version published before.",
            "",
            "near 0: the update runs beside the training step",
        ),
        MetricDoc("timing/publish_s", "Gathering and writing the new weights."),
        MetricDoc("timing/write_trajectories_s", "Writing RUN/trajectories."),
        MetricDoc("timing/eval_s", "Evaluation; no part of the step."),
    ),
)

FAMILIES: tuple[MetricFamily, ...] = (
    OUTCOME,
    AGREEMENT,
    WEIGHT_SYNC,
    UPDATE,
    RL,
    REFERENCE,
    CORRECTION,
    PROXIMAL,
    STALENESS,
    SPEED,
)
