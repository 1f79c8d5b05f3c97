"""`manage.py rabbitmq_answers`: takes the answers of `examples.rabbitmq`, until it is told to stop."""

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError, InterfaceError, close_old_connections
from pika.exceptions import AMQPError

from examples.rabbitmq import take_answers

logger = logging.getLogger("workflows")

WAIT = 2.0


class Command(BaseCommand):
    help = "Takes answers from RabbitMQ until it is stopped."

    def handle(self, *args: Any, **options: Any) -> None:
        """Answers are read as long as the server is there; while it is away it is looked for."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        self.stdout.write("reading answers")
        while not stop.is_set():
            try:
                take_answers(stop)
            except (AMQPError, OSError) as error:
                logger.warning("RabbitMQ is away: %s", type(error).__name__)
                stop.wait(WAIT)
            except (DatabaseError, InterfaceError) as error:  # what was read and not answered for is delivered again
                logger.warning("the database is away: %s", type(error).__name__)
                stop.wait(WAIT)
            close_old_connections()
