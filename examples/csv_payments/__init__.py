"""A file of payments becomes a stream of records; each goes to a payment provider, and a report closes the run.

`manage.py csv_payments --records 1000 --via inprocess|webhook|kafka` runs it. The machine is in `machine`, what the
provider decides in `provider`, and how a payment reaches it in `channels`; `partners` is the provider as a program of
its own, which is spoken to by webhook or Kafka.
"""
