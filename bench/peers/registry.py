"""Programs from the registries of their languages, at pinned versions; `tests/support/fetched.py` gets them and keeps them."""

import os
import sys

from .peer import Absent

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(REPOSITORY, "tests"))

from support import case, fetched  # noqa: E402


def go_program(site, package, version):
    """Path of a Go program, built here if `site` lets it. Raises Absent."""
    path = os.path.join(fetched.WORK, version, os.path.basename(package))
    if not os.path.exists(path) and not site.may_install:
        raise Absent(f"not built yet (bench/compare --install runs go install {package}@{version})")
    try:
        return fetched.go_program(package, version)
    except case.Skip as why:
        raise Absent(str(why)) from None
