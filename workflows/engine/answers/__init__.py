"""What has come for the questions of a run, and how the author reads it: signals, typed answers, several at once."""
