"""Channels that send: what goes out, when it is tried again, and the transports that come with the project."""
