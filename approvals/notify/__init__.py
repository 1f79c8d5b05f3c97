"""Telling people: from notices, written in the transaction of what they tell of, to messages that were sent.

    a decision, a rung, a question …  →  Notice          (`writer`, in its transaction)
    Notice                            →  Delivery rows   (`fan_out`: `recipients`, in one transaction)
    Delivery                          →  a message       (`sending`, `digests`: `messages`; outside any)

All of it is done by the sweep "notices" in a thread beside the pump. Must not live here: what is decided, and by whom.
Invariants owned: nothing that is told of did not happen, and nothing that happened is forgotten; a message goes out at
least once, and whoever gets it twice can tell by its id; no row and no log line holds a link, a key or a signature.
"""
