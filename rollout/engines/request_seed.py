"""A seed of its own for every request, the same in every run with the same `run.seed`."""

import hashlib


def request_seed(run_seed: int, request_id: str) -> int:
    """63-bit seed; `request_id` names group, sample and turn, so that equal prompts are sampled independently."""
    digest = hashlib.sha256(f"{run_seed}/{request_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
