"""Who may come in: members of this world, with the token, now; nobody else, whatever he says."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from sqlflow_elastic.elastic.comm import Communicator, Endpoint, Place, WorldBroken, address, handshake
from sqlflow_elastic.elastic.comm.handshake import CHALLENGE_BYTES, HELLO_BYTES, VERDICT_BYTES, Verdict
from sqlflow_elastic.elastic.comm.meeting import MAX_EARLY, MAX_STRANGERS
from tests.elastic.comm.worlds import SECONDS, TOKEN, at_once, connected, descriptors, nothing_left_behind, places
from tests.waiting import wait_until

OTHER_TOKEN = b"the token of another job"


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with nothing_left_behind(), ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def pair(threads: ThreadPoolExecutor) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Closed before the threads are waited for: no connect goes on in one."""
    with Endpoint(TOKEN) as first, Endpoint(TOKEN) as second:
        yield first, second


def dial(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection(address.parse(endpoint.address)[1], timeout=SECONDS)


def hear(connection: socket.socket, count: int) -> bytes:
    """So many bytes; fewer if it is closed before."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while len(data) < count and (some := connection.recv(count - len(data))):
            data += some
    return data


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes it, without another word."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def works(members: list[Communicator]) -> bool:
    """Whether they are a world; they are closed."""

    def call(member: Communicator) -> float:
        with member:
            buffer = np.ones(1, np.float32)
            member.allreduce([buffer])
            return float(buffer[0])

    return at_once(call, members) == [len(members)] * len(members)


def meet(threads: ThreadPoolExecutor, endpoint: Endpoint, place: Place) -> Future[Communicator]:
    """Let it connect, and return when it is at it."""
    future = threads.submit(endpoint.connect, place, SECONDS)
    wait_until(lambda: future.done() or endpoint._under_way is not None, SECONDS)
    return future


def silent(connection: socket.socket) -> None:
    """Say nothing."""


def garbage(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)


def a_piece(connection: socket.socket) -> None:
    connection.sendall(b"sqlflow1")


def gone(connection: socket.socket) -> None:
    connection.close()


def wrong_token(connection: socket.socket) -> None:
    challenge = hear(connection, CHALLENGE_BYTES)
    connection.sendall(handshake.make_hello(OTHER_TOKEN, Place(1, 1, 2, ""), challenge))


def wrong_challenge(connection: socket.socket) -> None:
    hear(connection, CHALLENGE_BYTES)
    connection.sendall(handshake.make_hello(TOKEN, Place(1, 1, 2, ""), bytes(CHALLENGE_BYTES)))


def changed_claim(connection: socket.socket) -> None:
    hello = bytearray(handshake.make_hello(TOKEN, Place(0, 1, 2, ""), hear(connection, CHALLENGE_BYTES)))
    hello[8] = 1  # the version
    connection.sendall(hello)


STRANGERS = [silent, garbage, a_piece, gone, wrong_token, wrong_challenge, changed_claim]


@pytest.mark.parametrize("stranger", STRANGERS, ids=[stranger.__name__ for stranger in STRANGERS])
def test_a_stranger_neither_comes_in_nor_stops_those_who_do(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor, stranger: Callable[[socket.socket], None]
) -> None:
    first, second = pair
    first_place, second_place = places(pair)
    with contextlib.ExitStack() as cleanup:
        for _ in range(3):  # before anybody listens
            cleanup.enter_context(dial(first))
        meeting = meet(threads, first, first_place)
        for _ in range(3):
            connection = cleanup.enter_context(dial(first))
            stranger(connection)
        assert not meeting.done()
        members = [meeting, threads.submit(second.connect, second_place, SECONDS)]
        assert works([member.result() for member in members])


@pytest.mark.parametrize("stranger", [garbage, wrong_token, wrong_challenge, changed_claim])
def test_a_stranger_that_proves_nothing_is_dropped_at_once(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor, stranger: Callable[[socket.socket], None]
) -> None:
    meeting = meet(threads, pair[0], places(pair)[0])
    with dial(pair[0]) as connection:
        stranger(connection)
        hear(connection, CHALLENGE_BYTES)
        assert is_closed(connection)
    pair[0].cancel()
    with pytest.raises(WorldBroken):
        meeting.result()


def test_a_crowd_of_silent_strangers_is_bounded_and_stops_nobody(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    first, second = pair
    meeting = meet(threads, first, places(pair)[0])
    with contextlib.ExitStack() as cleanup:
        crowd = [cleanup.enter_context(dial(first)) for _ in range(MAX_STRANGERS + 20)]
        for connection in crowd:
            assert len(hear(connection, CHALLENGE_BYTES)) == CHALLENGE_BYTES
        for connection in crowd[:20]:  # the first to come are the first to go
            assert is_closed(connection)
        members = [meeting, threads.submit(second.connect, places(pair)[1], SECONDS)]
        assert works([member.result() for member in members])
        # Who has proven nothing is not kept when the meeting is over.
        for connection in crowd[20:]:
            assert is_closed(connection)


def test_a_recorded_handshake_opens_nothing(pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor) -> None:
    first, second = pair
    with socket.create_server(("127.0.0.1", 0)) as between:
        through = address.join(*between.getsockname())
        members = [
            threads.submit(first.connect, Place(1, 0, 2, through), SECONDS),
            threads.submit(second.connect, Place(1, 1, 2, first.address), SECONDS),
        ]
        caller, _ = between.accept()
        with caller, dial(second) as callee:
            caller.sendall(hear(callee, CHALLENGE_BYTES))
            hello = hear(caller, HELLO_BYTES)
            callee.sendall(hello)
            caller.sendall(hear(callee, VERDICT_BYTES))
            for member in members:
                member.result().close()
        again = meet(threads, second, Place(1, 1, 2, first.address))
        with dial(second) as callee:
            hear(callee, CHALLENGE_BYTES)
            callee.sendall(hello)
            assert is_closed(callee)
        second.cancel()
        with pytest.raises(WorldBroken):
            again.result()


@pytest.mark.parametrize("reply", ["nothing right", "its own proof"])
def test_who_answers_has_to_prove_itself_too(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor, reply: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        meeting = threads.submit(pair[0].connect, Place(1, 0, 2, address.join(*impostor.getsockname())), SECONDS)
        connection, _ = impostor.accept()
        with connection:
            connection.sendall(bytes(CHALLENGE_BYTES))
            proof = hear(connection, HELLO_BYTES)[-32:]
            connection.sendall(Verdict.WELCOME.value + (proof if reply == "its own proof" else bytes(32)))
            with pytest.raises(WorldBroken, match="no member of the job") as broken:
                meeting.result()
    assert broken.value.suspect == 1


def test_the_token_never_travels(pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor) -> None:
    meeting = meet(threads, pair[0], places(pair)[0])
    with dial(pair[0]) as connection:
        challenge = hear(connection, CHALLENGE_BYTES)
        hello = handshake.make_hello(TOKEN, Place(1, 1, 2, ""), challenge)
        connection.sendall(hello)
        said = challenge + hello + hear(connection, VERDICT_BYTES)
    assert TOKEN not in said
    assert TOKEN.decode() not in repr(pair[0]) + repr(meeting)
    pair[0].cancel()


@pytest.mark.parametrize(
    "place",
    [Place(1, 0, 2, ""), Place(1, 1, 3, ""), Place(0, 1, 2, "")],
    ids=["another rank", "another size", "an older world"],
)
def test_a_member_of_another_world_is_refused(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor, place: Place
) -> None:
    meeting = meet(threads, pair[0], places(pair)[0])
    with dial(pair[0]) as connection:
        challenge = hear(connection, CHALLENGE_BYTES)
        hello = handshake.make_hello(TOKEN, place, challenge)
        connection.sendall(hello)
        verdict = handshake.read_verdict(TOKEN, challenge + hello, hear(connection, VERDICT_BYTES))
        assert verdict is Verdict.REFUSED
        assert is_closed(connection)
    assert not meeting.done()
    pair[0].cancel()


def test_who_is_late_learns_that_its_world_is_over(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    meeting = meet(threads, pair[0], places(pair, version=2)[0])
    with pytest.raises(WorldBroken, match="another world than 1") as broken:
        pair[1].connect(places(pair, version=1)[1], SECONDS)
    assert broken.value.suspect is None  # it is not failing, it has gone on
    pair[0].cancel()
    with pytest.raises(WorldBroken, match="given up"):
        meeting.result()


def test_who_is_early_is_found_when_the_other_comes(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    first, second = pair
    # One waits for a world of three that will never be; the other knows already that it is one of two.
    with Endpoint(TOKEN) as third:
        old = meet(threads, first, Place(1, 0, 3, third.address))
        early = meet(threads, second, places(pair, version=2)[1])
        wait_until(lambda: len(first._early) == 1, SECONDS)
        first.cancel(1)
        with pytest.raises(WorldBroken, match="given up"):
            old.result()
    assert works([first.connect(places(pair, version=2)[0], SECONDS), early.result()])


def test_who_dials_before_the_other_connects_at_all_is_found(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    early = meet(threads, pair[0], places(pair)[0])
    assert works([pair[1].connect(places(pair)[1], SECONDS), early.result()])


def test_the_early_are_bounded_and_dropped_when_their_world_has_passed(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    first, second = pair
    meeting = meet(threads, first, places(pair)[0])
    with contextlib.ExitStack() as cleanup:
        early = {}
        for version in range(2, 2 + MAX_EARLY + 4):
            early[version] = connection = cleanup.enter_context(dial(first))
            connection.sendall(handshake.make_hello(TOKEN, Place(version, 1, 2, ""), hear(connection, CHALLENGE_BYTES)))
        wait_until(lambda: len(first._early) == MAX_EARLY and 5 not in {e.hello.version for e in first._early}, SECONDS)
        for version in range(2, 6):
            assert is_closed(early[version])
        first.cancel()
        with pytest.raises(WorldBroken):
            meeting.result()
        later = 2 + MAX_EARLY + 3
        with first.connect(Place(later, 0, 1, ""), SECONDS):
            pass
        meeting = meet(threads, first, Place(later + 1, 0, 2, second.address))
        for version in range(6, later + 1):
            assert len(hear(early[version], VERDICT_BYTES)) == VERDICT_BYTES
            assert is_closed(early[version])
        first.cancel()
        with pytest.raises(WorldBroken):
            meeting.result()


def test_an_early_one_that_has_gone_again_is_not_taken_for_a_neighbour(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    first, second = pair
    with Endpoint(TOKEN) as third:
        old = meet(threads, first, Place(1, 0, 3, third.address))
        early = meet(threads, second, places(pair, version=2)[1])
        wait_until(lambda: len(first._early) == 1, SECONDS)
        first.cancel()
        second.cancel()
        for meeting in (old, early):
            with pytest.raises(WorldBroken, match="given up"):
                meeting.result()
        with pytest.raises(WorldBroken, match="rank 1 did not come"):
            first.connect(places([first, third], version=2)[0], 0.2)
        assert first._early == []
    assert works(connected(pair, version=3))


def test_a_neighbour_that_never_comes_is_told_at_the_deadline(pair: tuple[Endpoint, Endpoint]) -> None:
    begun = time.monotonic()
    with pytest.raises(WorldBroken, match="rank 1 did not come") as broken:
        pair[0].connect(places(pair)[0], 0.2)
    assert broken.value.suspect == 1
    assert time.monotonic() - begun < SECONDS / 2


def test_a_neighbour_that_listens_no_more_is_told_at_once() -> None:
    with nothing_left_behind(), Endpoint(TOKEN) as first, Endpoint(TOKEN) as second:
        second.close()
        with pytest.raises(WorldBroken, match="listen") as broken:
            first.connect(places([first, second])[0], SECONDS)
        assert broken.value.suspect == 1


def test_a_cancelled_connect_ends_at_once(pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor) -> None:
    meeting = meet(threads, pair[0], places(pair)[0])
    pair[0].cancel()
    with pytest.raises(WorldBroken, match="given up"):
        meeting.result(SECONDS / 2)
    assert works(connected(pair, version=2))


def test_a_world_may_be_given_up_before_its_connect_comes(pair: tuple[Endpoint, Endpoint]) -> None:
    pair[0].cancel(3)
    with pytest.raises(WorldBroken, match="given up"):
        pair[0].connect(places(pair, version=3)[0], SECONDS)
    assert works(connected(pair, version=4))


def test_closing_an_endpoint_ends_its_connect_but_not_its_communicators(threads: ThreadPoolExecutor) -> None:
    with Endpoint(TOKEN) as first, Endpoint(TOKEN) as second:
        members = connected([first, second])
        meeting = meet(threads, first, places([first, second], version=2)[0])
        first.close()
        with pytest.raises(WorldBroken, match="given up"):
            meeting.result()
        with pytest.raises(WorldBroken, match="given up"):
            first.connect(places([first, second], version=3)[0], SECONDS)
        first.close()
    assert works(members)


def test_many_worlds_one_after_the_other_leave_nothing_behind() -> None:
    random = np.random.default_rng(3)
    with nothing_left_behind(), contextlib.ExitStack() as cleanup:
        endpoints = [cleanup.enter_context(Endpoint(TOKEN)) for _ in range(4)]
        before = (descriptors(), threading.active_count())
        for version in range(1, 41):
            chosen = [endpoints[i] for i in random.permutation(4)[: random.integers(2, 5)]]
            assert works(connected(chosen, version))
            assert (descriptors(), threading.active_count()) == before


@pytest.mark.parametrize("next_", ["", "localhost:80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_is_numbers(pair: tuple[Endpoint, Endpoint], next_: str) -> None:
    with pytest.raises(ValueError, match="address"):
        pair[0].connect(Place(1, 0, 2, next_), SECONDS)


def test_addresses_of_both_families() -> None:
    for text in ("127.0.0.1:80", "[::1]:80"):
        assert address.join(*address.parse(text)[1]) == text


@pytest.mark.parametrize(("version", "rank", "size"), [(-1, 0, 1), (1, 2, 2), (1, -1, 2), (1, 0, 0)])
def test_no_place_outside_the_world(version: int, rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="no place"):
        Place(version, rank, size, "127.0.0.1:1")


def test_a_token_that_can_be_guessed_is_no_token() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        Endpoint(b"short")
