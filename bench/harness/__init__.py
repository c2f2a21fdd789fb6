"""Parts of the end-to-end benchmark `bench/run`."""
