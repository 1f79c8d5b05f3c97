"""What every page of a reviewer shares: who opens it, and the visit of one request."""
