"""Metrics of the proximal policy and of its approximations."""

from pipeline.metrics.docs import MetricDoc, MetricFamily

P = "ppo_actor/update/compute_logp/"
M = P + "{method}/"
GOOD_ERROR, GOOD_PERCENT = 0.01, 1.0

PROXIMAL = MetricFamily(
    "Proximal approximation",
    "Against a forward pass at version v. Errors of every `{method}` (loglinear, linear, and rollout: the behavior "
    "policy itself) are recorded with `actor.prox_logp_method: metrics`; relative errors are percentages.",
    (
        MetricDoc(f"{P}prox_logp_gt/avg", "Mean log-probability of the true proximal policy."),
        MetricDoc(f"{M}approx_logp/avg", "Mean of the approximated log-probability."),
        MetricDoc(
            f"{M}abs_error/avg",
            "Mean absolute error of the log-probability.",
            "mean |approx − truth|",
            "0.001 to 0.01",
            high=GOOD_ERROR,
            log=True,
        ),
        MetricDoc(
            f"{M}rel_error/avg",
            "Mean relative error in per cent.",
            "100 · |approx − truth| ÷ |truth|",
            "0.1 to 1 %",
            high=GOOD_PERCENT,
            log=True,
        ),
        MetricDoc(f"{M}squared_error/avg", "Mean squared error.", "mean (approx − truth)²", "", log=True),
        MetricDoc(
            f"{M}behave_imp_weight/avg", "Approximated behavior weight.", "exp(approx − behavior_logprobs)", "near 1"
        ),
        MetricDoc(
            f"{M}behave_imp_weight_abs_error/avg", "Its absolute error.", "", "0.001 to 0.01", high=GOOD_ERROR, log=True
        ),
        MetricDoc(
            f"{M}behave_imp_weight_rel_error_/avg",
            "Its relative error in per cent.",
            "",
            "0.1 to 1 %",
            high=GOOD_PERCENT,
            log=True,
        ),
        MetricDoc(f"{M}importance_weight/avg", "Approximated policy ratio.", "exp(logprobs − approx)", "near 1"),
        MetricDoc(
            f"{M}importance_weight_abs_error_/avg",
            "Its absolute error.",
            "",
            "0.001 to 0.01",
            high=GOOD_ERROR,
            log=True,
        ),
        MetricDoc(
            f"{M}importance_weight_rel_error_/avg",
            "Its relative error in per cent.",
            "",
            "0.1 to 1 %",
            high=GOOD_PERCENT,
            log=True,
        ),
    ),
)
