"""`Kafka`: the channel of a question that is written to a topic.

Must not live here: a connection (`producer`), the envelope (`envelopes`). Invariants owned: a question counts as sent
when the broker has said that it has it; nothing of the settings is kept on its row, so that they may change meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from workflows.channels.kafka.envelopes import write_headers, write_request
from workflows.channels.kafka.producer import Record, send_records
from workflows.channels.outgoing import Outgoing, Sent
from workflows.conf import conf
from workflows.conf.kafka_settings import check_topic
from workflows.definitions.channel import Channel
from workflows.exceptions import DispatchFailed, InvalidCall, show
from workflows.values.json_text import check_text
from workflows.values.types_of_signatures import A
from workflows.wording.messages import gettext_noop


class Kafka(Channel[A]):
    """A question that is written to a topic, and answered by a record in another one.

    >>> Kafka("payments.requests", request={"amount": 20}).config
    {'topic': 'payments.requests'}
    """

    name = "kafka"
    sends = True
    doors: ClassVar[frozenset[str]] = frozenset({"kafka"})
    door = gettext_noop("by a record in its topic of answers")
    #: The producer gathers what is written into few requests, so one thread with many questions is the fast way.
    batch = 1000
    threads = 2

    def __init__(
        self,
        topic: str,
        *,
        request: Any = None,
        schema: Any = None,
        projector: Any = None,
        key: str | None = None,
        answers: str | None = None,
        headers: Mapping[str, str] | None = None,
        assignee: str | None = None,
        group: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        self.request, self.schema, self.projector = request, schema, projector
        self.assignee, self.group, self.correlation_id = assignee, group, correlation_id
        config: dict[str, Any] = {"topic": check_topic(topic)}
        if key is not None:
            config["key"] = check_text(key, "key=", limit=1000)
        if answers is not None:
            config["answers"] = check_topic(answers)
        if headers is not None:
            config["headers"] = _check_headers(headers)
        self.config = config

    @classmethod
    def dispatch_many(cls, questions: Sequence[Outgoing]) -> list[Sent | Exception | None]:
        """Write all of them, and wait until the broker has each or the time is over."""
        results: list[Sent | Exception | None] = [None] * len(questions)
        records: dict[int, Record] = {}
        for place, question in enumerate(questions):
            try:
                records[place] = make_record(question)
            except Exception as error:  # of this question, and no reason to hold up the others
                results[place] = error
        if records:
            for place, trouble in zip(records, send_records(list(records.values())), strict=True):
                results[place] = trouble
        return results


def make_record(question: Outgoing) -> Record:
    """What is written for a question."""
    # Items of one unit are spread over the partitions; a key of the author's keeps together what belongs together.
    key = question.config.get("key", str(question.id))
    value = write_request(question, find_answers(question))
    return Record(question.config["topic"], key.encode(), value, write_headers(question))


def find_answers(question: Outgoing) -> str:
    """The topic that takes the answer: the one that the author named, else the only one of its workspace."""
    if conf.kafka is None:
        raise DispatchFailed('WORKFLOWS["KAFKA"] is not set: say there where the broker is')
    known = conf.kafka.list_topics(question.workspace)
    named: str | None = question.config.get("answers")
    if named is not None and named not in known:
        raise DispatchFailed(
            f"answers={named!r}: that topic may not answer questions of workspace {question.workspace!r}; add it to "
            'WORKFLOWS["KAFKA"]["ANSWERS"]'
        )
    if named is None and len(known) != 1:
        told = f"{len(known)} topics may" if known else "no topic may"
        fix = "name one with answers=" if known else 'add one to WORKFLOWS["KAFKA"]["ANSWERS"]'
        raise DispatchFailed(f"{told} answer questions of workspace {question.workspace!r}: {fix}")
    return named or known[0]


def _check_headers(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and name and isinstance(value, str) for name, value in given.items()
    ):
        raise InvalidCall(f"headers= is a dict of texts, not {show(given)}")
    return dict(given)
