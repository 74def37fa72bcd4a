from pipeline.run.step_metrics import SkippedSteps


def test_only_whole_steps_in_a_row_count():
    skipped = SkippedSteps(limit=2, num_minibatches=2)
    assert not skipped.reached(2.0)
    assert not skipped.reached(1.0)  # one of the two minibatches was learned from
    assert not skipped.reached(2.0)
    assert skipped.reached(1.9999998)  # a mean of shares, whole up to rounding


def test_no_limit():
    skipped = SkippedSteps(limit=0, num_minibatches=1)
    assert not any(skipped.reached(1.0) for _ in range(50))


def test_the_count_goes_on_from_what_an_earlier_process_counted():
    before = SkippedSteps(limit=3, num_minibatches=1)
    assert not before.reached(1.0) and not before.reached(1.0)
    assert SkippedSteps(3, 1, before.in_a_row).reached(1.0)
