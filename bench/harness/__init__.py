"""Parts of the benchmarks: the load, the counters around it, and what is made of the figures."""
