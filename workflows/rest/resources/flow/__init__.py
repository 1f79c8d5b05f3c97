"""/v1/queues, /v1/limits and /v1/workflows: what may run, how much of it, and what is paused."""
