"""Trees of files that tools carry to buckets and back."""

import hashlib
import os

# Names that have to be encoded on their way: in URLs, in XML, in signatures.
ODD_NAMES = ("with space", "plus+plus", "per%cent%20", "amp&<angle>", "quote'\"", "ünï/cödé 🙀", "a=b;c", "(round)[square]{curly}", "~tilde~!$@",
             "comma,colon:", "hash#mark?query", "back`tick^caret|pipe")


def make(directory, files, random, bytes_max=4096, odd=True):
    """Fills a new directory with `files` small files in folders of a hundred, and with files of odd names and sizes."""
    for number in range(files):
        write(os.path.join(directory, f"d{number // 100:03}", f"f{number:05}"), random.randbytes(random.randrange(bytes_max)))
    if odd:
        for name in ODD_NAMES:
            write(os.path.join(directory, "odd", name), name.encode())
    write(os.path.join(directory, "empty"), b"")


def write(path, content):
    """Writes a file, and makes its folders."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def digests(directory):
    """SHA-256 of every file by its path in the directory."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = hashlib.sha256(file.read()).hexdigest()
    return found


def check_equal(context, what, one, other):
    """Fails unless two directories hold the same files."""
    ours, theirs = digests(one), digests(other)
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    context.check(not differing, f"{what}: {len(differing)} of {len(ours)} files differ, the first: {differing[:5]}")
