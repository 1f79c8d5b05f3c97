"""The settings of the engine, read in one place."""

from workflows.conf.settings import conf

__all__ = ["conf"]
