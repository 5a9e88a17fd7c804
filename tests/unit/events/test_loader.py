"""The loading process with a stand-in for bcc, found on the path as bcc would be. tests/emulated has the real one."""

import os
import sys
import textwrap
from pathlib import Path

import pytest

from agent.events import loader
from agent.events.loader import BpfUnavailableError, Cause, load


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "some.bpf.c"
    path.write_text("int x;")
    return path


@pytest.fixture
def bcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def install(text: str) -> None:
        package = tmp_path / "path" / "bcc"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(package.parent)

    return install


WORKING = """
    import os, sys
    class Map:
        def __init__(self, text):
            self.map_fd = os.memfd_create("map")
            os.write(self.map_fd, text)
    class BPF:
        def __init__(self, text, cflags):
            os.write(2, b"a warning")
            self.maps = {"flags": Map(" ".join(cflags).encode()), "text": Map(text)}
            self.raw_tracepoint_fds = {b"one": os.memfd_create("one")}
            self.tracepoint_fds = {b"two": os.memfd_create("two")}
        def __getitem__(self, name):
            return self.maps[name]
    """


def refusing(said: str, printed: str) -> str:
    return f"""
    import os
    class BPF:
        def __init__(self, **options):
            os.write(2, {printed.encode()!r})
            raise Exception({said!r})
    """


def refusal(source: Path) -> BpfUnavailableError:
    with pytest.raises(BpfUnavailableError) as raised:
        load(source, maps=[])
    return raised.value


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def content(descriptor: int) -> bytes:
    return os.pread(descriptor, 1000, 0)


def test_descriptors_of_maps_and_links_arrive_and_stay_out_of_other_programs(bcc, source: Path):
    bcc(WORKING)
    program = load(source, cflags=["-DA=1", "-DB=2"], maps=["text", "flags"])
    assert content(program.maps["text"]) == b"int x;"
    assert content(program.maps["flags"]) == b"-DA=1 -DB=2"
    assert len(program.links) == 2
    assert not any(os.get_inheritable(fd) for fd in (*program.maps.values(), *program.links))
    program.close()


def test_closing_leaves_no_descriptor_open(bcc, source: Path):
    bcc(WORKING)
    before = open_descriptors()
    load(source, maps=["text", "flags"]).close()
    assert open_descriptors() == before


def test_a_failure_leaves_no_descriptor_open(bcc, source: Path):
    bcc(refusing("no", ""))
    before = open_descriptors()
    refusal(source)
    assert open_descriptors() == before


def test_the_daemon_itself_never_imports_bcc(bcc, source: Path):
    bcc(WORKING)
    load(source, maps=[]).close()
    assert "bcc" not in sys.modules


@pytest.mark.parametrize("package", ["", "raise ImportError('no module')", "raise OSError('libbcc.so.0: not found')"])
def test_a_bcc_that_is_missing_or_another_project_names_the_package_and_its_interpreter(
    bcc, source: Path, package: str
):
    bcc(package)
    error = refusal(source)
    assert error.cause is Cause.BCC
    for hint in ("python3-bpfcc", "python3-bcc", "/usr/bin/python3", "--system-site-packages", "PyPI"):
        assert hint in str(error)


@pytest.mark.parametrize(
    ("said", "printed", "cause", "hint"),
    [
        (
            "Failed to compile BPF module <text>",
            "/virtual/main.c:1:43: error: use of undeclared identifier 'x'\n1 error generated.\n",
            Cause.COMPILER,
            "undeclared identifier",
        ),
        (
            "Failed to compile BPF module <text>",
            "/virtual/main.c:1:1: error: a\n/virtual/main.c:2:1: error: b\n1 warning and 2 errors generated.\n",
            Cause.COMPILER,
            "the compiler refuses",
        ),
        (
            "Failed to compile BPF module <text>",
            "could not open bpf map: events, error: Operation not permitted\n",
            Cause.PERMISSION,
            "CAP_BPF and CAP_PERFMON",
        ),
        (
            "Need super-user privileges to run",
            "bpf: Failed to load program: Operation not permitted\n",
            Cause.PERMISSION,
            "CAP_BPF and CAP_PERFMON",
        ),
        (
            "Failed to attach BPF program b'tracepoint__task__task_newtask' to tracepoint b'task:task_newtask'",
            "perf_event_open: Permission denied\n",
            Cause.PERMISSION,
            "kernel.perf_event_paranoid",
        ),
        (
            "Failed to attach BPF to raw tracepoint",
            "bpf_attach_raw_tracepoint (nosuch): No such file or directory\n",
            Cause.TRACEPOINTS,
            "nosuch",
        ),
        (
            "Failed to compile BPF module <text>",
            "note: forward declaration of 'struct tracepoint__task__task_newtask'\n1 warning and 1 error generated.\n",
            Cause.TRACEPOINTS,
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
        (
            "Failed to load BPF program b'raw_tracepoint__task_newtask': Permission denied",
            "bpf: Failed to load program: Permission denied\nR1 invalid mem access 'scalar'\n1 warning generated.\n",
            Cause.KERNEL,
            "invalid mem access",
        ),
        (
            "Failed to compile BPF module <text>",
            "could not open bpf map: events, error: Invalid argument\n",
            Cause.KERNEL,
            "could not open bpf map",
        ),
    ],
)
def test_a_refusal_tells_its_cause_the_program_and_all_that_was_said(  # noqa: PLR0917 - a table's columns
    bcc, source: Path, said: str, printed: str, cause: Cause, hint: str
):
    bcc(refusing(said, printed))
    error = refusal(source)
    assert error.cause is cause
    assert str(error).startswith("some.bpf.c: ")
    assert hint in str(error)
    assert printed.strip() in str(error)
    assert (said in str(error)) is (cause is not Cause.PERMISSION)


@pytest.mark.parametrize(("uid", "first"), [(0, "the kernel refuses eBPF"), (1000, "this needs root: the kernel")])
def test_what_is_not_permitted_is_one_line_that_begins_with_what_to_do(
    bcc, source: Path, monkeypatch: pytest.MonkeyPatch, uid: int, first: str
):
    bcc(refusing("Failed to compile BPF module <text>", "could not open bpf map: a, error: Operation not permitted\n"))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    said = str(refusal(source))
    assert said.startswith(f"some.bpf.c: {first}")
    assert said.endswith(" as well (could not open bpf map: a, error: Operation not permitted)")
    assert "\n" not in said


def test_a_source_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"missing\.bpf\.c"):
        load(tmp_path / "missing.bpf.c", maps=[])


def test_a_loader_that_dies_is_told_with_its_last_words(bcc, source: Path):
    bcc("import os; os.write(1, b'last words'); os.abort()")
    error = refusal(source)
    assert error.cause is Cause.LOADER
    assert "died" in str(error)
    assert "last words" in str(error)


def test_a_loader_that_hangs_is_ended_and_told(bcc, source: Path, monkeypatch: pytest.MonkeyPatch):
    bcc("import os, signal; os.write(1, b'last words'); signal.pause()")
    monkeypatch.setattr(loader, "_TIMEOUT_SECONDS", 1)
    error = refusal(source)
    assert error.cause is Cause.LOADER
    assert "more than 1 s" in str(error)
    assert "last words" in str(error)
