"""One connection to the mail server for a round of mails.

Invariant owned: whatever the backend does, its failure is told in our words, and the next mail begins on a sound
connection.
"""

from __future__ import annotations

import contextlib
import smtplib
from typing import Any

from django.core import mail
from django.core.mail import EmailMessage

from approvals.notify.failures import SendFailed, describe_error, is_refused

#: Seconds that a mail server may be silent, where the site says nothing: for ever is too long for a thread.
TIMEOUT = 30


class Postman:
    """Sends mails through Django's own backend.

    >>> with Postman() as postman:
    ...     postman.send(message)
    """

    def __init__(self) -> None:
        self._connection: Any = None

    def __enter__(self) -> Postman:
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()

    def send(self, message: EmailMessage) -> None:
        """Hand it over; `SendFailed` if it was not taken."""
        try:
            if self._connection is None:
                self._connection = connect()
                self._connection.open()
            taken = self._connection.send_messages([message])
        except Exception as error:
            self._close()
            told = describe_error(error)
            raise SendFailed(told, is_final=is_refused(error), is_place=_is_place(error)) from None
        if taken == 0:
            raise SendFailed("the mail backend did not take it")

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None


def connect() -> Any:
    """A connection that is not yet open; raises what Django raises where the site's settings of mail make none."""
    # Django 6.1 and newer keep mail servers in MAILERS, and read the settings EMAIL_… only where it is not set.
    connection: Any = mail.mailers.default if hasattr(mail, "mailers") else mail.get_connection()
    if getattr(connection, "timeout", TIMEOUT) is None:
        connection.timeout = TIMEOUT
    return connection


def _is_place(error: Exception) -> bool:
    """Whether any other mail would fail in the same way: nobody answers, or nobody is let in."""
    lost = (smtplib.SMTPConnectError, smtplib.SMTPServerDisconnected, smtplib.SMTPAuthenticationError)
    return isinstance(error, lost) or (isinstance(error, OSError) and not isinstance(error, smtplib.SMTPException))
