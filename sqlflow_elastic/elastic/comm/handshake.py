"""How two members prove to each other that they know the job's token, before anything else is said.

    the one that was dialled                                the one that dials
                       ── challenge (32 random bytes) ──▶
                       ◀── hello: version, rank, size, 32 random bytes, proof ──
                       ── verdict, proof ──▶

A proof is an HMAC-SHA256 under the token over everything said so far and a word for who speaks. Both random parts are
fresh, so a recorded proof opens nothing, and neither side's proof can be sent back to it as its own. All three have a
fixed length: nobody reads more than that from a stranger.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
import struct
from dataclasses import dataclass

from sqlflow_elastic.elastic.comm.base import Place

_MAGIC = b"sqlflow1"
_CLAIM = struct.Struct("<8sQII32s")
_PROOF_BYTES = hashlib.sha256().digest_size

CHALLENGE_BYTES = 32
HELLO_BYTES = _CLAIM.size + _PROOF_BYTES
VERDICT_BYTES = 1 + _PROOF_BYTES


class Verdict(enum.Enum):
    """The answer to a hello whose proof is right."""

    WELCOME = b"+"
    #: The one that was dialled stands in another world, or has given this one up.
    REFUSED = b"-"


@dataclass(frozen=True)
class Hello:
    """What a member that dials has proven.

    Attributes:
        version, rank, size: its place.
        transcript: all bytes said so far.
    """

    version: int
    rank: int
    size: int
    transcript: bytes


def new_challenge() -> bytes:
    """What the one that was dialled says first."""
    return secrets.token_bytes(CHALLENGE_BYTES)


def make_hello(token: bytes, place: Place, challenge: bytes) -> bytes:
    """The answer to a challenge."""
    claim = _CLAIM.pack(_MAGIC, place.version, place.rank, place.size, secrets.token_bytes(CHALLENGE_BYTES))
    return claim + _proof(token, b"dials", challenge + claim)


def read_hello(token: bytes, challenge: bytes, message: bytes) -> Hello | None:
    """What ``message`` [HELLO_BYTES] claims; None if it does not prove it."""
    claim, proof = message[: _CLAIM.size], message[_CLAIM.size :]
    if not hmac.compare_digest(proof, _proof(token, b"dials", challenge + claim)):
        return None
    magic, version, rank, size, _ = _CLAIM.unpack(claim)
    return Hello(version, rank, size, challenge + message) if magic == _MAGIC else None


def make_verdict(token: bytes, hello: Hello, verdict: Verdict) -> bytes:
    """The answer to a proven hello."""
    return verdict.value + _proof(token, b"is dialled", hello.transcript + verdict.value)


def read_verdict(token: bytes, transcript: bytes, message: bytes) -> Verdict | None:
    """The verdict in ``message`` [VERDICT_BYTES]; None if it proves nothing.

    Args:
        token: the job's.
        transcript: challenge and hello.
        message: what came.
    """
    said, proof = message[:1], message[1:]
    if not hmac.compare_digest(proof, _proof(token, b"is dialled", transcript + said)):
        return None
    return next((verdict for verdict in Verdict if verdict.value == said), None)


def _proof(token: bytes, speaker: bytes, said: bytes) -> bytes:
    return hmac.digest(token, speaker + b"\0" + said, "sha256")
