from rollout.environments.variables import ANYWHERE, cpu_environment


def test_threads_are_counted_unbound_and_sleep_when_idle():
    env = cpu_environment({}, num_cores=8)
    assert env["OMP_NUM_THREADS"] == "4"
    assert env["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert env["OMP_WAIT_POLICY"] == "PASSIVE"
    assert cpu_environment({}, num_cores=1)["OMP_NUM_THREADS"] == "1"


def test_what_the_run_or_the_user_set_stays():
    env = cpu_environment({"OMP_NUM_THREADS": "3", "VLLM_CPU_OMP_THREADS_BIND": "0-3"}, num_cores=8)
    assert "OMP_NUM_THREADS" not in env and "VLLM_CPU_OMP_THREADS_BIND" not in env


def test_nothing_is_reported_to_anyone():
    assert cpu_environment({}, num_cores=8)["VLLM_NO_USAGE_STATS"] == ANYWHERE["VLLM_NO_USAGE_STATS"] == "1"
