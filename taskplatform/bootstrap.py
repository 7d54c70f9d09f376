"""Sets the project up and starts its parts: `python3 taskplatform/bootstrap.py COMMAND`.

COMMAND is run, check, test, test-fast, test-next, test-long, test-cluster or locks. Standard
library only, and written in the syntax of Python 3.6, so that an old Python prints one clear line
instead of a SyntaxError.
"""

import collections.abc
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile

OLDEST_PYTHON = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, "installed.json")
PIP_LOG = os.path.join(VENV, "pip.log")
COMPILE = (
    "import compileall, sysconfig;"
    "compileall.compile_dir(sysconfig.get_path('purelib'), quiet=2, workers=0)"
)

RUN_LOCK = "requirements.lock"
MYSQL_LOCK = "requirements-mysql.lock"
DEV_LOCK = "requirements-dev.lock"
ALL_LOCKS = [RUN_LOCK, MYSQL_LOCK, DEV_LOCK]

# Disk space that an installation needs with its downloads, and that a start needs.
LOCK_MEGABYTES = {RUN_LOCK: 250, MYSQL_LOCK: 50, DEV_LOCK: 450}
VAR_MEGABYTES = 50
BUILD_PACKAGES = ["pkg-config", "default-libmysqlclient-dev", "gcc", "python3-dev"]
TEST_PACKAGES = ["mariadb-server", "redis-server", "nginx", "fonts-noto-cjk", "curl"]
# The browser without a window takes less of a processor than the one that hides it.
TEST_PACKAGES += ["chromium-headless-shell"]
# The packages that check the files of taskplatform/deploy.
TEST_PACKAGES += ["openssl", "systemd"]
CLUSTER_PACKAGES = ["mariadb-server", "galera-4", "rsync", "haproxy", "redis-server"]
# The languages of taskplatform/docs/inbox.md, which a test runs.
LANGUAGE_PACKAGES = ["php-cli", "php-mysql", "php-sqlite3", "default-jdk-headless"]
LANGUAGE_PACKAGES += ["libmariadb-java", "golang-go", "golang-github-go-sql-driver-mysql-dev"]
LANGUAGE_PACKAGES += ["nodejs", "npm"]
LONG_PACKAGES = sorted({*TEST_PACKAGES, *CLUSTER_PACKAGES, *LANGUAGE_PACKAGES})
# By what a package is known to be there, if not by a program of its name.
PROGRAMS = {"php-cli": "php", "default-jdk-headless": "javac", "golang-go": "go", "nodejs": "node"}
FILES = {
    "galera-4": "/usr/lib/galera/libgalera_smm.so",
    "libmariadb-java": "/usr/share/java/mariadb-java-client.jar",
    "golang-github-go-sql-driver-mysql-dev": "/usr/share/gocode/src/github.com/go-sql-driver/mysql",
}
PHP_MODULES = {"php-mysql": "pdo_mysql", "php-sqlite3": "pdo_sqlite"}
# Users other than root often have no sbin folder in their PATH.
SEARCH_PATH = os.pathsep.join(
    [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"]
)
SERVICE_POLICY = "/usr/sbin/policy-rc.d"
# Held by a lock, because a command that is killed removes nothing, but loses its locks.
NO_STARTS = """#!/bin/sh
# No service starts while make installs packages. When that has ended, this file removes itself.
exec 9< "$0"
flock --nonblock 9 || exit 101
rm -f "$0"
"""
STOP_SECONDS = 20.0
FULL_DISK = "The disk is full: No space left on device. Free some space and try again."


class CannotGoOn(Exception):
    """Why the command cannot continue and what to do about it, in one line."""


def say(line: "str") -> "None":
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# --- What the machine must have -----------------------------------------------------------------


def require_python(major: "int", minor: "int") -> "None":
    if (major, minor) < OLDEST_PYTHON:
        raise CannotGoOn(
            "Python {}.{} is too old: {}.{} or newer is needed. Name one that you have, "
            "for example: make run PYTHON=python3.12".format(major, minor, *OLDEST_PYTHON)
        )


def require_space(folder: "str", megabytes: "int") -> "None":
    """Require free disk space for `folder`, which need not exist yet."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free // 2**20
    if free < megabytes:
        raise CannotGoOn(
            f"The disk of {folder} is full: {free} MB are free and {megabytes} MB are needed. "
            "Free some space and try again."
        )


def require_venv_module() -> "None":
    """Debian ships Python without the parts that make virtual environments."""
    if has_venv_module():
        return
    package = "python{}.{}-venv".format(*sys.version_info[:2])
    apt_install([package], "A virtual environment")
    if not has_venv_module():
        raise CannotGoOn(
            f"{sys.executable} has no venv and ensurepip modules, and the package {package} does "
            "not contain them. Name another Python, for example: make run PYTHON=/usr/bin/python3"
        )


def has_venv_module() -> "bool":
    # Asked in a process of its own, because Python remembers failed imports.
    return succeeds([sys.executable, "-c", "import ensurepip, venv; ensurepip.version()"])


def succeeds(command: "list[str]") -> "bool":
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
    except OSError:
        return False


def has_program(*names: "str") -> "bool":
    return all(shutil.which(name, path=SEARCH_PATH) for name in names)


def has_package(package: "str") -> "bool":
    """Whether the machine has what the Debian package provides, from any source."""
    if package == "default-libmysqlclient-dev":
        libraries = ["mysqlclient", "mariadb", "libmariadb"]
        return any(succeeds(["pkg-config", "--exists", library]) for library in libraries)
    if package == "python3-dev":
        return os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
    if package == "mariadb-server":
        return has_program("mariadbd", "mariadb-install-db")
    if package == "systemd":
        return has_program("systemd-analyze")
    if package in FILES:
        return os.path.exists(FILES[package])
    if package in PHP_MODULES:
        return succeeds(["php", "-r", f"exit(extension_loaded('{PHP_MODULES[package]}') ? 0 : 1);"])
    if package == "fonts-noto-cjk":
        return has_program("fc-list") and bool(subprocess.check_output(["fc-list", ":lang=zh"]))  # noqa: S607
    return has_program(PROGRAMS.get(package, package))


def require_packages(packages: "list[str]", purpose: "str") -> "None":
    missing = [package for package in packages if not has_package(package)]
    if missing:
        apt_install(missing, purpose)


def apt_install(packages: "list[str]", purpose: "str") -> "None":
    """Install Debian packages as root, else stop with the command that installs them."""
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or not has_program("apt-get"):
        raise CannotGoOn(
            f"{purpose} needs {', '.join(packages)}. On Debian or Ubuntu run: "
            f"sudo {' '.join(command)}"
        )
    say(f"Installing {', '.join(packages)} with apt-get.")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    with no_service_starts():
        # A failure here does not matter if the packages of an older list still exist.
        run(["apt-get", "update"], environment, quiet=True)
        code, output = run(command, environment, quiet=True)
    if code != 0:
        explain_full_disk(output)
        raise CannotGoOn(
            f"apt-get could not install {', '.join(packages)}: {last_line(output)} "
            f"Run it by hand: {' '.join(command)}"
        )


@contextlib.contextmanager
def no_service_starts() -> "collections.abc.Iterator[None]":
    """Keep Debian from starting the servers that it installs: tests start private ones."""
    if not os.path.exists(SERVICE_POLICY):
        write(SERVICE_POLICY, NO_STARTS)
    with open(SERVICE_POLICY, encoding="utf-8", errors="replace") as policy:
        if policy.read() != NO_STARTS:
            yield
            return
        fcntl.flock(policy, fcntl.LOCK_SH)
        try:
            os.chmod(SERVICE_POLICY, 0o755)  # noqa: S103
            yield
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(SERVICE_POLICY)


# --- Processes ----------------------------------------------------------------------------------


def run(
    command: "list[str]", environment: "dict[str, str] | None" = None, quiet: "bool" = False
) -> "tuple[int, str]":
    """Exit code and, when `quiet`, the output.

    The command has a session of its own, so Ctrl-C and SIGTERM reach only this process, which stops
    the command and waits. They are blocked until the command is known, else it could go on running,
    and again while it stops: a second Ctrl-C would leave behind what it has not stopped yet.
    """
    stops = {signal.SIGINT, signal.SIGTERM}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        output, _ = process.communicate()
    except KeyboardInterrupt:
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
        end(process)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process.returncode, output or ""


def end(process: "subprocess.Popen[str]") -> "None":
    """Stop a command and all it started: SIGINT, on which pytest and pip clean up, then harder."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=STOP_SECONDS)
                return
    except ProcessLookupError:
        process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_line(output: "str") -> "str":
    """The last line with an error, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|E|Error|error)\b", line)]
    return (errors or lines or ["no reason was given."])[-1]


def explain_full_disk(output: "str") -> "None":
    for folder in (ROOT, tempfile.gettempdir()):
        require_space(folder, 5)
    if "No space left on device" in output or "[Errno 28]" in output:
        raise CannotGoOn(FULL_DISK)


# --- The virtual environment --------------------------------------------------------------------


def stamp_of(locks: "list[str]") -> "dict[str, str]":
    """The inputs of an installation. The folder is one of them, because the scripts in a virtual
    environment contain its path."""
    stamp = {"python": sys.version, "root": ROOT}
    for lock in locks:
        with open(os.path.join(ROOT, lock), "rb") as file:
            stamp[lock] = hashlib.sha256(file.read()).hexdigest()
    return stamp


def installed() -> "dict[str, str]":
    """The stamp of the last complete installation, {} when there is none."""
    try:
        with open(STAMP, encoding="utf-8") as file:
            stamp = json.load(file)
    except (OSError, ValueError):
        return {}
    return stamp if os.path.exists(VENV_PYTHON) and isinstance(stamp, dict) else {}


def install(locks: "list[str]") -> "None":
    """Install the locked packages into .venv, unless its stamp says that they are installed."""
    wanted = stamp_of(locks)
    if wanted.items() <= installed().items():
        return
    with open(os.path.join(ROOT, RUN_LOCK), "r+b") as lock_file:
        # Of two commands in a fresh clone, the second waits and finds everything installed.
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        kept = installed()
        if wanted.items() <= kept.items():
            return
        require_space(ROOT, sum(LOCK_MEGABYTES[lock] for lock in locks))
        make_venv()
        if MYSQL_LOCK in locks and wanted[MYSQL_LOCK] != kept.get(MYSQL_LOCK):
            require_packages(BUILD_PACKAGES, "Building mysqlclient")
        say("Installing the packages of {}; this takes a minute.".format(", ".join(locks)))
        if os.path.exists(STAMP):
            os.remove(STAMP)
        requirements = [part for lock in locks for part in ("--requirement", lock)]
        pip(["--require-hashes", *requirements])
        same_base = all(kept.get(name) == wanted[name] for name in ("python", "root"))
        write(STAMP, json.dumps({**(kept if same_base else {}), **wanted}, indent=1))


def make_venv() -> "None":
    """Create .venv; again when it is broken, incomplete, or of another Python."""
    probe = f"import pip, sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    if installed().get("root", ROOT) == ROOT and succeeds([VENV_PYTHON, "-c", probe]):
        return
    require_venv_module()
    if os.path.islink(VENV):
        raise CannotGoOn(
            "The virtual environment .venv is a link, and creating it again would empty the linked "
            "folder. Remove the link and try again."
        )
    say("Creating the virtual environment .venv.")
    # This Python may be the one in .venv, which is about to be cleared.
    python = getattr(sys, "_base_executable", sys.executable)
    code, output = run([python, "-m", "venv", "--clear", VENV], quiet=True)
    if code != 0:
        explain_full_disk(output)
        raise CannotGoOn(f"The virtual environment .venv could not be created: {last_line(output)}")


def pip(arguments: "list[str]", python: "str" = "") -> "None":
    """Install with the Python of .venv, or with another one."""
    python = python or VENV_PYTHON
    command = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    environment = dict(os.environ, PIP_USER="0", PIP_REQUIRE_VIRTUALENV="0")
    code, output = run([*command, "--no-compile", *arguments], environment, quiet=True)
    if code != 0:
        explain_full_disk(output)
        write(PIP_LOG, output)
        raise CannotGoOn(why_pip_failed(output) + " The output of pip is in .venv/pip.log.")
    # On all cores, which pip does on one. What cannot be compiled nothing imports.
    run([python, "-c", COMPILE], quiet=True)


def why_pip_failed(output: "str") -> "str":
    unreachable = r"NewConnectionError|name resolution|timed out|ProxyError|SSLError|Max retries"
    if "DO NOT MATCH THE HASHES" in output:
        return "A package differs from the lock file: its hash does not match."
    if re.search(unreachable, output):
        return (
            "The packages could not be downloaded: the package index does not answer. Check the "
            "network or name a mirror in PIP_INDEX_URL, then try again."
        )
    return f"pip could not install the packages: {last_line(output)}"


def write(path: "str", text: "str") -> "None":
    """Replace a file atomically."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


# --- The commands -------------------------------------------------------------------------------


def start() -> "int":
    """Install what running needs and become `manage.py serve`; returns only on a failure."""
    install([RUN_LOCK])
    database, database_file, var = settings("DATABASE_URL", "DATABASE_URL_FILE", "VAR_DIR")
    # An address without a password, as that of SQLite, needs no file of its own.
    if database.startswith("mysql") or database_file:
        install([RUN_LOCK, MYSQL_LOCK])
    require_space(os.path.join(ROOT, var or "var"), VAR_MEGABYTES)
    # Replaces this process, so that signals go straight to the supervisor.
    os.execv(VENV_PYTHON, [VENV_PYTHON, os.path.join(ROOT, "manage.py"), "serve"])  # noqa: S606


def settings(*names: "str") -> "list[str]":
    """Variables of the environment or `.env`, as the settings read them; "" for absent ones."""
    code = (
        "import environ, json, os, sys; environ.Env.read_env(sys.argv[1]); "
        "print(json.dumps([os.environ.get(name, '').strip() for name in sys.argv[2:]]))"
    )
    command = [VENV_PYTHON, "-c", code, os.path.join(ROOT, ".env"), *names]
    values = json.loads(subprocess.check_output(command))  # noqa: S603
    return list(values)


def develop(module: "str", *arguments: "str") -> "int":
    """Install what development needs and become one of the tools in tests."""
    install(ALL_LOCKS)
    os.execv(VENV_PYTHON, [VENV_PYTHON, "-m", module, *arguments])  # noqa: S606


def suite(command: "str", packages: "list[str]", purpose: "str" = "The test suite") -> "int":
    """Install the servers and the browser that tests need, then run them."""
    require_packages(BUILD_PACKAGES + packages, purpose)
    return develop("tests.gate", command)


def tool(name: "str") -> "str":
    return os.path.join(VENV, "bin", name)


COMMANDS: "dict[str, collections.abc.Callable[[], int]]" = {
    "run": start,
    "check": lambda: develop("tests.gate", "check"),
    "test": lambda: suite("test", TEST_PACKAGES),
    "test-fast": lambda: develop("tests.gate", "test-fast"),
    "test-next": lambda: suite("test-next", TEST_PACKAGES),
    "test-long": lambda: suite("test-long", LONG_PACKAGES),
    "test-cluster": lambda: suite("test-cluster", CLUSTER_PACKAGES, "The cluster"),
    "locks": lambda: develop("tests.locks"),
}


def main(arguments: "list[str]") -> "int":
    """The exit code of one command; 1 with one line on standard error when it cannot continue."""
    try:
        require_python(*sys.version_info[:2])
        if len(arguments) != 1 or arguments[0] not in COMMANDS:
            raise CannotGoOn("Which command? One of: {}.".format(", ".join(COMMANDS)))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        os.chdir(ROOT)
        return COMMANDS[arguments[0]]()
    except CannotGoOn as reason:
        sys.stderr.write(f"{reason}\n")
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return 130
    except OSError as error:
        message = f"{error.filename or ROOT}: {error.strerror}."
        if error.errno == errno.ENOSPC:
            message = FULL_DISK
        sys.stderr.write(f"{message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
