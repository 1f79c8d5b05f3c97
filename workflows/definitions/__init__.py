"""What authors declare: outcomes, waits, channels, events, and the registry of workflows.

Lives here: values that are checked where an author writes them, and finding a definition by its name. Must not live
here: running one, and rows. Authors import these names from `workflows`, which lists them.
"""
