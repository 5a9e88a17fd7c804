from agent.tasks.cgroups import Cgroup, cgroup_id, read_threads, walk


def test_a_list_longer_than_any_single_read_is_read_to_its_end(tmp_path):
    threads = list(range(100_000, 140_000))
    (tmp_path / "big").mkdir()
    (tmp_path / "big/tasks").write_text("".join(f"{tid}\n" for tid in threads))
    assert read_threads(tmp_path, "/big", "tasks") == threads


def test_a_cgroup_without_threads_is_not_one_that_is_gone(tmp_path):
    (tmp_path / "tasks").touch()
    assert read_threads(tmp_path, "/", "tasks") == []
    assert read_threads(tmp_path, "/gone", "tasks") is None


def test_a_walk_meets_every_directory_after_the_one_above_it(tmp_path):
    paths = ["/a", "/a/b", "/a/b/c", "/d e", "/d e/f"]
    for path in paths:
        (tmp_path / path[1:]).mkdir()
        (tmp_path / path[1:] / "tasks").touch()
    met = [cgroup.path for cgroup in walk(tmp_path)]
    assert sorted(met) == ["/", *paths]
    assert all(met.index(path) > met.index(path.rpartition("/")[0] or "/") for path in paths)


def test_a_walk_can_start_below_the_root(tmp_path):
    (tmp_path / "pod/container").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    assert [cgroup.path for cgroup in walk(tmp_path, "/pod")] == ["/pod", "/pod/container"]
    assert list(walk(tmp_path, "/gone")) == []


def test_a_cgroup_is_known_by_its_directorys_inode(tmp_path):
    (tmp_path / "a").mkdir()
    inode = (tmp_path / "a").stat().st_ino
    assert cgroup_id(tmp_path, "/a") == inode
    assert list(walk(tmp_path, "/a")) == [Cgroup("/a", inode)]
    assert cgroup_id(tmp_path, "/gone") is None


def test_a_name_that_is_not_utf_8_survives(tmp_path):
    (tmp_path / "caf\udce9").mkdir()
    (tmp_path / "caf\udce9/tasks").write_text("7\n")
    (path,) = [cgroup.path for cgroup in walk(tmp_path) if cgroup.path != "/"]
    assert read_threads(tmp_path, path, "tasks") == [7]
