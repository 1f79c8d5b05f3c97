"""What authors declare: outcomes, waits, channels, events, and the registry of workflows."""
