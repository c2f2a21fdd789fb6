"""Faults that users found, by what they are about; `tests/outside` runs them."""
