"""S3 tools of other people, one a file: each has `run(context, gateway)`, which raises `Skip` where the tool is not installed."""
