"""A tiny random Qwen3 with tied embeddings whose tokenizer has a chat template and a beginning-of-sequence token."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tests.integration.tiny_model import EOS, NUM_TOKENS, word

TEMPLATE = "{{ bos_token }}{% for m in messages %}w003 {{ m['content'] }} w004{% endfor %}"
SPECIAL = {"<pad>": 0, "<eos>": EOS, "<bos>": 2}


def make_chat_model(folder: Path) -> Path:
    """0.4 M parameters. Qwen3 and not Qwen2, for which transformers loads Qwen2's own tokenizer whatever is saved."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=NUM_TOKENS,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=512,
        initializer_range=0.08,  # far from uniform, so that agreement means something
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=EOS,
    )
    Qwen3ForCausalLM(config).float().save_pretrained(folder)
    words = SPECIAL | {word(i): i for i in range(3, NUM_TOKENS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<eos>",
        bos_token="<bos>",
        pad_token="<pad>",
        unk_token="<pad>",
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
