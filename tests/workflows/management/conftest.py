"""The command line of the engine."""

from tests.support.command_line import make_run as make_run
