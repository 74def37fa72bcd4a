"""A seed of its own for every completion, the same in every run with the same `run.seed`."""

import hashlib


def request_seed(run_seed: int, group_id: str, sample: int) -> int:
    """63-bit seed of sample number `sample` of a group; equal prompts in other groups get other seeds."""
    digest = hashlib.sha256(f"{run_seed}/{group_id}/{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
