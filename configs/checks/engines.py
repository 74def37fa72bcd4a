"""The engine adapters by name, and which of them run vLLM's V1 engine."""

ENGINES_ARE_V1: dict[str, bool] = {
    "vllm-v1": True,
    "vllm-0.18.1-v1": True,
    "vllm-0.8.5-v0": False,
}
NATIVE_ENGINE = "vllm-v1"
"""The engine of the environment that proxrl itself runs in; the others have environments of their own."""
ENGINES_WITH_PAUSE_MODES = ("vllm-0.18.1-v1",)
"""Engines that can update in other ways than to keep requests and cache; the migration study needs them."""
