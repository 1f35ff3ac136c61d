"""One rank's connection to the service on rank 0."""

import logging
import os
import threading
import uuid
from typing import Any, Callable, Dict, Optional, Sequence, Set, Tuple

from ascend_session.backends.ranks import messages
from ascend_session.backends.ranks.endpoint import Endpoint
from ascend_session.backends.ranks.grpcio import grpcio

__all__ = ["Line", "UnreachableError"]

_logger = logging.getLogger(__name__)


class UnreachableError(Exception):
    """Rank 0 has gone, or does not answer."""


class Line:
    """Speaks and listens for one rank in one system.

    Args:
        address: Where the service listens, ``host:port``.
        rank: Whom it speaks for.
        size: How many ranks that one believes there are.
        job_id: Their job.
        system: The how-manieth system of the job, from 1.
        endpoint: Where that rank is.
        options: What the connection needs besides `messages.CHANNEL_OPTIONS`.
        on_event: Called with each event, from this line's thread.
        on_cut: Called once when no more can come, from this line's thread.
    """

    def __init__(
        self,
        address: str,
        rank: int,
        size: int,
        job_id: str,
        system: int,
        endpoint: Endpoint,
        options: Sequence[Tuple[str, int]],
        on_event: Callable[[Dict[str, Any]], None],
        on_cut: Callable[[], None],
    ) -> None:
        self._address = address
        self._who = {"job": job_id, "system": system, "rank": rank, "token": uuid.uuid4().hex}
        self._joining = {**self._who, "size": size, "pid": os.getpid(), "place": endpoint}
        self._options = [*messages.CHANNEL_OPTIONS, *options]
        self._on_event = on_event
        self._on_cut = on_cut
        self._channel: Any = None
        self._stream: Any = None
        self._say: Any = None
        self._unanswered: Set[Any] = set()

    def open(self) -> None:
        """Begins to listen, from the moment at which the service is there."""
        self._channel = grpcio().insecure_channel(self._address, options=self._options)
        path = f"/{messages.SERVICE}/"
        self._say = self._channel.unary_unary(path + messages.SAY)
        attend = self._channel.unary_stream(path + messages.ATTEND)
        self._stream = attend(messages.encoded(self._joining), wait_for_ready=True)
        name = "ascend-session-rank-events"
        threading.Thread(target=self._listen, name=name, daemon=True).start()

    def say(self, what: str, patience: float, **fields: Any) -> Optional[str]:
        """Says something to rank 0.

        Args:
            what: A word that the service knows.
            patience: How many seconds the answer may take.
            fields: What belongs to it.

        Returns:
            Why the job cannot go on, if it cannot; else None.

        Raises:
            UnreachableError: If no answer came.
        """
        message = messages.encoded({**self._who, "what": what, **fields})
        try:
            answer = messages.decoded(self._say(message, timeout=patience))
        except (grpcio().RpcError, ValueError) as error:  # ValueError: the channel is closed
            raise UnreachableError(str(error)) from error
        if "refused" in answer:
            raise UnreachableError(str(answer["refused"]))
        end = answer.get("end")
        return None if end is None else str(end)

    def mention(self, what: str, **fields: Any) -> None:
        """Says something without waiting for the answer, nor asking whether it arrived."""
        message = messages.encoded({**self._who, "what": what, **fields})
        try:
            call = self._say.future(message)
        except ValueError:  # the channel is closed
            return
        self._unanswered.add(call)  # a call that nobody holds is cancelled
        call.add_done_callback(self._unanswered.discard)

    def close(self) -> None:
        """Ends the stream and the connection."""
        if self._stream is not None:
            self._stream.cancel()
            self._channel.close()

    def _listen(self) -> None:
        try:
            for event in self._stream:
                self._on_event(messages.decoded(event))
        except grpcio().RpcError as error:
            _logger.debug("The stream of rank %s ended: %s", self._who["rank"], error)
        finally:
            self._on_cut()
