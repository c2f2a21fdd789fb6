"""Other people's suites and programs, fetched by the registries' own clients at pinned versions into target/conformance, and kept there."""

import json
import os
import shutil
import subprocess

from . import case

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(REPOSITORY, "target", "conformance")


def go_program(package, version):
    """A Go program, built from its module; its path."""
    path = os.path.join(WORK, version, os.path.basename(package))
    if not os.path.exists(path):
        _get("go", "install", f"{package}@{version}", environment={"GOBIN": os.path.dirname(path)})
    return path


def go_module(module, version):
    """The source of a Go module, to be built in; its directory."""
    path = os.path.join(WORK, f"{os.path.basename(os.path.dirname(module))}-{version}")
    if not os.path.isdir(path):
        described = json.loads(_get("go", "mod", "download", "-json", f"{module}@{version}"))
        _copy(described["Dir"], path)
    return path


def crate(name, version):
    """The source of a crate, to be built in; its directory."""
    path = os.path.join(WORK, f"{name}-{version}")
    if not os.path.isdir(path):
        asking = os.path.join(WORK, "asking")
        os.makedirs(os.path.join(asking, "src"), exist_ok=True)
        with open(os.path.join(asking, "Cargo.toml"), "w", encoding="utf-8") as file:
            file.write(f'[package]\nname = "asking"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\n{name} = "={version}"\n')
        open(os.path.join(asking, "src", "lib.rs"), "w", encoding="utf-8").close()
        described = json.loads(_get("cargo", "metadata", "--format-version", "1", "--manifest-path", os.path.join(asking, "Cargo.toml")))
        manifest = next(package["manifest_path"] for package in described["packages"] if package["name"] == name)
        _copy(os.path.dirname(manifest), path)
        with open(os.path.join(path, "Cargo.toml"), "a", encoding="utf-8") as file:
            file.write("\n[workspace]\n")  # It lies in the tree of another one.
    return path


def _get(*command, environment=None):
    case.need(command[0])
    os.makedirs(WORK, exist_ok=True)
    done = subprocess.run(command, cwd=WORK, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode != 0:
        raise case.Skip(f"{' '.join(command[:4])}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _copy(source, path):
    shutil.rmtree(path + ".part", ignore_errors=True)
    shutil.copytree(source, path + ".part")
    for folder, _, names in os.walk(path + ".part"):
        for name in ("", *names):
            os.chmod(os.path.join(folder, name), 0o755)
    os.rename(path + ".part", path)
