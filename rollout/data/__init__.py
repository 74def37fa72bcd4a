"""Data sets, prompts and the cursor over them, tokenizers, model files."""
