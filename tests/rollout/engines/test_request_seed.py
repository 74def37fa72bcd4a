from rollout.engines.request_seed import request_seed


def test_every_request_has_a_seed_of_its_own_and_keeps_it():
    seeds = {request_seed(run, f"{g}/{i}/0") for run in (1, 2) for g in ("g1", "g11") for i in range(12)}
    assert len(seeds) == 48
    assert all(0 <= s < 2**63 for s in seeds)
    assert request_seed(1, "g1/11/0") == request_seed(1, "g1/11/0")
