"""The run's broker and a partner on it."""

from tests.support.kafka.broker import bootstrap as bootstrap
from tests.support.kafka.broker import configure as configure
from tests.support.kafka.broker import partner as partner
