"""A tiny random Qwen2 with tied embeddings and a word tokenizer, made on the fly."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

NUM_TOKENS = 128
EOS = 1


def word(token_id: int) -> str:
    """The tokenizer's word for a token id; of fixed width, since decoding puts no spaces between words."""
    return f"w{token_id:03d}"


def make_tiny_model(folder: Path, tied: bool = True, seed: int = 0) -> Path:
    """0.6 M parameters: hidden 128, 4 layers, 4 heads of which 2 for keys and values."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=NUM_TOKENS,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
        max_position_embeddings=1024,
        initializer_range=0.08,  # far from uniform, so that agreement means something
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=EOS,
    )
    model = Qwen2ForCausalLM(config).float()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.normal_(0, 0.1)  # Qwen2 has q, k and v biases, which start at zero
    model.save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": EOS} | {word(i): i for i in range(2, NUM_TOKENS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", unk_token="<pad>"
    ).save_pretrained(folder)
    return Path(folder)
