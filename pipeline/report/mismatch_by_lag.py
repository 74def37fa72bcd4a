"""How sampler and trainer differ for tokens of each lag: the buckets of `mismatch/…`, averaged over steps."""

import re
from collections.abc import Mapping

from pipeline.report.series import Series

_LAG = re.compile(r"mismatch/lag_(\d+)/abs_logp_diff")
STALE = "mismatch/stale_kv/abs_logp_diff"


def mismatch_by_lag(series: Mapping[str, Series]) -> dict[str, float]:
    """Label → mean |δ|: lags "0", "1", …, and "stale kv" for tokens sampled after an update within their sequence.

    The mean is over the steps that recorded the bucket, each step weighing the same.
    """
    lags = sorted((int(m[1]), name) for name in series if (m := _LAG.fullmatch(name)))
    means = {str(lag): float(series[name].values.mean()) for lag, name in lags}
    if STALE in series:
        means["stale kv"] = float(series[STALE].values.mean())
    return means
