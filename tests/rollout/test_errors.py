import pickle

from rollout.errors import EngineUnusable, UpdateFailed


def test_errors_cross_processes_whole():
    error = pickle.loads(pickle.dumps(UpdateFailed(3, 7, "verify", "WeightMismatch: lm_head.weight", "WeightMismatch")))
    assert isinstance(error, EngineUnusable)
    assert (error.worker, error.version, error.phase) == (3, 7, "verify")
    assert str(error) == (
        "rollout worker 3 is unusable: update to version 7 failed in phase 'verify': WeightMismatch: lm_head.weight"
    )
