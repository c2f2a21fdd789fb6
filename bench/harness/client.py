"""Runs a load's client to its end, and tells what it printed and what CPU time it took; one that is interrupted is killed, with all its processes."""

import contextlib
import os
import signal
import subprocess
import tempfile


def run(command, **options):
    """Exit code, standard output, standard error and CPU seconds (its children's included)."""
    with tempfile.TemporaryFile("w+", errors="replace") as complaint:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaint, text=True, errors="replace", start_new_session=True,
                                   **options)
        try:
            printed = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        complaint.seek(0)
        return process.returncode, printed, complaint.read(), usage.ru_utime + usage.ru_stime
