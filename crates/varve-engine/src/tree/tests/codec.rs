//! Round trip, truncation and bit flips of stored pages.
