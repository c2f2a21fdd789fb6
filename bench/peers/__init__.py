"""The systems that `bench/compare` measures beside each other, one module a kind: how each is installed, started, measured and ended."""
