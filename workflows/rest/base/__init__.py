"""What every address of the API shares: who calls, how often, ids, bodies, lists, repeated calls.

Others derive a view from `endpoint.Endpoint`, read with `json_body`, `ids` and `lists`, and bring addresses of
their own by `extensions`.
"""
