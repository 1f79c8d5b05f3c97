"""What every contender carries: an input of 140 bytes of JSON, and a small payload.

`peers/*/peer.py` repeat these two, since they run in environments of their own.
"""

INPUT = {"order": 1234567, "customer": "c-0042", "note": "x" * 88}
PAYLOAD = {"amount": 120, "reference": "evt_0123456789"}
