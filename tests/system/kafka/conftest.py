"""The run's broker."""

from tests.support.kafka.broker import bootstrap as bootstrap
