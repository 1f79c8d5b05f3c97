"""Plain values: JSON text, durations, types that signatures share. No table and no definition is known here."""
