"""The commands of the engine, and the text that they print."""
