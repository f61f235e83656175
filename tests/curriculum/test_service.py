from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from runs import make, outcomes_of, play, same

from spade_gym.curriculum import service_frames as frames
from spade_gym.curriculum.curriculum import Curriculum, EmptyCurriculum
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.schedules import AlwaysNew
from spade_gym.curriculum.score import Unknown
from spade_gym.curriculum.service import Client, CurriculumServer, ServiceError
from spade_gym.curriculum.service_address import Address
from spade_gym.curriculum.store import Store
from spade_gym.curriculum.task import Outcome, Task

TCP = "tcp:127.0.0.1:0"


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.002)


@pytest.fixture(params=["unix", "tcp"])
def server(request: pytest.FixtureRequest) -> Iterator[CurriculumServer]:
    address = TCP if request.param == "tcp" else None
    with CurriculumServer(make(), address=address) as server:
        yield server


def test_a_client_gets_the_same_tickets_as_somebody_in_the_process(server: CurriculumServer) -> None:
    with Client(server.address) as client:
        assert [same(ticket) for ticket in play(client, 50)] == [same(ticket) for ticket in play(make(), 50)]  # type: ignore[arg-type]
        assert client.return_range == (0.0, 1.0)
        ticket = client.ask("ann")
        assert ticket.actor == "ann"
        assert client.tell(outcomes_of(ticket)[0]) in ("counted", "excluded")
        assert client.tell(outcomes_of(ticket)[0]) == "duplicate"
    assert server.cost.num_outcomes == 52


def test_errors_arrive_as_what_they_are(server: CurriculumServer) -> None:
    with Client(server.address) as client:
        ticket = client.ask()
        with pytest.raises(ValueError, match="return_range"):
            client.tell(Outcome(ticket.id, ticket.seeds[0], total=9.0))
        assert client.num_unsent == 0
        good = Outcome(ticket.id, ticket.seeds[0], total=1.0)
        with pytest.raises(ValueError, match="return_range"):
            client.tell_many([Outcome(ticket.id, ticket.seeds[0], total=9.0), good])
        assert client.tell(good) == "duplicate"


def test_an_empty_curriculum_is_empty_for_clients_too() -> None:
    empty = Curriculum(memory=Memory(3), scorer=lambda _: Unknown(""), schedule=AlwaysNew())
    with CurriculumServer(empty) as server, Client(server.address) as client:
        with pytest.raises(EmptyCurriculum, match="give it a generator"):
            client.ask()
        with server.locked() as curriculum:
            curriculum.add(Task("reset", {"size": 1 << 70}))
        with pytest.raises(ServiceError, match="cannot be sent"):
            client.ask()
        assert empty.receipts == {"excluded": 1}


class Broken:
    def generate(self, rng: object) -> Task:
        raise OSError("no network")


def test_a_part_that_raises_is_reported_and_the_server_goes_on() -> None:
    curriculum = Curriculum(memory=Memory(3), scorer=lambda _: Unknown(""), schedule=AlwaysNew(), generator=Broken())
    with CurriculumServer(curriculum) as server, Client(server.address) as client:
        for _ in range(2):
            with pytest.raises(ServiceError, match="no network"):
                client.ask()


@pytest.mark.parametrize("text", ["", "unix:", "tcp:10.0.0.1:80/ab", "tcp:127.0.0.1:99999/ab", 7])
def test_what_is_no_address_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"CurriculumServer\(\.\.\.\)\.address"):
        Client(text)


def test_a_wrong_token_is_refused_and_never_shown() -> None:
    with CurriculumServer(make(), address=TCP) as server:
        address = Address.parse(server.address)
        assert len(address.token) == 32
        for token in ("", "00" * 16):
            client = Client(address._replace(token=token).text)
            with pytest.raises(ServiceError, match="wrong token"):
                client.ask()
        assert address.token not in repr(Client(server.address))
    with pytest.raises(ServiceError) as caught:
        Client(server.address).ask()
    assert address.token not in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"\x01\x00\x00\x00\xc1", b"\xff\xff\xff\xffxx", frames.frame(frames.Ask("")), b"GET / HTTP/1.1\r\n\r\n"]
)
def test_garbage_is_refused_and_harms_nobody(server: CurriculumServer, data: bytes) -> None:
    with Client(server.address) as client:
        client.ask()
        with Address.parse(server.address).connect(5.0) as stranger:
            stranger.sendall(data)
            received = b""
            while part := stranger.recv(4096):
                received += part
            assert isinstance(frames.decode_reply(received[4:]), frames.Failed)
        client.ask()


def test_a_unix_socket_is_private(tmp_path: Path) -> None:
    with CurriculumServer(make()) as server:
        path = Path(Address.parse(server.address).path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.parent.exists()


def test_two_servers_cannot_have_one_address_and_a_dead_ones_is_taken_over(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{tmp_path}/s")
    left.close()
    with CurriculumServer(make(), address=address), pytest.raises(OSError, match="another server"):
        CurriculumServer(make(), address=address)


def test_tickets_of_a_client_that_leaves_are_given_up(server: CurriculumServer) -> None:
    with server.locked() as curriculum:
        pass
    staying, leaving = Client(server.address), Client(server.address)
    kept = staying.ask()
    told = leaving.ask()
    leaving.tell(Outcome(told.id, told.seeds[0], total=1.0))
    leaving.ask()
    by_another = leaving.ask()
    staying.tell(Outcome(by_another.id, by_another.seeds[0], total=1.0))
    leaving.close()
    wait_for(lambda: curriculum.num_pending == 1)
    assert curriculum.is_pending(kept.id)
    assert curriculum.receipts == {"counted": 2, "excluded": 1}
    staying.close()


def test_clients_survive_pickling(server: CurriculumServer) -> None:
    client = Client(server.address, actor="ann", timeout_seconds=5.0)
    first = client.ask()
    again = pickle.loads(pickle.dumps(client))
    assert (again.ask().actor, again.timeout_seconds) == ("ann", 5.0)
    client.tell(outcomes_of(first)[0])
    client.close()
    again.close()
    with pytest.raises(TypeError, match=r"server\.address"):
        pickle.dumps(server)


def act(address: str, num_tickets: int) -> None:
    with Client(address) as client:
        play(client, num_tickets)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_many_processes_lose_and_double_nothing(method: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with DurableCurriculum(make(), store) as curriculum, CurriculumServer(curriculum) as server:
        context = multiprocessing.get_context(method)
        actors = [context.Process(target=act, args=(server.address, 40)) for _ in range(3)]
        for actor in actors:
            actor.start()
        for actor in actors:
            actor.join(60)
            assert actor.exitcode == 0
        kept = {(told.outcome.ticket, told.outcome.seed) for told in store.outcomes()}
        assert len(kept) == 120
        assert curriculum.curriculum.num_pending == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_client_gets_a_connection_of_its_own(server: CurriculumServer) -> None:
    client = Client(server.address)
    ticket = client.ask()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            other = client.ask()
            client.tell(outcomes_of(other)[0])
            client.close()
            with pytest.raises(ServiceError, match="lives in process"):
                server.ask()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.tell(outcomes_of(ticket)[0]) != "duplicate"
    client.close()


def die(address: str, pipe: Connection) -> None:
    client = Client(address)
    ticket = client.ask()
    client.tell(Outcome(ticket.id, ticket.seeds[0], total=1.0))
    client.ask()
    pipe.send("ready")
    time.sleep(60)


def test_a_killed_actor_loses_only_what_it_was_playing(tmp_path: Path) -> None:
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum, CurriculumServer(curriculum) as server:
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        actor = context.Process(target=die, args=(server.address, theirs))
        actor.start()
        ours.recv()
        assert actor.pid is not None
        os.kill(actor.pid, signal.SIGKILL)
        actor.join()
        wait_for(lambda: len(list(curriculum.store.outcomes())) == 2)
        statuses = [told.outcome.status for told in curriculum.store.outcomes()]
        assert statuses == ["ok", "aborted"]
        assert curriculum.curriculum.num_pending == 0


def serve(folder: str, address: str, pipe: Connection) -> None:
    with DurableCurriculum(make(), Store(folder)) as curriculum, CurriculumServer(curriculum, address=address):
        pipe.send("ready")
        pipe.poll(60)


def start_server(folder: Path, address: str) -> Any:
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(str(folder), address, theirs))
    process.start()
    ours.recv()
    return process, ours


def test_a_killed_server_is_reported_and_what_could_not_be_told_is_told_later(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    process, pipe = start_server(tmp_path / "run", address)
    client = Client(address)
    told = [outcome for ticket in [client.ask() for _ in range(3)] for outcome in outcomes_of(ticket)]
    for outcome in told:
        client.tell(outcome)
    late = client.ask()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with pytest.raises(ServiceError, match=r"does not answer .* 1 outcomes are kept here"):
        client.tell(Outcome(late.id, late.seeds[0], total=1.0))
    with pytest.raises(ServiceError, match="does not answer"):
        client.ask()
    assert client.num_unsent == 1
    process, pipe = start_server(tmp_path / "run", address)
    client.flush()
    assert client.num_unsent == 0
    client.close()
    pipe.send("stop")
    process.join()
    with Store(tmp_path / "run", read_only=True) as store:
        kept = [item.outcome for item in store.outcomes() if item.receipt in ("counted", "excluded")]
    assert kept == [*told, Outcome(late.id, late.seeds[0], total=1.0)]


def test_a_silent_server_is_reported_after_the_timeout() -> None:
    with CurriculumServer(make()) as server:
        client = Client(server.address, timeout_seconds=0.1)
        client.ask()
        with server.locked(), pytest.raises(ServiceError, match=r"no answer within 0\.1 s"):
            client.ask()
        client.close()


def test_closing_twice_is_fine_and_says_when_the_server_had_failed() -> None:
    server = CurriculumServer(make())
    server.close()
    server.close()
    assert not any(thread.name == "spade-curriculum" for thread in threading.enumerate())


@pytest.mark.slow
def test_server_time_with_64_actors() -> None:
    with CurriculumServer(make("plr", capacity=200)) as server:
        context = multiprocessing.get_context("forkserver")
        actors = [context.Process(target=act_many, args=(server.address, 16, 100)) for _ in range(4)]
        for actor in actors:
            actor.start()
        for actor in actors:
            actor.join()
        cost = server.cost
    assert cost.num_asks == 6400
    assert cost.cpu_seconds / cost.num_asks <= 400e-6


def act_many(address: str, num_actors: int, num_tickets: int) -> None:
    threads = [threading.Thread(target=act, args=(address, num_tickets)) for _ in range(num_actors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
