"""The pull matrix: systems that keep data on several drives, what happens to their drives, and what of it each of them loses."""
