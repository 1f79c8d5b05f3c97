"""A host project of its own for tests on real processes: settings, workflows that misbehave, one task."""
