import pytest

from pipeline.machine.placement import weight_backend


@pytest.mark.parametrize(
    ("backend", "engine", "trainer_gpus", "rollout_gpus", "chosen"),
    [
        ("auto", "vllm-v1", 1.0, 1.0, "nccl"),
        ("auto", "vllm-v1", 1.0, 4.0, "nccl"),
        ("auto", "vllm-v1", 0.0, 0.0, "shared_memory"),
        ("auto", "vllm-v1", 1.0, 0.0, "shared_memory"),
        ("auto", "vllm-v1", 0.5, 0.5, "shared_memory"),  # NCCL refuses two ranks on one GPU
        ("auto", "vllm-0.8.5-v0", 1.0, 1.0, "shared_memory"),
        ("shared_memory", "vllm-v1", 1.0, 1.0, "shared_memory"),
        ("nccl", "vllm-v1", 1.0, 1.0, "nccl"),
    ],
)
def test_auto_is_nccl_only_where_every_process_has_a_gpu(backend, engine, trainer_gpus, rollout_gpus, chosen):
    assert weight_backend(backend, engine, trainer_gpus, rollout_gpus) == chosen
