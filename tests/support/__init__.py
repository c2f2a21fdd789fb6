"""What the tests share: the server under test, stamped load, and reporting."""
