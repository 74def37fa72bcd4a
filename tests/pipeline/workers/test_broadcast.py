"""The order of a broadcast, with stand-ins for the trainer's ranks and the receivers."""

import asyncio

import pytest

from exchange.types import WeightUpdate
from pipeline.workers.broadcast import Broadcast, TransferShape
from tests.pipeline.stand_in_actors import made_actors, make_fleet, settle, update  # noqa: F401 - a fixture among them

UPDATE = WeightUpdate(3, (), (), (1, 2), (-1.0,))


class StandInTrainer:
    def __init__(self):
        self.turn, self.held, self.log = asyncio.Lock(), 3, []
        self.receiving, self.failure = asyncio.Event(), None

    def holds(self, version):
        return self.held == version

    async def transfer_endpoint(self, loopback):
        self.log.append("endpoint")
        return "127.0.0.1", 4000  # the same port every time

    async def join_transfer(self, place, limit_s):
        self.log.append(f"join {place.world_size}")

    async def broadcast(self, limit_s):
        assert self.turn.locked()
        if self.failure:
            raise self.failure
        await asyncio.wait_for(self.receiving.wait(), 1)  # no broadcast ends before the receivers are there
        self.log.append("broadcast")


def run(body):
    async def all_of_it():
        trainer, events, places = StandInTrainer(), [], []
        broadcast = Broadcast(trainer, TransferShape(2, 64, 5.0, True), events.append)

        async def receive(i, update):
            places.append(update.transfer)
            trainer.receiving.set()
            return i

        await body(trainer, lambda members, update=UPDATE: broadcast.send(update, members, receive), events, places)

    asyncio.run(all_of_it())


def test_workers_receive_while_the_trainer_sends():
    async def body(trainer, send, events, places):
        assert await send([(0, 0), (1, 0)]) == [0, 1]
        assert trainer.log == ["endpoint", "join 5", "broadcast"]
        assert [p.rank_offset for p in places] == [1, 3]

    run(body)


def test_the_group_is_kept_while_its_members_stay_and_formed_anew_when_one_was_replaced():
    async def body(trainer, send, events, places):
        await send([(0, 0), (1, 0)])
        await send([(0, 0), (1, 0)])
        assert trainer.log == ["endpoint", "join 5", "broadcast", "broadcast"] and places[0] == places[2]
        await send([(0, 0), (1, 1)])
        assert trainer.log[-3:] == ["endpoint", "join 5", "broadcast"]
        assert places[4] != places[0]  # although the port came back

    run(body)


def test_nothing_is_sent_once_the_trainer_has_gone_on():
    async def body(trainer, send, events, places):
        trainer.held = None
        assert await send([(0, 0)]) is None and trainer.log == [] and places == []

    run(body)


def test_a_failed_broadcast_is_told_and_its_group_is_not_used_again():
    async def body(trainer, send, events, places):
        trainer.failure = TimeoutError("waited 5 s")
        await send([(0, 0)])
        assert events == ["the broadcast of version 3 failed: waited 5 s"]
        trainer.failure = None
        await send([(0, 0)])
        assert trainer.log == ["endpoint", "join 3", "endpoint", "join 3", "broadcast"]

    run(body)


def test_a_lost_trainer_ends_the_run():
    async def body(trainer, send, events, places):
        trainer.failure = RuntimeError("lost")
        with pytest.raises(RuntimeError, match="lost"):
            await send([(0, 0)])

    run(body)


def test_a_replaced_worker_waits_for_the_next_publish_while_the_trainer_is_beyond_the_last(actors):
    async def body():
        trainer, fleet = StandInTrainer(), make_fleet(actors)
        trainer.receiving.set()
        fleet._broadcast = Broadcast(trainer, TransferShape(1, 64, 5.0, True), lambda sentence: None)
        await fleet.start()
        await fleet.update(update(3))
        trainer.held = None  # a step has begun
        fleet.replace(fleet.slots[0], fleet.slots[0].incarnation, "died")
        await settle()
        assert len(actors) == 2 and actors[1].updates == [] and fleet.pick() is None
        trainer.held = 4
        assert await fleet.update(update(4)) == []
        await settle()
        assert actors[1].updates == [4] and fleet.pick().verified_version == 4
        assert trainer.log.count("endpoint") == 2  # another process: another group

    asyncio.run(body())


def test_a_replaced_worker_gets_the_published_weights_while_the_trainer_still_holds_them(actors):
    async def body():
        trainer, fleet = StandInTrainer(), make_fleet(actors)
        trainer.receiving.set()
        fleet._broadcast = Broadcast(trainer, TransferShape(1, 64, 5.0, True), lambda sentence: None)
        await fleet.start()
        await fleet.update(update(3))
        fleet.replace(fleet.slots[0], fleet.slots[0].incarnation, "died")
        await settle()
        assert actors[1].updates == [3] and fleet.pick().verified_version == 3

    asyncio.run(body())
