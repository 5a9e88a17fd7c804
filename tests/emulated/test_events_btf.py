"""The running kernel's own description of its types."""

from pathlib import Path

import pytest

from agent.events.btf import KernelTypes

pytestmark = pytest.mark.bpf


@pytest.fixture
def types():
    with KernelTypes() as types:
        yield types


def test_the_first_members_of_a_list_head_are_pointers_in_a_row(types: KernelTypes):
    assert types.offset("list_head", "next") == 0
    assert types.offset("list_head", "prev") == types.offset("hlist_node", "pprev") == 8


def test_members_of_anonymous_structs_and_unions_are_found(types: KernelTypes):
    assert types.has("page", "mapping")
    assert types.offset("sk_buff", "prev") == 8


def test_what_this_kernel_does_not_have_is_named(types: KernelTypes):
    assert not types.has("task_struct", "no_such_member")
    assert not types.has("no_such_struct", "pid")
    with pytest.raises(KeyError, match=r"task_struct\.no_such_member"):
        types.offset("task_struct", "no_such_member")


def test_bit_fields_are_found_at_their_byte(types: KernelTypes):
    assert types.offset("task_struct", "in_execve") > 0


def test_closing_twice_is_harmless():
    types = KernelTypes()
    types.close()
    types.close()


def test_its_memory_is_given_back():
    def resident_kb() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    KernelTypes().close()
    before = resident_kb()
    for _ in range(10):
        KernelTypes().close()
    assert resident_kb() - before < 2_000
