"""What is in shared memory while versions come and go."""

import asyncio
from types import SimpleNamespace

import pytest

from exchange.types import WeightUpdate
from pipeline.workers.weight_sync import WeightSync


class Trainer:
    def __init__(self):
        self.turn, self.held = asyncio.Lock(), None

    def holds(self, version):
        return self.held == version

    async def publish(self, version, directory, probe):
        self.held = version
        return WeightUpdate(version, (f"{directory}/bucket",), (), probe, ())


async def no_reports(update):
    return []


def folders(root):
    return sorted(p.name for p in root.iterdir())


def test_weights_are_published_again_only_while_the_trainer_holds_them(tmp_path):
    async def body():
        trainer, fleet = Trainer(), SimpleNamespace(renew=None, update=no_reports)
        sync = WeightSync(trainer, fleet, (1, 2), tmp_path)
        await sync.publish(1)
        first = WeightUpdate(1, (f"{tmp_path}/v1/bucket",), (), (1, 2), ())
        again = await fleet.renew(first)
        assert again.version == 1 and again.buckets == (f"{tmp_path}/v1-again-1/bucket",)
        assert folders(tmp_path) == ["v1", "v1-again-1"]  # somebody may still be reading v1
        trainer.held = None  # another step has begun
        assert await fleet.renew(again) is again
        await sync.publish(2)
        sync.start_update(lambda: None, print)
        await sync.finish_update()
        assert folders(tmp_path) == ["v2"]

    asyncio.run(body())


@pytest.mark.parametrize("fails", [True, False])
def test_whoever_waits_for_a_version_hears_that_it_will_not_come(tmp_path, fails):
    async def update(update):
        if fails:
            raise RuntimeError("the trainer is gone")
        return []

    async def body():
        done, errors = [], []
        sync = WeightSync(Trainer(), SimpleNamespace(renew=None, update=update), (1, 2), tmp_path)
        await sync.publish(1)
        sync.start_update(lambda: done.append(1), errors.append)
        if fails:
            with pytest.raises(RuntimeError, match="the trainer is gone"):
                await sync.settle_update()
        else:
            await sync.settle_update()
        return len(done), [str(e) for e in errors]

    assert asyncio.run(body()) == ((0, ["the trainer is gone"]) if fails else (1, []))


def test_where_weights_are_sent_there_is_nothing_to_publish_again():
    fleet = SimpleNamespace(renew=None)
    WeightSync(Trainer(), fleet, (1,), None)
    assert fleet.renew is None
