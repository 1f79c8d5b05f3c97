"""Function style: a durable function, what its `ctx` offers, and the lines of its items.

Lives here: `@durable` (`durable`), the class of `ctx` (`context_calls`), and above one way to find what earlier runs
saved (`call_replay`) a module for each kind of call.
"""
