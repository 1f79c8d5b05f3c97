"""Channels that send: the dispatch of what is asked, and the webhook transport."""
