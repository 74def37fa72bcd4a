"""Engine arguments of vLLM 0.8.5 and 0.18.1, and the float32 head that they are given by us."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from configs.errors import ConfigError
from configs.schema import Config
from rollout.engines.earlier_arguments import (
    EngineArguments,
    require_known,
    rope_overrides,
    v0_085_arguments,
    v1_0181_arguments,
)
from rollout.engines.float32_head import install_float32_head, original_method, refresh_float32_head

MODEL = {"vocab_size": 128, "rope_theta": 10000.0}


def config(**kwargs: object) -> Config:
    made = Config()
    made.model.path, made.rollout.engine = "somewhere", "vllm-0.18.1-v1"
    made.rollout.vllm_config.vllm_kwargs = kwargs
    made.rollout.allow_disagreement = [
        "logprobs_mode",
        "enable_prefix_caching",
        "async_scheduling",
        "disable_cascade_attn",
    ]
    return made


def test_the_pinned_arguments_reach_0_18_1_and_the_head_is_ours() -> None:
    arguments = v1_0181_arguments(config(), on_cpu=True, model_json=MODEL)
    assert arguments.float32_head and "hf_overrides" not in arguments.args
    assert arguments.args["logprobs_mode"] == "processed_logprobs"
    assert arguments.args["enable_prefix_caching"] is False and arguments.args["async_scheduling"] is False
    assert arguments.args["worker_extension_cls"] == "rollout.engines.v1_0181.worker.WorkerV1"


@pytest.mark.parametrize("arguments_of", [v1_0181_arguments, v0_085_arguments])
def test_on_a_cpu_no_prompt_may_be_split(arguments_of: Callable[..., EngineArguments]) -> None:
    made = config()
    made.dataset.max_prompt_tokens, made.rollout.sampling.max_new_tokens = 5000, 1000
    on_cpu = arguments_of(made, on_cpu=True, model_json=MODEL).args
    assert on_cpu["enable_chunked_prefill"] is False and on_cpu["max_num_batched_tokens"] == 6000
    on_gpu = arguments_of(made, on_cpu=False, model_json=MODEL).args
    assert not {"enable_chunked_prefill", "max_num_batched_tokens"} & set(on_gpu)


def test_null_leaves_an_argument_to_the_engine() -> None:
    names = ("logprobs_mode", "enable_prefix_caching", "async_scheduling", "disable_cascade_attn")
    arguments = v1_0181_arguments(
        config(**dict.fromkeys(names), **{"hf-overrides": {"head_dtype": None}}), on_cpu=True, model_json=MODEL
    )
    assert not set(names) & set(arguments.args) and not arguments.float32_head


def test_v0_gets_only_what_it_knows_and_hands_tokens_out_in_their_own_step() -> None:
    arguments = v0_085_arguments(config(), on_cpu=True, model_json=MODEL)
    assert not {"logprobs_mode", "async_scheduling", "enable_log_requests", "scheduling_policy"} & set(arguments.args)
    assert arguments.args["disable_async_output_proc"] is True and arguments.args["max_logprobs"] == 128
    assert arguments.float32_head


@pytest.mark.parametrize(("name", "value"), [("logprobs_mode", "raw_logprobs"), ("async_scheduling", True)])
def test_v0_refuses_what_it_cannot_do(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"vllm_kwargs.{name}=.* is nothing that vLLM 0.8.5's V0 engine can do"):
        v0_085_arguments(config(**{name: value}), on_cpu=True, model_json=MODEL)


def test_an_argument_of_another_version_is_named() -> None:
    @dataclass
    class EngineArgs:
        model: str = ""

    require_known({"model": "m"}, EngineArgs, "vLLM 0.8.5")
    with pytest.raises(ConfigError, match=r"vllm_kwargs\.stream_interval=2 is not an argument of vLLM 0\.8\.5"):
        require_known({"model": "m", "stream_interval": 2}, EngineArgs, "vLLM 0.8.5")


class Method:
    """A quantization method whose product rounds to the weights' type."""

    embedding_bag = "kept"

    def apply(self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return torch.nn.functional.linear(x, layer.weight, bias)  # type: ignore[arg-type]


def head(dtype: torch.dtype) -> SimpleNamespace:
    torch.manual_seed(0)
    layer = SimpleNamespace(weight=torch.randn(50, 16).to(dtype), quant_method=Method())
    return SimpleNamespace(lm_head=layer)


def test_the_head_multiplies_in_float32_and_follows_the_weights() -> None:
    model = head(torch.bfloat16)
    x = torch.randn(3, 16).bfloat16()
    install_float32_head(model)
    layer = model.lm_head
    exact = x.double() @ layer.weight.double().T
    logits = layer.quant_method.apply(layer, x)
    assert logits.dtype == torch.float32 and torch.allclose(logits.double(), exact, atol=1e-5)
    assert (original_method(layer).apply(layer, x).double() - exact).abs().max() > 1e-3
    layer.weight += 1
    refresh_float32_head(model)
    assert torch.allclose(layer.quant_method.apply(layer, x).double(), x.double() @ layer.weight.double().T, atol=1e-4)
    assert layer.quant_method.embedding_bag == "kept"


def test_a_float32_model_keeps_its_own_head() -> None:
    model = head(torch.float32)
    install_float32_head(model)
    assert isinstance(model.lm_head.quant_method, Method)
    refresh_float32_head(model)


@pytest.mark.parametrize(
    ("model_json", "wanted"),
    [
        ({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}, {"rope_theta": 1e6}),
        (
            {"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0}},
            {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        ),
        ({"rope_parameters": {"rope_theta": 1e6}, "rope_theta": 1e6}, {}),
        ({"rope_theta": 1e6}, {}),
    ],
)
def test_the_rotary_base_is_told_in_the_words_of_transformers_4(
    model_json: dict[str, object], wanted: dict[str, object]
) -> None:
    assert rope_overrides(model_json, "m") == wanted
    reached = v0_085_arguments(config(), on_cpu=True, model_json={"vocab_size": 128} | model_json).args
    assert reached.get("hf_overrides", {}) == wanted


def test_a_model_with_several_rotary_embeddings_is_refused() -> None:
    with pytest.raises(ConfigError, match="several rotary embeddings"):
        rope_overrides({"rope_parameters": {"full_attention": {"rope_theta": 1.0}}}, "m")
