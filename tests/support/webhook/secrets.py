"""Secrets that sign webhooks in tests."""

OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
NEW = "whsec_" + "bmV3" * 11
