"""The run's broker, as the tests of the transport have it."""

from tests.kafka.conftest import bootstrap as bootstrap
