import pytest

from agent.tasks.names import Pod, identify

UID = "1f2e3d4c-5b6a-7988-a7b6-c5d4e3f2a1b0"
SLICE_UID = UID.replace("-", "_")
STATIC = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
ID = "3c1d9a4be7f05c2a8a9e6f31d2b0c4e5968778695a4b3c2d1e0f9a8b7c6d5e4f"

BESTEFFORT = f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE_UID}.slice"
BURSTABLE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice"
GUARANTEED = f"/kubepods.slice/kubepods-pod{SLICE_UID}.slice"
STATIC_POD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice"
KIND = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
KIND_POD = f"{KIND}/kubelet-kubepods-burstable-pod{SLICE_UID}.slice"
DOCKER_KIND = f"/docker/{ID[::-1]}{KIND_POD}"
FLAT = f"/kubepods/besteffort/pod{UID}"

# path: pod's uid, QoS class, pod's cgroup, container's id, container's cgroup below the pod's, runtime
PODS = [
    pytest.param(BESTEFFORT, (UID, "besteffort", BESTEFFORT, None, None, None), id="systemd-besteffort-pod"),
    pytest.param(BURSTABLE, (UID, "burstable", BURSTABLE, None, None, None), id="systemd-burstable-pod"),
    pytest.param(GUARANTEED, (UID, "guaranteed", GUARANTEED, None, None, None), id="systemd-guaranteed-pod"),
    pytest.param(
        f"{BESTEFFORT}/cri-containerd-{ID}.scope",
        (UID, "besteffort", BESTEFFORT, ID, f"/cri-containerd-{ID}.scope", "containerd"),
        id="systemd-containerd",
    ),
    pytest.param(
        f"{GUARANTEED}/crio-{ID}.scope",
        (UID, "guaranteed", GUARANTEED, ID, f"/crio-{ID}.scope", "crio"),
        id="systemd-crio",
    ),
    pytest.param(
        f"{GUARANTEED}/crio-{ID}.scope/container",
        (UID, "guaranteed", GUARANTEED, ID, f"/crio-{ID}.scope", "crio"),
        id="systemd-crio-with-crun",
    ),
    pytest.param(
        f"{GUARANTEED}/crio-conmon-{ID}.scope",
        (UID, "guaranteed", GUARANTEED, None, None, None),
        id="systemd-crio-conmon-is-no-container",
    ),
    pytest.param(
        f"{BURSTABLE}/docker-{ID}.scope",
        (UID, "burstable", BURSTABLE, ID, f"/docker-{ID}.scope", "docker"),
        id="systemd-docker",
    ),
    pytest.param(
        f"{BURSTABLE}/libpod-{ID}.scope",
        (UID, "burstable", BURSTABLE, ID, f"/libpod-{ID}.scope", "podman"),
        id="systemd-podman",
    ),
    pytest.param(
        f"{BURSTABLE}/isulad-{ID}.scope",
        (UID, "burstable", BURSTABLE, ID, f"/isulad-{ID}.scope", None),
        id="systemd-unknown-runtime",
    ),
    pytest.param(STATIC_POD, (STATIC, "burstable", STATIC_POD, None, None, None), id="systemd-static-pod"),
    pytest.param(
        f"{STATIC_POD}/cri-containerd-{ID}.scope",
        (STATIC, "burstable", STATIC_POD, ID, f"/cri-containerd-{ID}.scope", "containerd"),
        id="systemd-static-pod-container",
    ),
    pytest.param(FLAT, (UID, "besteffort", FLAT, None, None, None), id="cgroupfs-besteffort-pod"),
    pytest.param(f"{FLAT}/{ID}", (UID, "besteffort", FLAT, ID, f"/{ID}", None), id="cgroupfs-container"),
    pytest.param(f"{FLAT}/c1", (UID, "besteffort", FLAT, "c1", "/c1", None), id="cgroupfs-short-id"),
    pytest.param(
        f"/kubepods/burstable/pod{UID}/{ID}",
        (UID, "burstable", f"/kubepods/burstable/pod{UID}", ID, f"/{ID}", None),
        id="cgroupfs-burstable",
    ),
    pytest.param(
        f"/kubepods/pod{UID}/{ID}",
        (UID, "guaranteed", f"/kubepods/pod{UID}", ID, f"/{ID}", None),
        id="cgroupfs-guaranteed",
    ),
    pytest.param(
        f"/kubepods/burstable/pod{STATIC}/{ID}",
        (STATIC, "burstable", f"/kubepods/burstable/pod{STATIC}", ID, f"/{ID}", None),
        id="cgroupfs-static-pod",
    ),
    pytest.param(f"{FLAT}/crio-{ID}", (UID, "besteffort", FLAT, ID, f"/crio-{ID}", "crio"), id="cgroupfs-crio"),
    pytest.param(f"{FLAT}/crio-conmon-{ID}", (UID, "besteffort", FLAT, None, None, None), id="cgroupfs-crio-conmon"),
    pytest.param(f"{FLAT}/kata_{ID}", (UID, "besteffort", FLAT, ID, f"/kata_{ID}", "kata"), id="kata-sandbox"),
    pytest.param(
        f"{FLAT}/{ID}/kata_{ID[::-1]}", (UID, "besteffort", FLAT, ID, f"/{ID}", None), id="kata-below-container"
    ),
    pytest.param(
        f"{BESTEFFORT}/cri-containerd-{ID}.scope/system.slice/nginx.service",
        (UID, "besteffort", BESTEFFORT, ID, f"/cri-containerd-{ID}.scope", "containerd"),
        id="systemd-in-a-container",
    ),
    pytest.param(
        f"{FLAT}/{ID}/init.scope", (UID, "besteffort", FLAT, ID, f"/{ID}", None), id="systemd-in-a-cgroupfs-container"
    ),
    pytest.param(
        f"{FLAT}/{ID}/kubepods/burstable/pod{STATIC}/{ID[::-1]}",
        (UID, "besteffort", FLAT, ID, f"/{ID}", None),
        id="cluster-in-a-pod-is-the-outer-pod's",
    ),
    pytest.param(
        f"{KIND_POD}/cri-containerd-{ID}.scope",
        (UID, "burstable", KIND_POD, ID, f"/cri-containerd-{ID}.scope", "containerd"),
        id="kind-seen-from-inside",
    ),
    pytest.param(
        f"{DOCKER_KIND}/cri-containerd-{ID}.scope",
        (UID, "burstable", DOCKER_KIND, ID, f"/cri-containerd-{ID}.scope", "containerd"),
        id="kind-seen-from-the-host",
    ),
    pytest.param(
        f"/system.slice/docker-{ID[::-1]}.scope/kubelet/kubepods/besteffort/pod{UID}/{ID}",
        (
            UID,
            "besteffort",
            f"/system.slice/docker-{ID[::-1]}.scope/kubelet/kubepods/besteffort/pod{UID}",
            ID,
            f"/{ID}",
            None,
        ),
        id="kind-with-cgroupfs",
    ),
    pytest.param(
        f"/my.slice/my-kubepods.slice/my-kubepods-pod{SLICE_UID}.slice/crio-{ID}.scope",
        (
            UID,
            "guaranteed",
            f"/my.slice/my-kubepods.slice/my-kubepods-pod{SLICE_UID}.slice",
            ID,
            f"/crio-{ID}.scope",
            "crio",
        ),
        id="cgroup-root-with-systemd",
    ),
    pytest.param(
        f"/my/kubepods/burstable/pod{UID}/{ID}",
        (UID, "burstable", f"/my/kubepods/burstable/pod{UID}", ID, f"/{ID}", None),
        id="cgroup-root-with-cgroupfs",
    ),
    pytest.param(
        f"/system.slice/containerd.service/kubepods-besteffort-pod{SLICE_UID}.slice:cri-containerd:{ID}",
        (
            UID,
            "besteffort",
            f"/system.slice/containerd.service/kubepods-besteffort-pod{SLICE_UID}.slice:cri-containerd:{ID}",
            ID,
            "",
            "containerd",
        ),
        id="runtime-without-systemd-under-a-kubelet-with",
    ),
    pytest.param(
        f"/kubepods-pod{SLICE_UID}.slice:cri-containerd:{ID}/nested",
        (UID, "guaranteed", f"/kubepods-pod{SLICE_UID}.slice:cri-containerd:{ID}", ID, "", "containerd"),
        id="the-same-on-v1",
    ),
]

# path: units of the system's manager, of the user's
UNITS = [
    ("/", [], []),
    ("/init.scope", ["init.scope"], []),
    ("/system.slice", ["system.slice"], []),
    ("/system.slice/mysqld.service", ["system.slice", "mysqld.service"], []),
    ("/system.slice/mysqld.service/workers", ["system.slice", "mysqld.service"], []),
    (
        "/system.slice/system-getty.slice/getty@tty1.service",
        ["system.slice", "system-getty.slice", "getty@tty1.service"],
        [],
    ),
    (
        r"/system.slice/system-postgresql.slice/postgresql@15\x2dmain.service",
        ["system.slice", "system-postgresql.slice", r"postgresql@15\x2dmain.service"],
        [],
    ),
    (r"/system.slice/srv-my\x2ddisk.mount", ["system.slice", r"srv-my\x2ddisk.mount"], []),
    ("/system.slice/sshd.socket", ["system.slice", "sshd.socket"], []),
    ("/system.slice/swapfile.swap", ["system.slice", "swapfile.swap"], []),
    ("/system.slice/_cpu.service", ["system.slice", "cpu.service"], []),
    ("/system.slice/__private.service", ["system.slice", "_private.service"], []),
    (
        "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator",
        ["machine.slice", r"machine-qemu\x2d1\x2dvm.scope"],
        [],
    ),
    (f"/machine.slice/libpod-{ID}.scope/container", ["machine.slice", f"libpod-{ID}.scope"], []),
    (f"/system.slice/docker-{ID}.scope/system.slice/mysqld.service", ["system.slice", f"docker-{ID}.scope"], []),
    (f"/docker/{ID}/system.slice/mysqld.service", [], []),
    (
        "/user.slice/user-1000.slice/session-3.scope",
        ["user.slice", "user-1000.slice", "session-3.scope"],
        [],
    ),
    (
        "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-4242.scope",
        ["user.slice", "user-1000.slice", "user@1000.service"],
        ["app.slice", "app-firefox-4242.scope"],
    ),
    (
        "/user.slice/user-1000.slice/user@1000.service/mysqld.service/x.service",
        ["user.slice", "user-1000.slice", "user@1000.service"],
        ["mysqld.service"],
    ),
    (
        "/user.slice/user-1000.slice/user@1000.service/init.scope",
        ["user.slice", "user-1000.slice", "user@1000.service"],
        ["init.scope"],
    ),
    ("/system.slice/foo@.service", ["system.slice"], []),
    ("/system.slice/cron.timer", ["system.slice"], []),
    ("/system.slice/.service", ["system.slice"], []),
    ("/batch/nightly", [], []),
    (f"{BESTEFFORT}/cri-containerd-{ID}.scope", [*BESTEFFORT[1:].split("/"), f"cri-containerd-{ID}.scope"], []),
]

NO_PODS = [
    "/",
    "/kubepods",
    "/kubepods/besteffort",
    "/kubepods.slice",
    "/kubepods.slice/kubepods-besteffort.slice",
    "/kubepods/guaranteed/pod1",
    "/kubepods/besteffort/pod",
    "/podman/podcast",
    f"/docker/{ID}",
    f"/system.slice/docker-{ID}.scope",
    f"/machine.slice/libpod-{ID}.scope",
    f"/kata_overhead/{ID}",
    "/system.slice/kubelet.service",
]


@pytest.mark.parametrize(("path", "expected"), PODS)
def test_a_pod_and_its_container_are_recognised(path, expected):
    uid, qos, pod_path, container_id, below, runtime = expected
    container_path = None if below is None else pod_path + below
    assert identify(path).pod == Pod(uid, qos, pod_path, container_id, container_path, runtime)


@pytest.mark.parametrize("path", NO_PODS)
def test_what_is_no_pod_is_not_taken_for_one(path):
    assert identify(path).pod is None


@pytest.mark.parametrize(("path", "system", "user"), UNITS)
def test_units_are_named_as_systemctl_shows_them(path, system, user):
    names = identify(path)
    assert [unit.name for unit in names.units] == system
    assert [unit.name for unit in names.user_units] == user


@pytest.mark.parametrize("path", [row[0] for row in UNITS])
def test_a_units_cgroup_is_the_path_up_to_it(path):
    names = identify(path)
    for unit in (*names.units, *names.user_units):
        assert f"{path}/".startswith(f"{unit.path}/")
        assert unit.path.rpartition("/")[2] in (unit.name, f"_{unit.name}")


def test_every_container_of_a_pod_has_the_same_pod():
    """Field report 24: init containers, sidecars and the sandbox are the pod's like its main container."""
    pods = {identify(f"{BESTEFFORT}/cri-containerd-{letter * 64}.scope").pod.path for letter in "abc"}
    assert pods == {BESTEFFORT}
