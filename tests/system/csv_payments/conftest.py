"""The run's broker, as the tests of the transport have it."""

from tests.support.kafka.broker import bootstrap as bootstrap
