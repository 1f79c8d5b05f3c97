"""What keeps a message from being sent, in words that may be kept.

Invariant owned: whatever a mail program, a server or a proxy answers, nothing that could be a token, a key or the path
of an address gets from there into a row or a log line: a text from outside comes in through `describe_error` only.
"""

from __future__ import annotations

import re
import smtplib
import traceback
from datetime import datetime

from approvals.display.values import show_text
from approvals.exceptions import ApprovalError

MAX_ERROR = 300

#: Our tokens, keys and signatures, also as quoted-printable or base64 breaks them over lines; and whole addresses.
_SECRET = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+|(?=[\w+/=-]*[0-9A-Z])[\w+/=-]{16,}")


class SendFailed(ApprovalError):
    """A message could not be sent; the text names no secret. `is_final`: trying again leads nowhere.

    >>> str(SendFailed("hooks.example answered 500"))
    'hooks.example answered 500'
    """

    def __init__(self, message: str, *, is_final: bool = False, is_place: bool = False) -> None:
        #: It is not this message's fault: whatever else goes the same way would fail as well.
        self.is_place = is_place
        self.is_final = is_final
        super().__init__(message)


class Dropped(ApprovalError):
    """There is nothing to send any more, or nobody to send it to; the text says why.

    >>> str(Dropped("They want no mail."))
    'They want no mail.'
    """


class PutOff(ApprovalError):
    """Not yet; `.until` says when.

    >>> PutOff(tomorrow).until == tomorrow
    True
    """

    def __init__(self, until: datetime) -> None:
        self.until = until
        super().__init__(f"not before {until:%Y-%m-%d %H:%M:%S}")


def describe_error(error: BaseException) -> str:
    """An error as a row may keep it.

    >>> describe_error(ValueError("spam: https://shop.example/approvals/link/AQNkZXYGcmV2aWV3OjU/"))
    'ValueError: spam: …'
    """
    if isinstance(error, SendFailed):
        return show_text(str(error), MAX_ERROR)
    if isinstance(error, smtplib.SMTPResponseException):
        answer = error.smtp_error
        said = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
        told = f"{error.smtp_code} {said}"
    elif isinstance(error, smtplib.SMTPRecipientsRefused):
        told = "; ".join(f"{code} {said.decode(errors='replace')}" for code, said in _list_refusals(error))
    else:
        told = str(error)
    name = type(error).__name__
    return show_text(f"{name}: {hide_secrets(' '.join(told.split()))}" if told else name, MAX_ERROR)


def describe_place(error: BaseException) -> str:
    """Where in the code an error arose, for the log: lines of files, and nothing of the values."""
    return "".join(traceback.format_tb(error.__traceback__)[-8:]).rstrip()


def hide_secrets(text: str) -> str:
    """The text without anything that could be one.

    >>> hide_secrets("token AQNkZXYGcmV2aWV3OjUBlcDgAAB refused")
    'token … refused'
    """
    return _SECRET.sub("…", text)


def is_refused(error: BaseException) -> bool:
    """Whether the mail server said that this address is none, for good."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(500 <= code < 600 for code, _ in _list_refusals(error))
    return False


def _list_refusals(error: smtplib.SMTPRecipientsRefused) -> list[tuple[int, bytes]]:
    return list(error.recipients.values())
