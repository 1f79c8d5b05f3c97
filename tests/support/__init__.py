"""What tests share: people, worlds, calls, pages as their readers see them, processes. No module here has a test."""
