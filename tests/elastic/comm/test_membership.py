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

from sqlflow_elastic.elastic.comm import Communicator, Endpoint, Place, WorldBroken, address, handshake, meeting
from sqlflow_elastic.elastic.comm.handshake import CHALLENGE_BYTES, HELLO_BYTES, VERDICT_BYTES, Verdict
from sqlflow_elastic.elastic.comm.meeting import MAX_STRANGERS
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
    with Endpoint(TOKEN) as third:
        meeting = meet(threads, pair[0], places([pair[0], third], version=2)[0])
        with pytest.raises(WorldBroken, match="another world than 1") as broken:
            pair[1].connect(places(pair, version=1)[1], SECONDS)
        assert broken.value.suspect is None  # it is not failing, it has gone on
        pair[0].cancel()
        with pytest.raises(WorldBroken, match="given up"):
            meeting.result()


def test_who_is_early_ends_the_world_before_and_is_found_when_the_other_comes(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    first, second = pair
    # One waits for a world of three that will never be; the other knows already that it is one of two.
    with Endpoint(TOKEN) as third:
        old = meet(threads, first, Place(1, 0, 3, third.address))
        early = meet(threads, second, places(pair, version=2)[1])
        with pytest.raises(WorldBroken, match="world 2 has followed world 1") as broken:
            old.result(SECONDS / 2)
        assert broken.value.suspect is None
    assert works([first.connect(places(pair, version=2)[0], SECONDS), early.result()])


def test_who_dials_before_the_other_connects_at_all_is_found(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    early = meet(threads, pair[0], places(pair)[0])
    assert works([pair[1].connect(places(pair)[1], SECONDS), early.result()])


def test_the_early_are_dropped_when_their_world_has_passed(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    first, second = pair
    meeting = meet(threads, first, places(pair)[0])
    with dial(first) as early:
        early.sendall(handshake.make_hello(TOKEN, Place(2, 1, 2, ""), hear(early, CHALLENGE_BYTES)))
        with pytest.raises(WorldBroken, match="world 2"):
            meeting.result(SECONDS / 2)
        with first.connect(Place(3, 0, 1, ""), SECONDS):
            pass
        meeting = meet(threads, first, Place(4, 0, 2, second.address))
        assert len(hear(early, VERDICT_BYTES)) == VERDICT_BYTES
        assert is_closed(early)
        first.cancel()
        with pytest.raises(WorldBroken, match="given up"):
            meeting.result()


def test_an_early_one_that_has_gone_again_is_not_taken_for_a_neighbour(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    first, second = pair
    with Endpoint(TOKEN) as third:
        old = meet(threads, first, Place(1, 0, 3, third.address))
        early = meet(threads, second, places(pair, version=2)[1])
        with pytest.raises(WorldBroken, match="world 2"):
            old.result(SECONDS / 2)
        assert len(first._early) == 1
        second.cancel()
        with pytest.raises(WorldBroken, match="given up"):
            early.result()
        with pytest.raises(WorldBroken, match="rank 1 did not come"):
            first.connect(places([first, third], version=2)[0], 0.2)
        assert first._early == []
    assert works(connected(pair, version=3))


@pytest.mark.parametrize("said", [b"", b"a part of a sum"], ids=["silently", "in the middle of a sum"])
def test_a_previous_member_that_leaves_again_is_told_at_once(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor, said: bytes
) -> None:
    meeting = meet(threads, pair[0], Place(1, 0, 3, pair[1].address))
    with dial(pair[0]) as previous:
        previous.sendall(handshake.make_hello(TOKEN, Place(1, 2, 3, ""), hear(previous, CHALLENGE_BYTES)))
        assert len(hear(previous, VERDICT_BYTES)) == VERDICT_BYTES
        previous.sendall(said)
        assert not meeting.done()
    with pytest.raises(WorldBroken, match="rank 2 has left world 1") as broken:
        meeting.result(SECONDS / 2)
    assert broken.value.suspect is None


def test_a_next_member_that_leaves_again_is_told_at_once(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = Place(1, 0, 3, address.join(*listener.getsockname()))
        meeting = meet(threads, pair[0], place)
        next_, _ = listener.accept()
        with next_:
            challenge = handshake.new_challenge()
            next_.sendall(challenge)
            hello = handshake.read_hello(TOKEN, challenge, hear(next_, HELLO_BYTES))
            assert hello is not None
            next_.sendall(handshake.make_verdict(TOKEN, hello, Verdict.WELCOME))
            assert not meeting.done()
        with pytest.raises(WorldBroken, match="rank 1 has left world 1") as broken:
            meeting.result(SECONDS / 2)
    assert broken.value.suspect is None


def test_a_world_that_one_member_has_left_ends_for_all_and_they_meet_in_the_next(
    pair: tuple[Endpoint, Endpoint], threads: ThreadPoolExecutor
) -> None:
    with Endpoint(TOKEN) as third:
        endpoints = [*pair, third]
        before, after = places(endpoints, version=1), places(endpoints, version=2)
        first, second = (meet(threads, endpoints[rank], before[rank]) for rank in range(2))
        pair[1].cancel(1)
        with pytest.raises(WorldBroken, match="given up"):
            second.result(SECONDS / 2)
        ahead = meet(threads, pair[1], after[1])
        for meeting in (first, meet(threads, third, before[2])):
            with pytest.raises(WorldBroken):
                meeting.result(SECONDS / 2)
        others = at_once(lambda rank: endpoints[rank].connect(after[rank], SECONDS), [0, 2])
        assert works([others[0], ahead.result(), others[1]])


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


def test_a_connect_that_comes_while_the_endpoint_is_freed_is_told_of_a_broken_world(
    pair: tuple[Endpoint, Endpoint],
) -> None:
    with pair[0]._connecting:
        pair[0].close()
        with pytest.raises(WorldBroken, match="given up"):
            pair[0].connect(places(pair)[0], SECONDS)


def test_who_answers_and_is_gone_at_once_is_not_taken_for_the_caller_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname(), SECONDS)
    with caller:
        with pytest.raises(ConnectionError):
            caller.recv(1)
        assert not meeting._is_its_own_peer(caller)


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
