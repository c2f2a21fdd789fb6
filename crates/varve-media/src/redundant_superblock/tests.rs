//! Figures, places of parts, and what is read of copies.
