"""The random generators that a model may draw from in a forward pass: the CPU's and the trainer's device's."""

import torch

CPU, CUDA = "rng.cpu", "rng.cuda"


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Where the generators stand now, as byte tensors on the CPU."""
    state = {CPU: torch.get_rng_state()}
    if device.type == "cuda":
        state[CUDA] = torch.cuda.get_rng_state(device)
    return state


def restore_random_state(state: dict[str, torch.Tensor], device: torch.device) -> None:
    """Put the generators where `state`, which may hold other tensors too, says they stood."""
    torch.set_rng_state(state[CPU])
    if CUDA in state:
        torch.cuda.set_rng_state(state[CUDA], device)
