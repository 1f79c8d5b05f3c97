"""Tests of the whole: processes, kills, the wheel, the project, the documentation, the examples, the demo."""
