"""The engine over HTTP. The kernel never imports from here."""
