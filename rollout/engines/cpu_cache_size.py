"""The size of the key-value cache of older engines on a CPU, which take it from an environment variable."""

import math
import os
from types import SimpleNamespace

from configs.schema import Config
from rollout.engines.language_model import language_model_json
from rollout.engines.v1_current.arguments import cpu_kv_cache_bytes, kv_shape

VARIABLE = "VLLM_CPU_KVCACHE_SPACE"  # whole GiB


def set_cache_size(config: Config) -> None:
    """Room for every sequence at full length; what the user has set stays."""
    shape = kv_shape(SimpleNamespace(**language_model_json(config.model.path)))
    os.environ.setdefault(VARIABLE, str(math.ceil(cpu_kv_cache_bytes(config, shape) / 2**30)))
