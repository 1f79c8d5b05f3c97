"""Who is measured: the database's own limit, a peer, and Holdpoint through its public API."""
