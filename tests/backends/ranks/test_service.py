from typing import Any, Iterator

import pytest

from ascend_session.backends.ranks import messages
from ascend_session.backends.ranks.grpcio import grpcio
from tests.backends.ranks.jobs import Job

JOINING = {"job": "job", "system": 1, "rank": 1, "size": 2, "token": "t", "pid": 1}


@pytest.fixture
def channel(job: Job) -> Iterator[Any]:
    """A stranger's, to a rank 0 that waits for rank 1."""
    job.start(0, 2)
    channel = grpcio().insecure_channel(job.address, options=messages.CHANNEL_OPTIONS)
    yield channel
    channel.close()


@pytest.mark.parametrize(
    "request_",
    [b"", b"\xff\xfe", b"[]", b"{}", messages.encoded({**JOINING, "rank": "one"})],
)
def test_who_does_not_speak_as_a_rank_is_refused(job: Job, channel: Any, request_: bytes) -> None:
    attend = channel.unary_stream(f"/{messages.SERVICE}/{messages.ATTEND}")
    events = list(map(messages.decoded, attend(request_, wait_for_ready=True, timeout=30)))
    assert [event["event"] for event in events] == ["refused"]
    job.start(1, 2).expect("join")


@pytest.mark.parametrize(
    "said",
    [
        {"what": "fail", "said": "No."},
        {"what": "fail", "said": "No.", "job": "job", "system": 1, "rank": 0, "token": "guessed"},
        {"what": "nothing known", "job": "job", "system": 7, "rank": 0, "token": ""},
    ],
)
def test_nobody_speaks_for_a_rank_but_its_process(job: Job, channel: Any, said: Any) -> None:
    say = channel.unary_unary(f"/{messages.SERVICE}/{messages.SAY}")
    answer = messages.decoded(say(messages.encoded(said), wait_for_ready=True, timeout=30))
    assert "refused" in answer
    members = [job.members[0], job.start(1, 2)]
    for member in members:
        member.expect("join")
        member.agree("k", [0, 1])
    for member in members:
        member.expect("agreed", "k")
