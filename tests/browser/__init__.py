"""Tests that drive a real Chromium at the pages of a served site."""
